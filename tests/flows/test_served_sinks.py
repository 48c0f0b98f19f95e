"""Sinks that the settings of a server define, and their metrics."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest

import laurels
from laurels.errors.service import InvalidSettings
from laurels.errors.sinks import InvalidTarget
from laurels.flows.sinks.configured import SinkSettings
from laurels.server.process.settings import settings_of, table
from tests.redis.servers import until
from tests.serving import ADMIN_KEY, Served

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


def sample(url: str, name: str, headers: dict[str, str]) -> list[str]:
    text = httpx.get(f"{url}/metrics", headers=headers).raise_for_status().text
    return [line for line in text.splitlines() if line.startswith(name)]


def test_a_server_runs_the_sinks_of_its_settings(tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    sinks = {
        "lines": SinkSettings(to=str(path), boards=["b"]),
        "ledger": SinkSettings(to=f"sqlite:///{tmp_path}/ledger.db"),
    }
    with (
        Served(tmp_path / "boards", admin_key=ADMIN_KEY, sinks=sinks) as server,
        laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb,
    ):
        lb.create(laurels.Board("b", changes="1h"))
        lb.submit("b", "ann", 1)
        until(lambda: path.exists() and b'"ann"' in path.read_bytes(), "the change is sent")
        members = [msgspec.json.decode(line)["member"] for line in path.read_bytes().splitlines()]
        assert members == [None, "ann"]
        until(
            lambda: (
                'laurels_sink_delivered_total{sink="ledger"} 2.0'
                in sample(server.url, "laurels_sink_delivered", ADMIN)
                or 'laurels_sink_delivered_total{sink="ledger"} 3.0'
                in sample(server.url, "laurels_sink_delivered", ADMIN)
            ),
            "both sinks have sent everything",
        )
        waiting = sample(server.url, "laurels_sink_lag_seconds{", ADMIN)
        assert len(waiting) == 2
        assert len(sample(server.url, "laurels_sink_retention_used_ratio{", ADMIN)) == 2
        assert len(sample(server.url, "laurels_sink_lost_boards{", ADMIN)) == 2
        assert httpx.get(f"{server.url}/readyz").text == "ready\n"


def test_a_key_limited_to_some_boards_sees_no_sinks(tmp_path: Path) -> None:
    sinks = {"lines": SinkSettings(to=str(tmp_path / "changes.jsonl"))}
    with Served(tmp_path / "boards", admin_key=ADMIN_KEY, sinks=sinks) as server:
        key = {"name": "some", "scope": "read", "boards": ["b"]}
        made = httpx.post(f"{server.url}/v1/keys", json=key, headers=ADMIN).raise_for_status()
        secret = {"authorization": f"Bearer {made.json()['key']}"}
        assert sample(server.url, "laurels_sink", secret) == []
        assert sample(server.url, "laurels_sink", ADMIN)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[sinks.a]", "to"),
        ('[sinks.a]\nto = "-"\nurl = 1', "url"),
        ('[sinks.a]\nto = "-"\ntries = "many"', "tries"),
        ("sinks = 1", "sinks"),
    ],
)
def test_wrong_settings_are_refused(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=named):
        settings_of({}, {}, file)


def test_sinks_can_be_set_only_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text('[sinks.a]\nto = "postgresql://h/db"\nboards = ["gift*"]\n')
    settings = settings_of({}, {}, file)
    assert settings.sinks == {"a": SinkSettings(to="postgresql://h/db", boards=["gift*"])}
    assert "sinks" not in [setting.name for setting in table()]
    with pytest.raises(InvalidSettings, match="LAURELS_SINKS"):
        settings_of({}, {"LAURELS_SINKS": "a"}, None)


def test_a_server_does_not_start_with_an_invalid_target(tmp_path: Path) -> None:
    with pytest.raises(InvalidTarget):
        Served(tmp_path, admin_key=ADMIN_KEY, sinks={"a": SinkSettings(to="ftp://host/x")})
