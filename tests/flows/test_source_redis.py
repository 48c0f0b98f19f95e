"""Redis streams as sources: every entry counts once, and a stream that was replaced by another is
detected."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import laurels
from laurels.errors.sources import (
    InvalidStream,
    SourceDiverged,
    SourceExpired,
    StreamMissing,
)
from laurels.flows.sources import redis_stream
from tests.redis.servers import Server
from tests.redis.sharing import SharedServer

from .sourcing import FOUR_FIELDS, RecordingReader, count, four_fields, reader_of, scores


@pytest.fixture(scope="module")
def server() -> Iterator[SharedServer]:
    with SharedServer() as shared:
        yield shared


@pytest.fixture
def key(server: SharedServer) -> Iterator[str]:
    """Return a key that does not exist yet."""
    key = server.key("lb:events")
    yield key
    server.call("DEL", key)


@pytest.fixture
def stream(server: SharedServer, key: str) -> str:
    """Return the address of the stream with this key."""
    return server.address(key)


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts", windows=["all", "day"]))
        lb.create(laurels.Board("gold", columns=[laurels.Column("gold", scale=2)]))
    return tmp_path / "boards"


def add(
    server: SharedServer | Server,
    key: str,
    board: str,
    member: str,
    delta: object,
    id: str = "*",
) -> None:
    fields = {"KeyPrefix": board, "UserId": member, "DeltaScore": delta, "Score": 0}
    parts = [str(part) for pair in fields.items() for part in pair]
    server.call("XADD", key, id, *parts)


def test_entries_of_four_fields_are_counted_once(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    for i in range(30):
        add(server, key, ("gifts", "gold", "cache")[i % 3], f"m{i % 2}", 1)
    first = count(boards, stream, FOUR_FIELDS, batch=7)
    assert (first.metrics.applied, first.metrics.unknown) == (20, 10)
    server.call("XADD", key, "*", "event", four_fields("gold", "m0", "0.50"))
    again = count(boards, stream, FOUR_FIELDS, batch=7)
    assert (again.metrics.read, again.metrics.applied) == (1, 1)
    assert sum(scores(boards, "gifts").values()) == 10
    assert sum(scores(boards, "gold").values()) == Decimal("10.5")


def test_an_event_that_is_added_twice_counts_once(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    """The event `a` is repeated in a later batch of the same run, the event `b` in a later run."""
    event = {"board": "gifts", "member": "ann", "value": 5}
    for id in ("a", "b", "a"):
        server.call("XADD", key, "*", "event", msgspec.json.encode({**event, "id": id}))
    first = count(boards, stream, batch=2)
    assert (first.metrics.applied, first.metrics.duplicates) == (2, 1)
    server.call("XADD", key, "*", "event", msgspec.json.encode({**event, "id": "b"}))
    again = count(boards, stream)
    assert (again.metrics.applied, again.metrics.duplicates) == (0, 1)
    assert scores(boards, "gifts") == {"ann": 10}


def test_entries_count_at_the_time_at_which_the_server_took_them(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    noon = 1_763_726_400_000
    add(server, key, "gifts", "ann", 1, f"{noon}-0")
    add(server, key, "gifts", "ann", 2, f"{noon}-1")
    done = count(boards, stream, FOUR_FIELDS)
    assert (done.metrics.applied, done.metrics.late) == (2, {"day": 2})
    assert scores(boards, "gifts", window="day") == {}


def test_a_message_from_the_future_counts_now(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    add(server, key, "gifts", "ann", 1, f"{1 << 46}-0")
    with laurels.open(boards) as lb:
        now_ms = lb.clock_status().now_ms
    assert count(boards, stream, FOUR_FIELDS, now_ms=now_ms).metrics.applied == 1
    assert scores(boards, "gifts", window="day") == {"ann": 1}


def test_long_entries_are_read_in_small_batches(
    server: SharedServer, key: str, stream: str, boards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read takes only as many entries as would fit if all entries were as long as the longest one
    so far."""
    monkeypatch.setattr(redis_stream, "BATCH_BYTES", 100_000)
    fields = ("KeyPrefix", "gifts", "UserId", "ann", "DeltaScore", 1)
    for number in range(40):
        server.call("XADD", key, "*", *fields, "x", "x" * (30_000 if number < 20 else 1))
    reader: Any = RecordingReader(reader_of(stream))
    done = count(boards, reader, FOUR_FIELDS)
    assert (done.metrics.applied, done.rejects.lines) == (40, [])
    assert 90_000 < max(reader.lengths) <= 100_000


def test_entries_that_are_not_utf8_are_rejected(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    server.call("XADD", key, "*", "KeyPrefix", "gifts", "UserId", b"\xff", "DeltaScore", "1")
    add(server, key, "gifts", "ann", "x")
    add(server, key, "gifts", "ann", "2")
    done = count(boards, stream, FOUR_FIELDS)
    assert sorted(done.rejects.codes) == ["invalid_value", "member_not_utf8"]
    assert "\\\\xff" in done.rejects.lines[0].text
    assert scores(boards, "gifts") == {"ann": 2}


def test_a_deleted_or_recreated_stream_is_detected(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    add(server, key, "gifts", "ann", 1)
    add(server, key, "gifts", "ann", 1)
    count(boards, stream, FOUR_FIELDS)
    server.call("DEL", key)
    with pytest.raises(SourceDiverged, match="the stream no longer exists"):
        count(boards, stream, FOUR_FIELDS)
    add(server, key, "gifts", "ann", 1, "5-0")
    with pytest.raises(SourceDiverged, match="newest id is 5"):
        count(boards, stream, FOUR_FIELDS)
    assert count(boards, stream, FOUR_FIELDS, begin="now").metrics.read == 0
    add(server, key, "gifts", "ann", 1)
    assert count(boards, stream, FOUR_FIELDS).metrics.applied == 1
    server.call("DEL", key)
    add(server, key, "gifts", "ann", 5)
    with pytest.raises(SourceDiverged, match="it has had 1 entries, and 2 were read before"):
        count(boards, stream, FOUR_FIELDS)
    assert count(boards, stream, FOUR_FIELDS, begin="start").metrics.applied == 1
    assert scores(boards, "gifts") == {"ann": 8}


def test_a_stream_deleted_or_recreated_during_a_run_is_detected(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    add(server, key, "gifts", "ann", 1)
    with pytest.raises(SourceDiverged):
        count(
            boards,
            stream,
            FOUR_FIELDS,
            until_end=False,
            on_progress=lambda _runner, _metrics: server.call("DEL", key),
        )


def test_entries_deleted_unread_are_detected(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    add(server, key, "gifts", "ann", 1)
    count(boards, stream, FOUR_FIELDS)
    for _ in range(3):
        add(server, key, "gifts", "ann", 1)
    server.call("XTRIM", key, "MAXLEN", 1)
    with pytest.raises(SourceExpired):
        count(boards, stream, FOUR_FIELDS)
    assert count(boards, stream, FOUR_FIELDS, begin="start").metrics.applied == 1
    assert count(boards, stream, FOUR_FIELDS, begin="start").metrics.applied == 0
    assert scores(boards, "gifts") == {"ann": 2}


def test_entries_deleted_unread_during_a_run_are_detected(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    """The entries are deleted while the first batch is counted. By then, the source has read the
    second batch."""
    for i in range(1, 15):
        add(server, key, "gifts", "ann", 1, f"{i}-0")
    with pytest.raises(SourceExpired, match="2 entries"):
        count(
            boards,
            stream,
            FOUR_FIELDS,
            batch=5,
            on_progress=lambda _runner, _metrics: server.call("XDEL", key, "11-0", "12-0"),
        )
    assert scores(boards, "gifts") == {"ann": 12}


def test_entries_that_were_read_may_be_trimmed(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    for _ in range(3):
        for _ in range(10):
            add(server, key, "gifts", "ann", 1)
        assert count(boards, stream, FOUR_FIELDS, batch=4).metrics.applied == 10
        server.call("XTRIM", key, "MAXLEN", 0)


def test_a_source_waits_for_its_server_to_return(boards: Path) -> None:
    with Server() as server:
        for _ in range(9):
            add(server, "events", "gifts", "ann", 1)

        def restart(_runner: object, _metrics: object) -> None:
            server.restart()

        done = count(boards, f"{server.url}/0/events", FOUR_FIELDS, batch=3, on_progress=restart)
    assert done.metrics.applied == 9
    assert scores(boards, "gifts") == {"ann": 9}


def test_an_address_without_a_stream_is_refused(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    for address in (
        "redis://[::1/0/key",
        "redis://h",
        "redis://h/0",
        "redis://h/0/",
        "kafka://x/y",
    ):
        with pytest.raises(InvalidStream):
            reader_of(address)
    server.call("SET", key, "text")
    with pytest.raises(StreamMissing, match="type string"):
        count(boards, stream, FOUR_FIELDS)


def test_a_stream_that_does_not_exist_yet_is_read_as_empty(
    server: SharedServer, key: str, stream: str, boards: Path
) -> None:
    assert count(boards, stream, FOUR_FIELDS).metrics.read == 0
    add(server, key, "gifts", "ann", 1)
    assert count(boards, stream, FOUR_FIELDS).metrics.applied == 1
