"""The names of sinks and sources: some names are refused for new ones, but existing sinks and
sources with such names keep working."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from laurels.cli import main
from laurels.errors import InvalidName
from laurels.flows.sinks.configured import SinkSettings
from tests.serving import ADMIN_KEY, Served

ODD = [
    "",
    "a/b",
    "../a",
    "two words",
    "a\nb",
    "a\x00b",
    "é",
    "-a",
    "x" * 65,
    "x" * 301,
    "x" * 9_000,
]


@pytest.fixture
def boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b", changes="7d"))
        lb.submit("b", "ann", 1)
    return tmp_path / "boards"


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_refused(
    boards: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    to = f"sqlite:///{boards.parent}/ledger.db"
    assert main(["sink", "run", "--at", str(boards), "--to", to, "--until-end", "--", name]) == 2
    assert main(["source", "run", "--at", str(boards), "--from", "x.jsonl", "--", name]) == 2
    assert capsys.readouterr().err.count("invalid_name") == 2
    assert not (boards.parent / "ledger.db").exists()
    with pytest.raises(InvalidName, match="expected a name for a sink"):
        Served(boards, admin_key=ADMIN_KEY, sinks={name: SinkSettings(to=to)})


@pytest.mark.parametrize("name", ["a/b", "two words", "x" * 301])
def test_an_existing_sink_with_an_odd_name_still_runs(boards: Path, name: str) -> None:
    to, at = f"{boards.parent}/changes.jsonl", str(boards)
    with laurels.open(boards) as lb:
        start = lb.changes("b", limit=1).cursor
        lb.submit_many("b", [], position=(f"sink:{name}", start))
    assert main(["sink", "run", name, "--at", at, "--to", to, "--until-end"]) == 0
    assert Path(to).read_text().count("ann") == 1
    with Served(boards, admin_key=ADMIN_KEY, sinks={name: SinkSettings(to=to)}):
        pass
    assert main(["sink", "status", name, "--at", at]) == 0
    assert main(["sink", "forget", name, "--at", at]) == 0
    assert main(["sink", "run", name, "--at", at, "--to", to, "--until-end"]) == 2
