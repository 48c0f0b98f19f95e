"""Sinks send the changes of a deleted board up to its deletion, and go on with a new board of the
same name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

import laurels
from laurels.cli import main
from laurels.core.changes.answers import Change, ChangeKind
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import SinkBehind, SinkOvertaken
from laurels.flows.ledger.reconcile import BoardReconciler, Side
from laurels.flows.ledger.target import LedgerTarget
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import statuses
from laurels.flows.sinks.target import SinkPage
from laurels.sql.databases import dialect_of
from tests.redis.servers import Server

from .sinking import NOW_MS, ledger, rankings, rows, sent, sink_of
from .stepping import Memory, Steps, beside

HOUR = 3_600_000
TABLES = ("boards", "scores", "member_data", "source_positions", "scopes")


def board(name: str = "b", **more: Any) -> laurels.Board:
    fields = {"windows": ["all", "day"], "changes": "1h", "scopes": [[], ["room", "kind"]]} | more
    return laurels.Board(name, **fields)


def opened(clock: laurels.ManualClock | None = None) -> Any:
    return laurels.open_async("memory:", clock=clock or laurels.ManualClock(NOW_MS))


async def fill(lb: laurels.AsyncLeaderboards, name: str = "b", **more: Any) -> None:
    """Create a board, and write something to each table of a ledger."""
    await lb.create(board(name, **more))
    # the labels are so long that a ledger shortens the scope's text
    labels = dict.fromkeys(["room", "kind"], "\\" * 100)
    events = [(f"m{i}", i + 1, None, None, labels) for i in range(30)]
    await lb.submit_many(name, events, position=("source/s", "1"))
    await lb.set_data(name, "m1", {"n": 1})


def stored(url: str, name: str = "b") -> dict[str, int]:
    """Return how many rows of a board each table of a ledger has."""
    prefix = dialect_of(url)[1]
    return {
        table: int(rows(url, f"SELECT count(*) FROM {prefix}{table} WHERE board = %s", name)[0][0])
        for table in TABLES
    }


NONE = dict.fromkeys(TABLES, 0)


def test_a_ledger_removes_the_rows_of_a_deleted_board(url: str) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await fill(lb, "other")
            await sent(lb, url)
            before = stored(url)
            assert all(before.values())
            await lb.submit("b", "m1", 5)
            await lb.delete("b")
            for _ in range(2):  # the second run finds nothing to do
                await sent(lb, url)
                assert stored(url) == NONE
                assert stored(url, "other") == before
            (deleted,) = await lb.deleted_boards("sink:sink")
            assert deleted.position.endswith("~end")
            await lb.create(board(title="anew"))
            await lb.submit("b", "ann", 7)
            await sent(lb, url)
            prefix = dialect_of(url)[1]
            assert ledger(url, board(), prefix) == rankings(lb.sync, board())
            assert rows(url, f"SELECT title FROM {prefix}boards WHERE board = 'b'") == [("anew",)]

    asyncio.run(play())


def test_a_ledger_that_was_stopped_never_mixes_two_boards_of_a_name(url: str) -> None:
    """The deleted board has windows that the new one lacks."""

    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, url, boards=["b"])
            await lb.submit_many("b", [(f"m{i}", 1) for i in range(9)])
            await lb.delete("b")
            await lb.create(board(windows=["month"], scopes=[[]], title="anew"))
            await lb.submit_many("b", [("new", 3), ("m1", 5)])
            await sent(lb, url, boards=["b"])
            prefix = dialect_of(url)[1]
            assert set(ledger(url, board(), prefix)) == {("month", "2026-09", "")}
            assert stored(url) == NONE | {"boards": 1, "scores": 2}
            assert rows(url, f"SELECT title FROM {prefix}boards") == [("anew",)]
            await lb.submit("b", "new", 4)
            sink = await sent(lb, url, boards=["b"])
            assert sink.metrics.restarts == 0
            assert ledger(url, board(), prefix)["month", "2026-09", ""]["new"] == (7,)

    asyncio.run(play())


def test_a_ledger_that_lost_changes_gets_the_deletion(url: str) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, url)
            await lb.change("b", changes="")
            await lb.submit("b", "m1", 1)
            await lb.change("b", changes="1h")
            await lb.delete("b")
            notes: list[str] = []
            await sent(lb, url, report=notes.append)
            assert stored(url) == NONE
            assert "sending only the deletion" in notes[0]

    asyncio.run(play())


def test_a_ledger_that_should_start_over_gets_the_deletion(url: str) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, url)
            target = sink_of(lb, url).target
            await target.open()
            await target.reset("b", "initial")
            await target.close()
            await lb.delete("b")
            await sent(lb, url)
            assert stored(url) == NONE

    asyncio.run(play())


def test_an_interrupted_deletion_is_rolled_back_and_repeated(url: str) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, url)
            prefix = dialect_of(url)[1]
            (before,) = rows(url, f"SELECT position FROM {prefix}sinks")[0]
            await lb.delete("b")
            page = await lb.changes("b", after=before)
            to_send = SinkPage("b", page.changes, before, page.cursor, definition=board())
            target = LedgerTarget(*dialect_of(url), "sink", lb, lambda: NOW_MS)
            await target.open()
            complete, delete = stored(url), target._delete_board

            def break_off(*arguments: Any) -> None:
                delete(*arguments)
                raise RuntimeError("broke off")

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(target, "_delete_board", Mock(side_effect=break_off))
                with pytest.raises(RuntimeError, match="broke off"):
                    await target.deliver(to_send)
            assert stored(url) == complete
            for _ in range(2):  # the answer to the first attempt was lost
                await target.deliver(to_send)
                assert stored(url) == NONE
            # A paused runner that wakes up now removes nothing of the new board.
            await lb.create(board())
            await lb.submit("b", "ann", 7)
            await sent(lb, url)
            newer = stored(url)
            with pytest.raises(SinkOvertaken):
                await target.deliver(to_send)
            assert stored(url) == newer
            await target.close()

    asyncio.run(play())


@pytest.mark.parametrize("side", [None, "ledger", "store"])
def test_a_new_board_is_not_compared_with_the_rows_of_the_old_one(
    url: str, side: Side | None
) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb, changes="1d")
            await sent(lb, url)
            await lb.delete("b")
            await lb.create(board())
            await lb.submit_many("b", [("m1", 100), ("ann", 1)])
            before, top = stored(url), (await lb.top("b")).entries
            reconciler = BoardReconciler(lb, *dialect_of(url), side)
            with pytest.raises(SinkBehind, match="the deletion of the earlier board"):
                await reconciler.run("b")
            assert (stored(url), (await lb.top("b")).entries) == (before, top)
            await sent(lb, url)
            await lb.delete("b")
            await sent(lb, url)
            await fill(lb)
            with pytest.raises(NoLedger):
                await reconciler.run("b")
            await sent(lb, url)
            assert (await reconciler.run("b")).differing == 0

    asyncio.run(play())


def test_a_deleted_board_is_not_rebuilt(url: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await fill(lb, "other")
            await sent(lb, url)
            await lb.delete("b")
            await sent(lb, url)

    asyncio.run(play())
    folder = str(tmp_path / "rebuilt")
    assert main(["rebuild", "--from", url, "--at", folder]) == 0
    with laurels.open(folder) as lb:
        assert [each.name for each in lb.boards()] == ["other"]


def test_other_tables_of_the_ledger_stay(url: str) -> None:
    async def play() -> None:
        async with opened() as lb:
            await fill(lb)
            await sent(lb, url)
            prefix = dialect_of(url)[1]
            (position,) = rows(url, f"SELECT position FROM {prefix}sinks")[0]
            await lb.delete("b")
            await sent(lb, url)
            (end, generation) = rows(url, f"SELECT position, generation FROM {prefix}sinks")[0]
            assert (end.partition("~")[0], generation) == (position.partition("~")[0], 1)

    asyncio.run(play())


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
