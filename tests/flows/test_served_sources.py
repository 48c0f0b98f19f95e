"""Sources that the settings of a server define, and their metrics."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import laurels
from laurels.errors.service import InvalidSettings
from laurels.errors.sources import InvalidStream, InvalidTemplate
from laurels.flows.sources.configured import ConfiguredSource
from laurels.server.process.settings import settings_of, table
from tests.flows.sourcing import FOUR_FIELDS, four_fields
from tests.flows.test_served_sinks import ADMIN, sample
from tests.redis.servers import until
from tests.serving import ADMIN_KEY, Served


def messages(url: str, outcome: str) -> float:
    start = f'laurels_source_messages_total{{outcome="{outcome}",source="feed"}} '
    (line,) = sample(url, start, ADMIN)
    return float(line.removeprefix(start))


def test_a_server_counts_the_stream_of_its_settings_once(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_bytes(four_fields("b", "ann", 5) + b"\n" + four_fields("other", "ann", 1) + b"\n")
    rejects = tmp_path / "rejects"
    source = ConfiguredSource(from_=str(events), map=FOUR_FIELDS, rejects=str(rejects))
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("b"))
    for run in (1, 2):
        with (
            Served(tmp_path / "boards", admin_key=ADMIN_KEY, sources={"feed": source}) as server,
            laurels.open(server.url.replace("//", f"//{ADMIN_KEY}@")) as lb,
        ):
            with events.open("ab") as file:
                file.write(four_fields("b", "bob", run) + b"\n" + b"no event\n")
            until(lambda: lb.rank("b", "bob") is not None, "the first event of bob counts")
            until(lambda: messages(server.url, "rejected") == 1, "the line is rejected")
            assert messages(server.url, "applied") == (2 if run == 1 else 1)
            scores = {each.member: each.score for each in lb.top("b").entries}
            assert scores == {"ann": 5, "bob": 1 if run == 1 else 3}
    assert rejects.read_bytes().count(b"\n") == 2


def test_a_key_limited_to_some_boards_sees_no_sources(tmp_path: Path) -> None:
    (tmp_path / "events").touch()
    sources = {"feed": ConfiguredSource(from_=str(tmp_path / "events"))}
    with Served(tmp_path / "boards", admin_key=ADMIN_KEY, sources=sources) as server:
        key = {"name": "some", "scope": "read", "boards": ["b"]}
        made = httpx.post(f"{server.url}/v1/keys", json=key, headers=ADMIN).raise_for_status()
        secret = {"authorization": f"Bearer {made.json()['key']}"}
        assert sample(server.url, "laurels_source", secret) == []
        assert sample(server.url, "laurels_source", ADMIN)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[sources.a]", "from"),
        ('[sources.a]\nfrom = "x"\nurl = 1', "url"),
        ('[sources.a]\nfrom = "x"\nbatch = 0', "batch"),
        ('[sources.a]\nfrom = "x"\nbegin = "end"', "begin"),
        ('[sources."a/b"]\nfrom = "x"', r"expected a name in \[sources\.NAME\], got 'a/b'"),
        ("sources = 1", "sources"),
    ],
)
def test_wrong_settings_are_refused(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=named):
        settings_of({}, {}, file)


def test_sources_can_be_set_only_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "laurels.toml"
    file.write_text('[sources.feed]\nfrom = "nats://h/S"\nboards = "gift*"\nbegin = "now"\n')
    settings = settings_of({}, {}, file)
    assert settings.sources == {
        "feed": ConfiguredSource(from_="nats://h/S", boards="gift*", begin="now")
    }
    assert "sources" not in [setting.name for setting in table()]
    with pytest.raises(InvalidSettings, match="LAURELS_SOURCES"):
        settings_of({}, {"LAURELS_SOURCES": "a"}, None)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (ConfiguredSource(from_="ftp://host/x"), InvalidStream),
        (ConfiguredSource(from_="-"), InvalidStream),
        (ConfiguredSource(from_="file", map="board"), InvalidTemplate),
    ],
)
def test_a_server_does_not_start_with_an_invalid_source(
    source: ConfiguredSource, error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        Served(tmp_path, admin_key=ADMIN_KEY, sources={"a": source})
