"""The commands `source run` and `source status`: their output, and the ways in which they end."""

import signal
from pathlib import Path

import pytest

import laurels
from tests.cli.running import Shell

from .sourcing import FOUR_FIELDS, SourceProcess, four_fields, written

TELLING = "from laurels.cli.flows import source_run\nsource_run.PROGRESS_SECONDS = 0.0"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Shell:
    """Return a shell in a directory that has a folder with the board gifts, and a file of two
    events."""
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts"))
    written(tmp_path / "events", [four_fields("gifts", "ann", 1), four_fields("x", "ann", 1)])
    return Shell(monkeypatch, tmp_path)


def test_status_shows_the_positions_of_a_source(shell: Shell) -> None:
    assert shell("source", "status", "s", "--json").json() == {
        "source": "s",
        "boards": [],
        "wait": None,
    }
    run = ("source", "run", "s", "--from", "events", "--until-end", "--map", FOUR_FIELDS)
    ran = shell(*run, "--json")
    size = (shell.directory / "events").stat().st_size
    assert (ran.code, ran.json()["position"], ran.json()["applied"]) == (0, str(size), 1)
    assert "1 messages for boards that do not exist: x" in ran.err
    (row,) = shell("source", "status", "s", "--json").json()["boards"]
    assert (row["board"], row["position"]) == ("gifts", str(size))
    assert str(size) in shell("source", "status", "s").out
    assert shell("source", "status", "s", "--boards", "x*", "--json").json()["boards"] == []


def test_sinks_and_sources_are_listed(shell: Shell) -> None:
    with laurels.open(shell.directory / "boards") as lb:
        lb.change("gifts", changes="1h")
        for name in ("a", "b", "c", "d.e"):
            lb.create(laurels.Board(name, changes="1h"))
            lb.submit_many(name, [], position=("import.csv", "1"))
    assert shell("sink", "list", "--json").json() == []
    assert shell("source", "list").code == 0
    run = ("source", "run", "s", "--from", "events", "--until-end", "--map", FOUR_FIELDS)
    shell(*run, "--boards", "gifts")
    for name, boards in (("all", ()), ("some", ("--boards", "a", "--boards", "d*"))):
        target = f"{name}.jsonl" if boards else "sqlite:///ledger.db"
        assert shell("sink", "run", name, "--to", target, "--until-end", *boards).code == 0
    assert shell("source", "list", "--json").json() == [{"name": "s", "boards": ["gifts"]}]
    assert shell("sink", "list", "--json").json() == [
        {"name": "all", "boards": ["a", "b", "c", "d.e", "gifts"]},
        {"name": "some", "boards": ["a", "d.e"]},
    ]
    assert "a, b, c and 2 more" in shell("sink", "list").out
    few = shell("sink", "list", "--boards", "b", "--json").json()
    assert few == [{"name": "all", "boards": ["b"]}]
    missing = shell("sink", "list", "--at", "elsewhere")
    assert (missing.code, "folder_missing" in missing.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("a name", "--from", "events"), "invalid_name"),
        (("s", "--from", "events", "--begin", "never"), "usage"),
        (("s", "--from", "nothing"), "source_unreadable"),
        (("s", "--from", "."), "source_unreadable"),
        (("s", "--from", "kafka://host/topic"), "invalid_stream"),
        (("s", "--from", "events", "--map", "board=b"), "invalid_template"),
        (("s", "--from", "events", "--at", "elsewhere"), "folder_missing"),
        (("s",), "usage"),
    ],
)
def test_a_source_that_cannot_run_reports_an_error_code(
    shell: Shell, arguments: tuple[str, ...], code: str
) -> None:
    ran = shell("source", "run", *arguments, "--until-end")
    assert ran.code == 2
    assert f"error [{code}]" in ran.err


def test_a_rejects_file_that_cannot_be_written_ends_the_run(shell: Shell) -> None:
    written(shell.directory / "events", [b"nonsense"])
    run = ("source", "run", "s", "--from", "events", "--until-end", "--map", FOUR_FIELDS)
    ran = shell(*run, "--rejects", "missing/folder")
    assert ran.code == 2
    assert "error [output_failed]" in ran.err
    assert shell(*run, "--json").json()["reasons"] == {"invalid_json": 1}


def test_an_invalid_source_position_is_refused(shell: Shell) -> None:
    with laurels.open(shell.directory / "boards") as lb:
        lb.submit_many("gifts", [], position=("source/s", "12"))
    ran = shell("source", "run", "s", "--from", "events", "--until-end", "--map", FOUR_FIELDS)
    assert "error [source_diverged]" in ran.err


def test_ctrl_c_ends_a_run_with_its_figures(shell: Shell) -> None:
    arguments = ("s", "--from", "events", "--map", FOUR_FIELDS, "--json")
    with SourceProcess(shell.directory, *arguments, prelude=TELLING) as source:
        source.wait_for_batches(1)
        source.child.send_signal(signal.SIGINT)
        code, out, _ = source.ended()
    assert code == 130
    assert '"applied":1' in out


def test_a_run_waits_for_a_store_that_does_not_exist_yet(shell: Shell) -> None:
    at = "http://127.0.0.1:1"
    arguments = ("s", "--from", "events", "--at", at, "--map", FOUR_FIELDS)
    with SourceProcess(shell.directory, *arguments) as source:
        assert source.child.stderr is not None
        while b"waiting" not in (line := source.child.stderr.readline()):
            assert line, "the source has ended"
        source.child.send_signal(signal.SIGTERM)
        code, out, _ = source.ended()
    assert (code, b"server_unreachable" in line) == (0, True)
    assert "0 messages" in out
