"""JetStream streams as sources: every message counts once, and a stream that was replaced by
another is detected."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
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
    SourceUnavailable,
    StreamMissing,
)
from laurels.flows.sources import nats_stream
from laurels.flows.sources.metrics import SourceMetrics
from laurels.flows.sources.runner import SourceRunner
from tests.redis.servers import free_port, until

from .nats_servers import NatsServer, SharedNats
from .sourcing import (
    FOUR_FIELDS,
    RecordingReader,
    SourceProcess,
    count,
    four_fields,
    reader_of,
    scores,
)

X = "x" * 30_000


class Events:
    """A stream of events, which exists from `create` to `delete`."""

    def __init__(self, server: SharedNats) -> None:
        self._server = server
        self.name, self.subject = server.name("EVENTS"), server.name("scores")

    @property
    def address(self) -> str:
        return f"{self._server.url}/{self.name}"

    def create(self) -> None:
        self._server.create(self.name, f"{self.subject}.*")

    def publish(self, of: str, messages: Sequence[bytes]) -> None:
        """Publish messages with the subject of one board."""
        self._server.publish(f"{self.subject}.{of}", messages)

    def remove(self, how: str, sequence: int) -> None:
        """Remove one message (`MSG.DELETE`), or all messages before it (`PURGE`)."""
        self._server.call(f"STREAM.{how}.{self.name}", {"seq": sequence})

    def delete(self) -> None:
        self._server.call(f"STREAM.DELETE.{self.name}")


@pytest.fixture(scope="module")
def server() -> Iterator[SharedNats]:
    with SharedNats() as shared:
        yield shared


@pytest.fixture
def stream(server: SharedNats) -> Iterator[Events]:
    """Return an empty stream."""
    events = Events(server)
    events.create()
    yield events
    events.delete()


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(laurels.Board("gifts", windows=["all", "day"]))
        lb.create(laurels.Board("gold", columns=[laurels.Column("gold", scale=2)]))
    return tmp_path / "boards"


def gifts(number: int, delta: object = 1) -> list[bytes]:
    return [four_fields("gifts", "ann", delta) for _ in range(number)]


def test_a_stream_of_events_with_four_fields_needs_one_command_line(
    stream: Events, boards: Path, tmp_path: Path
) -> None:
    events = [four_fields(("gifts", "gold", "cache:")[i % 3], f"m{i % 2}", 1) for i in range(30)]
    stream.publish("a", events)
    arguments = (
        "gifts",
        "--from",
        stream.address,
        "--map",
        FOUR_FIELDS,
        "--at",
        str(boards),
        "--json",
    )
    with SourceProcess(tmp_path, *arguments, "--until-end") as source:
        code, out, err = source.ended()
    assert code == 0, err
    assert '"applied":20' in out
    assert '"unknown_boards":{"cache:":10}' in out
    stream.publish("b", [four_fields("gold", "m0", "0.50"), b"the last one"])
    with SourceProcess(tmp_path, *arguments) as source:
        until((tmp_path / "gifts.rejects.jsonl").exists, "the last message was rejected")
        source.child.send_signal(signal.SIGTERM)
        code, out, _ = source.ended()
    assert code == 1
    assert '"applied":1' in out
    assert sum(scores(boards, "gifts").values()) == 10
    assert sum(scores(boards, "gold").values()) == Decimal("10.50")


def test_messages_are_counted_once_in_batches_of_any_size(stream: Events, boards: Path) -> None:
    stream.publish("a", gifts(50))
    for batch in (7, 13, 1_000):
        count(boards, stream.address, FOUR_FIELDS, batch=batch)
    assert scores(boards, "gifts") == {"ann": 50}
    stream.publish("a", gifts(25))
    assert count(boards, stream.address, FOUR_FIELDS, batch=10).metrics.applied == 25
    assert scores(boards, "gifts") == scores(boards, "gifts", window="day") == {"ann": 75}


def test_an_event_that_is_published_twice_counts_once(stream: Events, boards: Path) -> None:
    """The event `a` is repeated in a later batch of the same run, the event `b` in a later run."""
    event = {"board": "gifts", "member": "ann", "value": 5}
    a, b = (msgspec.json.encode({**event, "id": id}) for id in ("a", "b"))
    stream.publish("a", [a, b, a])
    first = count(boards, stream.address, batch=2)
    assert (first.metrics.applied, first.metrics.duplicates) == (2, 1)
    stream.publish("b", [b])
    again = count(boards, stream.address)
    assert (again.metrics.applied, again.metrics.duplicates) == (0, 1)
    assert scores(boards, "gifts") == {"ann": 10}


def test_a_message_is_counted_without_waiting_for_the_next(stream: Events, boards: Path) -> None:
    """Each message is published only after the previous one has been counted."""
    seen: list[int] = []

    def publish_next(runner: SourceRunner, metrics: SourceMetrics) -> None:
        seen.append(metrics.applied)
        stream.publish("a", gifts(1))
        if len(seen) == 3:
            runner.stop()

    stream.publish("a", gifts(1))
    count(boards, stream.address, FOUR_FIELDS, until_end=False, on_progress=publish_next)
    assert seen == [1, 2, 3]


def test_the_subject_can_be_used_as_a_field(stream: Events, boards: Path) -> None:
    stream.publish("gifts", [b'{"user": "ann", "n": 2}'])
    done = count(
        boards, stream.address, f"board={{$subject|{stream.subject}.*}},member=user,value=n"
    )
    assert done.metrics.applied == 1
    assert scores(boards, "gifts") == {"ann": 2}


def test_long_messages_are_read_in_small_batches(
    stream: Events, boards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The total length of the messages of one read is bounded, even if each message is long."""
    monkeypatch.setattr(nats_stream, "BATCH_BYTES", 100_000)
    long = msgspec.json.encode({"KeyPrefix": "gifts", "UserId": "ann", "DeltaScore": 1, "x": X})
    stream.publish("gifts", [*[long] * 20, *gifts(50), *[long] * 20])
    reader: Any = RecordingReader(reader_of(stream.address))
    done = count(boards, reader, FOUR_FIELDS)
    assert (done.metrics.applied, done.rejects.lines) == (90, [])
    assert scores(boards, "gifts") == {"ann": 90}
    assert 90_000 < max(reader.lengths) <= 100_000


def test_malformed_messages_are_rejected(stream: Events, boards: Path) -> None:
    stream.publish("a", [b"", b"no", b"[]", *gifts(1), *gifts(1, "x")])
    done = count(boards, stream.address, FOUR_FIELDS)
    assert sorted(done.rejects.codes) == [
        "invalid_event",
        "invalid_json",
        "invalid_json",
        "invalid_value",
    ]
    assert [line.position for line in done.rejects.lines] == ["1", "2", "3", "5"]
    assert scores(boards, "gifts") == {"ann": 1}


def test_a_recreated_stream_is_detected(stream: Events, boards: Path) -> None:
    stream.publish("a", gifts(3))
    count(boards, stream.address, FOUR_FIELDS)
    stream.delete()
    with pytest.raises(StreamMissing):
        count(boards, stream.address, FOUR_FIELDS)
    stream.create()
    stream.publish("a", gifts(5))
    with pytest.raises(SourceDiverged, match=f"nats:{stream.name}@"):
        count(boards, stream.address, FOUR_FIELDS)
    assert count(boards, stream.address, FOUR_FIELDS, begin="start").metrics.applied == 5
    assert count(boards, stream.address, FOUR_FIELDS).metrics.applied == 0
    assert scores(boards, "gifts") == {"ann": 8}


@pytest.mark.parametrize("again", [False, True])
def test_a_stream_deleted_or_recreated_during_a_run_is_detected(
    stream: Events, boards: Path, again: bool
) -> None:
    stream.publish("a", gifts(3))

    def delete(_runner: object, _metrics: object) -> None:
        stream.delete()
        if again:
            stream.create()
            stream.publish("a", gifts(9))

    with pytest.raises(SourceDiverged):
        count(boards, stream.address, FOUR_FIELDS, until_end=False, on_progress=delete)
    assert scores(boards, "gifts") == {"ann": 3}


def test_messages_removed_between_runs_are_detected(stream: Events, boards: Path) -> None:
    stream.publish("a", gifts(3))
    count(boards, stream.address, FOUR_FIELDS)
    stream.publish("a", gifts(6))
    stream.remove("PURGE", 6)
    with pytest.raises(SourceExpired):
        count(boards, stream.address, FOUR_FIELDS)
    assert count(boards, stream.address, FOUR_FIELDS, begin="start").metrics.applied == 4
    assert count(boards, stream.address, FOUR_FIELDS, begin="start").metrics.applied == 0
    stream.remove("MSG.DELETE", 8)
    stream.publish("a", gifts(6))
    stream.remove("MSG.DELETE", 11)
    assert count(boards, stream.address, FOUR_FIELDS).metrics.applied == 5
    assert scores(boards, "gifts") == {"ann": 12}


def test_messages_removed_during_a_run_are_detected(stream: Events, boards: Path) -> None:
    stream.publish("a", gifts(20))

    def purge(_runner: object, _metrics: object) -> None:
        stream.remove("PURGE", 15)

    with pytest.raises(SourceExpired):
        count(boards, stream.address, FOUR_FIELDS, batch=5, on_progress=purge)
    # the second batch had been read together with the first one
    assert scores(boards, "gifts") == {"ann": 10}


def test_a_source_waits_for_its_server_to_return(boards: Path) -> None:
    with NatsServer() as server:
        server.create("EVENTS", "scores.*")
        server.publish("scores.a", gifts(50))

        def restart(_runner: object, _metrics: object) -> None:
            server.restart()

        address = f"{server.url}/EVENTS"
        done = count(boards, address, FOUR_FIELDS, batch=25, on_progress=restart)
    assert done.metrics.applied == 50
    assert done.waits.count("source_unavailable") == len(done.waits) > 0
    assert scores(boards, "gifts") == {"ann": 50}


def test_an_address_without_a_stream_is_refused(server: SharedNats, boards: Path) -> None:
    for address in (server.url, f"{server.url}/", f"{server.url}/a.b", "nats://h:x/S"):
        with pytest.raises(InvalidStream):
            reader_of(address)
    with pytest.raises(StreamMissing):
        count(boards, f"{server.url}/{server.name('NONE')}", FOUR_FIELDS)


def test_passwords_are_not_shown() -> None:
    assert reader_of("nats://me:secret@there/S").name == "nats://there:4222/S"


def test_the_error_names_a_server_that_is_down_and_the_reason() -> None:
    async def connect() -> None:
        reader = reader_of(f"nats://127.0.0.1:{free_port()}/S")
        try:
            await reader.open()
        finally:
            await reader.close()

    with pytest.raises(SourceUnavailable, match="no servers available"):
        asyncio.run(connect())
