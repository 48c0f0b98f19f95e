"""Sinks whose target is no ledger send the changes of a deleted board up to its deletion, and go on
with a new board of the same name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

import laurels
from laurels.core.changes.answers import Change, ChangeKind
from laurels.errors.index_server import IndexUnavailable
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import statuses
from laurels.flows.sinks.target import SinkPage
from tests.flows.test_deleted_boards import board, fill, opened
from tests.redis.servers import Server

from .sinking import NOW_MS, sent, sink_of
from .stepping import Memory, Steps, beside


class Lines:
    """A file of changes as a target. A file keeps no position, so the position of its sink is in
    the store."""

    def __init__(self, path: Path) -> None:
        self.url = str(path)
        self._path = path

    def kinds(self) -> list[tuple[str, str]]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        changes = [msgspec.json.decode(line, type=Change) for line in lines]
        return [(change.kind, change.id.partition("/")[0]) for change in changes]


class Stream:
    """A stream of Redis as a target, which keeps the position of its sink."""

    def __init__(self, server: Server) -> None:
        self.url = f"redis://127.0.0.1:{server.port}/0/deleted"
        self._server = server

    def kinds(self) -> list[tuple[str, str]]:
        entries = self._server.call(b"XRANGE", b"deleted", b"-", b"+")
        changes = [
            msgspec.json.decode(dict(zip(f[::2], f[1::2], strict=True))[b"change"], type=Change)
            for _, f in entries
        ]
        return [(change.kind, change.id.partition("/")[0]) for change in changes]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=["lines", "stream"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Lines | Stream:
    if request.param == "lines":
        return Lines(tmp_path / "changes.jsonl")
    server: Server = request.getfixturevalue("server")
    server.call(b"FLUSHALL")
    return Stream(server)


async def expected(lb: laurels.AsyncLeaderboards, cursor: str) -> list[tuple[str, str]]:
    """Return the kind of each change of a deleted board after the cursor, with the unique id of the
    board. Changes of sink positions are left out."""
    page = await lb.changes("b", after=cursor, limit=10_000)
    return [
        (change.kind, cursor.partition("~")[0])
        for change in page
        if change.kind != "position" or not change.data["source"].startswith("sink:")
    ]


def test_other_targets_get_each_change_of_deleted_boards_once(target: Lines | Stream) -> None:
    """Boards of one name are created and deleted, one after another. The sink runs in some of the
    rounds, before or after the deletion, and each run continues where the previous run ended."""

    async def play() -> None:
        async with opened() as lb:
            everything: list[tuple[str, str]] = []
            for round in range(6):
                await fill(lb)
                if round % 2:
                    await sent(lb, target.url)
                await lb.submit("b", "ann", 1)
                await lb.delete("b")
                if round % 3:
                    await sent(lb, target.url)
            await sent(lb, target.url)
            for each in await lb.deleted_boards():
                everything += await expected(lb, each.cursor)
            assert target.kinds() == everything
            await lb.create(board())
            await sent(lb, target.url)
            assert [kind for kind, _ in target.kinds()[len(everything) :]] == ["create"]
            assert not await unsent(lb)

    asyncio.run(play())


async def unsent(lb: laurels.AsyncLeaderboards) -> list[str]:
    """Return the names of deleted boards whose changes the sink has not sent."""
    found = await statuses(lb, None, SinkOptions("sink"), NOW_MS)
    return [each.board for each in found if each.state == "deleted"]


def test_a_sink_that_falls_behind_a_deletion_is_shown(target: Lines | Stream) -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with opened(clock) as lb:
            await fill(lb)
            await sent(lb, target.url)
            for _ in range(3):
                await lb.submit("b", "ann", 1)
            await lb.delete("b")
            clock.advance(1_000)
            (status,) = await statuses(lb, None, SinkOptions("sink"), clock.now_ms())
            assert (status.board, status.state, status.lag_changes) == ("b", "deleted", 4)
            assert status.lag_seconds == 1.0
            await lb.create(board())
            sink = sink_of(lb, target.url)
            states = await statuses(lb, None, sink.options, clock.now_ms())
            assert [each.state for each in states] == ["new", "deleted"]
            await sent(lb, target.url)
            assert not await unsent(lb)
            states = await statuses(lb, None, sink.options, clock.now_ms())
            assert [each.state for each in states] == ["done"]

    asyncio.run(play())


def test_changes_of_a_deleted_board_that_are_lost_do_not_stop_the_sink(
    target: Lines | Stream,
) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, target.url)
            await lb.change("b", changes="")
            await lb.change("b", changes="1h")
            await lb.delete("b")
            assert await unsent(lb) == ["b"]
            await sent(lb, target.url)
            assert target.kinds()[-1][0] == "delete"
            await lb.create(board())
            await sent(lb, target.url)
            assert [kind for kind, _ in target.kinds()[-2:]] == ["delete", "create"]

    asyncio.run(play())


class Down(Memory):
    """A target whose deliveries fail while `fails` is set: before or after it has stored a page."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: str | None = None

    async def deliver(self, page: SinkPage) -> None:
        if self.fails == "before":
            raise RuntimeError("killed")
        await super().deliver(page)
        if self.fails == "after":
            raise RuntimeError("killed")


@pytest.mark.parametrize("keeps_positions", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sink_that_is_killed_sends_the_deletion_after_its_restart(
    moment: str, keeps_positions: bool
) -> None:
    async def play() -> None:
        async with opened() as lb:
            target = Down()
            target.keeps_positions = keeps_positions

            async def run() -> None:
                options = SinkOptions("sink", until_end=True)
                await SinkRunner(lb, target, options, now_ms=lambda: NOW_MS).run()

            await fill(lb)
            await run()
            count = len(target.changes["b"])
            await lb.delete("b")
            target.fails = moment
            with pytest.raises(RuntimeError, match="killed"):
                await run()
            await lb.create(board())
            target.fails = None
            await run()
            await run()
            kinds = [change.kind for change in target.changes["b"][count:]]
            repeated = moment == "after" and not keeps_positions
            assert kinds == ["delete"] * (1 + repeated) + ["create"]

    asyncio.run(play())


def test_a_running_sink_notices_deletions_and_new_boards_within_a_poll() -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            target, steps = Memory(), Steps()
            sink = SinkRunner(
                lb,
                target,
                SinkOptions("sink", what="changes"),
                now_ms=lambda: NOW_MS,
                sleep=steps.sleep,
            )

            async def kinds(last: ChangeKind, count: int) -> None:
                while [each.kind for each in target.changes.get("b", ())].count(last) < count:
                    await steps.step()

            async def test() -> None:
                await kinds("data", 1)
                for round in range(1, 4):
                    await lb.delete("b")
                    if round == 2:  # this board is created, written and deleted between two polls
                        await fill(lb)
                        await lb.delete("b")
                    await kinds("delete", round + (round > 1))
                    await fill(lb)
                    await kinds("data", round + 1 + (round > 1))
                uids = [change.id.partition("/")[0] for change in target.changes["b"]]
                assert len(dict.fromkeys(uids)) == 5
                assert uids == sorted(uids, key=[*dict.fromkeys(uids)].index)
                assert not sink.failed

            await beside(sink, test)

    asyncio.run(play())


def test_a_board_without_changes_may_follow(target: Lines | Stream) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, target.url)
            await lb.delete("b")
            await lb.create(board(changes=""))
            await lb.submit("b", "ann", 1)
            await sent(lb, target.url)
            assert target.kinds()[-1][0] == "delete"

    asyncio.run(play())


def test_the_store_may_be_down_when_the_end_is_reported(target: Lines | Stream) -> None:
    """If the store is down after the deletion was sent, the sink reports its position later. The
    target gets the deletion once."""

    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, target.url)
            await lb.delete("b")
            submit_many = lb.submit_many
            fails = Mock(side_effect=[IndexUnavailable("down")])

            async def failing(*arguments: Any, **options: Any) -> Any:
                if fails.call_count == 0:
                    fails()
                return await submit_many(*arguments, **options)

            lb.submit_many = failing
            await sent(lb, target.url)
            assert [kind for kind, _ in target.kinds()].count("delete") == 1

    asyncio.run(play())
