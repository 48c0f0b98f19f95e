"""A ledger removes the rows of a deleted board, and goes on with a new board of the same name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import laurels
from laurels.cli import main
from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import SinkBehind, SinkOvertaken
from laurels.flows.ledger.reconcile import BoardReconciler, Side
from laurels.flows.ledger.target import LedgerTarget
from laurels.flows.sinks.target import SinkPage
from laurels.sql.databases import dialect_of

from .sinking import NOW_MS, ledger, rankings, rows, sent, sink_of

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
