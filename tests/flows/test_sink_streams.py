"""Sinks whose target is a stream or a file of lines: every change arrives, in order, even after
failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest

import laurels
from laurels.errors.sinks import InvalidMapping, InvalidTarget, SinkBehind, SinkOvertaken
from laurels.flows.jetstream_publisher import JetStreamPublisher, MessageTooLong
from laurels.flows.sinks.jetstream import SubjectTemplate
from laurels.flows.sinks.mapping import FieldMapping
from laurels.flows.sinks.metrics import describe_problems
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import reset, statuses
from laurels.flows.sinks.target import SinkPage
from tests.redis.servers import Server
from tests.redis.sharing import SharedServer

from .nats_servers import SharedNats
from .sinking import NOW_MS, sent, sink_of
from .stepping import Memory

BOARD = laurels.Board("b", columns=[laurels.Column("s", scale=2)], changes="7d")


@pytest.fixture(scope="module")
def redis() -> Iterator[SharedServer]:
    with SharedServer() as server:
        yield server


@pytest.fixture(scope="module")
def broker() -> Iterator[SharedNats]:
    with SharedNats() as server:
        yield server


class StoppedError(Exception):
    """Raised by a test to stop a sink that would wait and try again."""


async def opened(clock: laurels.ManualClock | None = None) -> laurels.AsyncLeaderboards:
    lb = await laurels.open_async("memory:", clock=clock or laurels.ManualClock(NOW_MS))
    await lb.create(BOARD)
    return lb


async def ids(lb: laurels.AsyncLeaderboards) -> list[str]:
    """Return the ids of all changes except changes of sink positions."""
    page = await lb.changes("b", limit=10_000)
    return [change.id for change in page if change.kind != "position"]


def lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_every_change_becomes_a_line_once(tmp_path: Path) -> None:
    async def play() -> None:
        lb, path = await opened(), tmp_path / "changes.jsonl"
        for batch in range(4):
            await lb.submit_many("b", [(f"m{i}", "1.50") for i in range(700)])
            sink = await sent(lb, str(path))
            assert sink.metrics.delivered == 700 + (batch == 0)
        assert [line["id"] for line in lines(path)] == await ids(lb)
        assert b'"delta":1.50' in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0, "only the owner may read the data"
        await lb.close()

    asyncio.run(play())


def test_a_partial_line_does_not_corrupt_the_next(tmp_path: Path) -> None:
    async def play() -> None:
        lb, path = await opened(), tmp_path / "changes.jsonl"
        path.write_bytes(b'{"id":"cut by a kill')
        await sent(lb, str(path))
        first, *rest = path.read_bytes().splitlines()
        assert first == b'{"id":"cut by a kill'
        assert [msgspec.json.decode(line)["id"] for line in rest] == await ids(lb)
        await lb.close()

    asyncio.run(play())


def test_four_fields_are_mapped_by_one_line_of_configuration(tmp_path: Path) -> None:
    async def play() -> None:
        lb, path = await opened(), tmp_path / "changes.jsonl"
        await lb.submit_many("b", [("ann", "1.5"), ("bob", 2), ("ann", -1)])
        mapping = "KeyPrefix=board,UserId=member,DeltaScore=delta,Score=score"
        await sent(lb, str(path), delivery=DeliveryOptions(mapping))
        assert [tuple(line.values()) for line in lines(path)] == [
            ("b", "ann", 1.5, 1.5),
            ("b", "bob", 2, 2),
            ("b", "ann", -1, 0.5),
        ]
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "text", ["", "a", "a=", "=score", "a=nothing", "a=score,a=delta", "a=labels."]
)
def test_an_invalid_mapping_is_refused(text: str) -> None:
    with pytest.raises(InvalidMapping):
        FieldMapping(text)


def test_a_full_disk_delays_changes_and_leaves_no_half_line(tmp_path: Path) -> None:
    """The file is a link to `/dev/full`, a device that is always full. Then it becomes a file with
    enough room."""

    async def play() -> None:
        lb = await opened()
        await lb.submit("b", "ann", 1)
        path = tmp_path / "changes.jsonl"
        path.symlink_to("/dev/full")

        async def sleep(_: float) -> None:
            raise StoppedError

        sink = sink_of(lb, str(path), sleep=sleep)
        with pytest.raises(StoppedError):
            await sink.run()
        assert await lb.position("b", "sink:sink") is None
        assert "No space left" in str(sink.metrics.boards["b"].error)
        path.unlink()
        await sent(lb, str(path))
        assert [line["id"] for line in lines(path)] == await ids(lb)
        await lb.close()

    asyncio.run(play())


def test_a_redis_stream_has_each_change_once(redis: SharedServer) -> None:
    """A second runner of the sink has an outdated position, so it sends the first changes again.
    The target refuses them."""

    async def play() -> None:
        lb = await opened()
        key = redis.key("changes:of mine")
        url = redis.address(key)
        await lb.submit_many("b", [(f"m{i}", i) for i in range(1_500)])
        await sent(lb, url)
        page = await lb.changes("b", limit=10)
        late = sink_of(lb, url).target
        await late.open()
        with pytest.raises(SinkOvertaken):
            await late.deliver(SinkPage("b", page.changes, None, page.cursor))
        await late.close()
        await lb.submit("b", "last", 1)
        await sent(lb, url)
        delivered = redis.call("XRANGE", key, "-", "+")
        assert [fields[1].decode() for _, fields in delivered] == await ids(lb)
        await lb.close()

    asyncio.run(play())


def test_an_overtaken_runner_moves_no_position_in_the_store() -> None:
    """The target stores no position. A runner is paused while it sends its first page, another one
    sends everything, and then the first one resumes."""

    async def play() -> None:
        lb = await opened()
        slow, quick = Memory(), Memory()
        slow.keeps_positions = quick.keeps_positions = False
        slow.is_up.clear()
        options = SinkOptions("s", until_end=True)
        await lb.submit("b", "ann", 1)
        paused = SinkRunner(lb, slow, options, now_ms=lambda: NOW_MS)
        running = asyncio.create_task(paused.run())
        while not slow.attempts:
            await asyncio.sleep(0)
        await lb.submit("b", "bob", 1)
        await SinkRunner(lb, quick, options, now_ms=lambda: NOW_MS).run()
        position = await lb.position("b", "sink:s")
        slow.is_up.set()
        with pytest.raises(SinkOvertaken):
            await running
        assert await lb.position("b", "sink:s") == position
        assert [change.member for change in quick.changes["b"]] == [None, "ann", "bob"]
        await lb.close()

    asyncio.run(play())


def test_a_redis_server_that_is_killed_delays_changes_and_loses_none() -> None:
    async def play(redis: Server) -> None:
        async def sleep(_: float) -> None:
            if not redis.runs:
                await asyncio.to_thread(redis.start)

        lb, url = await opened(), f"{redis.url}/0/killed"
        await lb.submit("b", "ann", 1)
        await sent(lb, url)
        await asyncio.to_thread(redis.kill)
        await lb.submit("b", "ann", 2)
        await sent(lb, url, sleep=sleep)
        delivered = redis.call("XRANGE", "killed", "-", "+")
        assert [fields[1].decode() for _, fields in delivered] == await ids(lb)
        await lb.close()

    with Server() as server:
        asyncio.run(play(server))


async def messages(broker: SharedNats, stream: str) -> list[tuple[str, dict[str, Any]]]:
    """Return all messages of a stream."""
    client = await nats.connect(broker.url)
    context = client.jetstream()
    info = await context.stream_info(stream)
    received = []
    for sequence in range(1, info.state.last_seq + 1):
        message = await context.get_msg(stream, sequence)
        assert message.data is not None
        received.append((message.subject or "", msgspec.json.decode(message.data)))
    await client.close()
    return received


def test_a_message_that_is_too_long_with_its_header_is_refused(broker: SharedNats) -> None:
    """The server counts the header towards its limit of 1 MiB, and closes the connection of a
    client that exceeds it."""

    async def play() -> None:
        publisher = JetStreamPublisher(broker.url)
        await publisher.connect()
        try:
            for short in (1, 20):
                with pytest.raises(MessageTooLong):
                    await publisher.publish("any", b"x" * ((1 << 20) - short), "id")
        finally:
            await publisher.close()

    asyncio.run(play())


def test_a_jetstream_has_each_change_once_and_members_in_order(broker: SharedNats) -> None:
    """A sink whose position is not in the store sends everything again, but the stream stores each
    change once."""

    async def play() -> None:
        gifts = broker.name("gifts")
        broker.create(gifts, f"{gifts}.>")
        lb, url = await opened(), f"{broker.url}/{gifts}.{{board}}.{{member}}"
        await lb.submit_many("b", [(f"m.{i % 7} ", i) for i in range(700)])
        await sent(lb, url)
        await sent(lb, url, name="again")
        await lb.submit("b", "ann", 1)
        await sent(lb, url)
        delivered = await messages(broker, gifts)
        assert sorted(change["id"] for _, change in delivered) == sorted(await ids(lb))
        by_member: dict[str, list[str]] = {}
        for subject, change in delivered:
            by_member.setdefault(subject, []).append(change["id"])
        expected = await ids(lb)
        assert by_member[f"{gifts}.b.ann"] == expected[-1:]
        for own in by_member.values():
            assert own == sorted(own, key=expected.index)
        assert f"{gifts}.b.m%2E3%20" in by_member
        await lb.close()

    asyncio.run(play())


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://u:sek%ret@h/d", "postgresql://u:sekret@[::1/d"),
        *("mysql://u:sekret@[::1/d", "mysql://u:sekret@h:x/d", "redis://:sekret@h:x/0/k"),
        *("nats://u:sekret@h:x/s", "nats://u:sekret@[h/s", "https://u:sekret@h:x/"),
    ],
)
def test_a_url_that_is_malformed_is_refused_without_its_password(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            with pytest.raises(laurels.LaurelsError) as caught:
                open_target(url, "s", DeliveryOptions(), lb, lambda: NOW_MS)
            assert "sek" not in str(caught.value)
            assert caught.value.__cause__ is None

    asyncio.run(play())


@pytest.mark.parametrize("text", ["", "a b", "a..b", "{score}", "a.>", "*", "a.{labels.}"])
def test_a_subject_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(InvalidTarget):
        SubjectTemplate(text)


def test_a_stream_is_not_restarted_automatically(tmp_path: Path) -> None:
    """If changes of a board are missing, the sink reports that and sends no more of this board
    until the operator decides. It continues with other boards."""

    async def play() -> None:
        lb, path = await opened(), tmp_path / "changes.jsonl"
        await lb.submit("b", "ann", 1)
        await sent(lb, str(path))
        await lb.change("b", changes="")
        await lb.submit("b", "ann", 1)
        await lb.change("b", changes="1h")
        await lb.create(laurels.Board("other", changes="1h"))
        sink = sink_of(lb, str(path))
        await sink.run()
        assert isinstance(sink.failed["b"], SinkBehind)
        assert sink.metrics.boards["other"].delivered == 1
        options = sink.options
        states = await statuses(lb, None, options, NOW_MS)
        assert {each.board: each.state for each in states} == {"b": "lost", "other": "done"}
        assert {each.code for each in states} == {"sink_behind", None}
        assert sink.metrics.lost == 1
        assert (
            describe_problems([sink.metrics.report("s", NOW_MS)])
            == "sinks that have lost changes: 1"
        )
        target = sink_of(lb, str(path)).target
        await reset(lb, target, options, initial=True)
        states = await statuses(lb, None, options, NOW_MS)
        assert {each.state for each in states} == {"initial"}
        await sent(lb, str(path))
        kinds = [(line["board"], line["kind"]) for line in lines(path)][-3:]
        assert ("b", "initial") in kinds
        assert ("b", "initial_end") in kinds
        await lb.close()

    asyncio.run(play())


def test_status_counts_unsent_changes(tmp_path: Path) -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        lb, path = await opened(clock), tmp_path / "changes.jsonl"
        sink = sink_of(lb, str(path))
        assert [each.state for each in await statuses(lb, None, sink.options, NOW_MS)] == ["new"]
        await lb.submit("b", "ann", 1)
        await sent(lb, str(path))
        assert [each.state for each in await statuses(lb, None, sink.options, NOW_MS)] == ["done"]
        for _ in range(3):
            clock.advance(1_000)
            await lb.submit("b", "ann", 1)
        (status,) = await statuses(lb, None, sink.options, NOW_MS + 10_000)
        assert (status.state, status.lag_seconds) == ("waiting", 9.0)
        assert status.lag_changes == 3
        await lb.close()

    asyncio.run(play())
