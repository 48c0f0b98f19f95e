"""A store that is rebuilt from a ledger has the same rankings as the original store, including the
order of ties."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import ChangesExpired, CursorDiverged
from laurels.errors.ledger import LedgerIncomplete, NoLedger, RebuildTaken
from laurels.flows.ledger.rebuild import rebuild
from laurels.sql.databases import dialect_of
from laurels.stores.board_copies import BoardCopies
from tests.conftest import Scaled
from tests.counts import covering
from tests.internals import copies_of
from tests.redis.servers import Server

from .rebuilding import everything, reading, rebuilt
from .sinking import NOW_MS, ledger, rankings, rows, sent
from .test_ledger import BOARDS, DAY_MS, board, prefix_of, step


@pytest.fixture(scope="module")
def server() -> Any:
    started = Server()
    yield started
    started.stop()


@pytest.fixture(params=["folder", "redis"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty store."""
    if request.param == "folder":
        return str(tmp_path / "boards")
    server = request.getfixturevalue("server")
    return f"{server.url}?prefix=t{abs(hash(request.node.nodeid)) % 10**9}:"


@pytest.mark.parametrize(
    ("kind", "target"), covering([*BOARDS], ["folder", "redis"]), indirect=["target"]
)
def test_rebuilt_rankings_equal_the_original_ones(
    kind: str, url: str, target: str, scaled: Scaled
) -> None:
    defined, random = BOARDS[kind], Random(kind)
    clock = laurels.ManualClock(NOW_MS)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            await sent(lb, url)
            for _round in range(scaled(6, 100)):
                for _ in range(random.randrange(8)):
                    await step(lb, defined, random)
                clock.advance(random.choice([0, 3_600_000, DAY_MS]))
            await lb.submit_many("b", [], position=("stream", "42 \\ 7"))
            await sent(lb, url)
            expected = await asyncio.to_thread(everything, lb.sync, "b")
        async with laurels.open_async(target, clock=clock) as lb:
            (made,) = await rebuilt(lb, url)
            assert await asyncio.to_thread(everything, lb.sync, "b") == expected
            assert made.entries == sum(map(len, expected.values()))
            assert made.expired == made.left_out == 0
            assert made.sources == ("stream",)
            assert await lb.get("b") == defined
            assert await lb.position("b", "stream") == "42 \\ 7"
            await lb.check()
            assert [each.was_done for each in await rebuilt(lb, url)] == [True]
            for _ in range(5):
                await step(lb, defined, random)
            await sent(lb, url)

    asyncio.run(play())


def test_a_scope_with_a_shortened_text_is_rebuilt(url: str) -> None:
    defined = board(scopes=[["room", "kind"]], windows=["all"])
    labels = {"room": "ü" * 60, "kind": "%/~" * 40}

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            await lb.submit("b", "ann", 7, labels=labels)
            await lb.submit("b", "ann", 8, labels={"room": "1", "kind": "~" * 100})
            await sent(lb, url)
            expected = await asyncio.to_thread(everything, lb.sync, "b")
            async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as other:
                await rebuilt(other, url)
                assert await asyncio.to_thread(everything, other.sync, "b") == expected
                top = await other.top("b", labels=labels)
                assert top.entries[0].score == 7

    asyncio.run(play())


class Cut(Exception):  # noqa: N818 (what ends a process)
    """Raised in place of a write, as if the process had ended before this write."""


class CutCopies:
    """An interface for copying whole boards. After `writes` writes, it raises `Cut` in place of
    every further write."""

    def __init__(self, copies: BoardCopies, writes: int) -> None:
        self._copies = copies
        self._left = itertools.count(writes, -1)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._copies, name)

        def call(*args: Any) -> Any:
            if name in ("begin", "put", "finish", "give_up") and next(self._left) <= 0:
                raise Cut
            return verb(*args)

        return call


def test_an_interrupted_rebuild_starts_over(
    url: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rebuild is interrupted before its first write, the next one before its second
    write, and so on, until a rebuild is complete."""
    defined, clock = board(), laurels.ManualClock(NOW_MS)

    async def fill() -> dict[str, Any]:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            await lb.submit_many("b", [(f"m{i}", i % 7) for i in range(40)], position=("s", "9"))
            await lb.set_data("b", "m3", {"n": 1})
            await sent(lb, url)
            return await asyncio.to_thread(everything, lb.sync, "b")

    def run(writes: int) -> None:
        with laurels.open(target, clock=clock) as lb:
            reader = reading(url)
            try:
                copies: Any = CutCopies(copies_of(lb), writes)
                rebuild(reader, copies)
            finally:
                reader.close()

    monkeypatch.setattr("laurels.flows.ledger.reading.PAGE", 25)
    monkeypatch.setattr("laurels.core.contents.PIECE_ROWS", 25)
    expected = asyncio.run(fill())
    for writes in itertools.count():
        try:
            run(writes)
        except Cut:
            with laurels.open(target, clock=clock) as lb:
                assert lb.boards() == []
                lb.check()
            continue
        break
    assert writes > 5
    with laurels.open(target, clock=clock) as lb:
        assert everything(lb, "b") == expected
        assert lb.position("b", "s") == "9"
        lb.check()


def test_cursors_from_before_the_rebuild_are_detected(url: str, target: str) -> None:
    """The rebuilt board has the same uid, but its changes differ from the old ones, even if their
    numbers are equal."""

    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(board())
            await sent(lb, url)
            begin = (await lb.changes("b")).cursor
            cursors = [begin.replace(begin.partition("~")[2], "0-0-e")]
            for i in range(4):
                await lb.submit("b", "ann", i)
                cursors.append((await lb.changes("b", after=cursors[-1])).cursor)
                if i == 1:
                    await sent(lb, url)
            ids = {change.id for change in (await lb.changes("b")).changes}
            async with laurels.open_async(target, clock=clock) as other:
                await rebuilt(other, url)
                uid = begin.partition("~")[0]
                assert (await asyncio.to_thread(copies_of(other).origin, "b")).uid == uid
                for _ in range(6):
                    for cursor in cursors:
                        with pytest.raises((CursorDiverged, ChangesExpired)):
                            await other.changes("b", after=cursor)
                    await other.submit("b", "bob", 1)
                page = await other.changes("b")
                assert not ids & {change.id for change in page.changes}
                await sent(other, url)
                expected = await asyncio.to_thread(rankings, other.sync, board())
                assert ledger(url, board(), prefix_of(url)) == expected

    asyncio.run(play())


def test_an_existing_board_with_the_same_name_is_left_alone(url: str) -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with (
            laurels.open_async("memory:", clock=clock) as lb,
            laurels.open_async("memory:", clock=clock) as other,
        ):
            for name in ("a", "b"):
                await lb.create(board(name=name))
                await lb.submit(name, "ann", 5)
            await sent(lb, url)
            await other.create(board())
            await other.submit("b", "bob", 1)
            with pytest.raises(RebuildTaken, match="another board 'b'"):
                await rebuilt(other, url)
            assert [entry.member for entry in (await other.top("b")).entries] == ["bob"]
            assert [each.name for each in await other.boards()] == ["b"]
            assert [each.was_done for each in await rebuilt(lb, url)] == [True, True]

    asyncio.run(play())


def test_a_rebuild_refuses_impossible_entries(url: str) -> None:
    """Somebody has written impossible entries into the ledger. The rebuild stops before it creates
    the board."""

    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 5)
            await sent(lb, url)
        table = f"{prefix_of(url)}scores"
        dialect, _ = dialect_of(url)
        for column, wrong in (
            ("score_1", "1.5"),
            ("score_1", "NULL"),
            ("score_1", "9007199254740993"),
            ("reached_at", "NULL"),
            ("reached_at", "-9000000000000000"),
            ("period", "'no'"),
            ("window_name", "'no'"),
            ("scope", "'room=1'"),
            ("member", "''"),
        ):
            connection = dialect.connect()
            stored = rows(url, f"SELECT * FROM {table}")
            dialect.execute(
                connection, f"UPDATE {table} SET {column} = {wrong} WHERE window_name = 'day'"
            )
            connection.commit()
            async with laurels.open_async("memory:", clock=clock) as other:
                with pytest.raises(laurels.LaurelsError):
                    await rebuilt(other, url)
                assert await other.boards() == []
            dialect.execute(connection, f"DELETE FROM {table}")
            places = ", ".join(["%s"] * len(stored[0]))
            for row in stored:
                dialect.execute(connection, f"INSERT INTO {table} VALUES ({places})", row)
            connection.commit()
            connection.close()
        async with laurels.open_async("memory:", clock=clock) as other:
            assert (await rebuilt(other, url))[0].entries == len(stored)

    asyncio.run(play())


def test_only_selected_boards_are_rebuilt(url: str) -> None:
    async def play() -> None:
        async with (
            laurels.open_async("memory:") as lb,
            laurels.open_async("memory:") as other,
        ):
            for name in ("a1", "a2", "b"):
                await lb.create(board(name=name))
                await lb.submit(name, "ann", 1)
            await sent(lb, url)
            made = await rebuilt(other, url, ["a*"])
            assert [each.board for each in made] == ["a1", "a2"]
            with pytest.raises(NoLedger):
                await rebuilt(other, url, ["c*"])

    asyncio.run(play())


def test_a_ledger_that_is_not_complete_is_refused(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await sent(lb, url)
            prefix = prefix_of(url)
            dialect, _ = dialect_of(url)
            connection = dialect.connect()
            dialect.execute(connection, f"UPDATE {prefix}sinks SET position = 'initial.x'")
            connection.commit()
            connection.close()
            with pytest.raises(LedgerIncomplete):
                await rebuilt(lb, url)

    asyncio.run(play())


def test_a_database_without_a_ledger_is_left_as_it_is(url: str) -> None:
    dialect, prefix = dialect_of(url)
    dialect.connect().close()
    with pytest.raises(NoLedger):
        reading(url)
    connection = dialect.connect()
    with pytest.raises(laurels.LaurelsError), dialect.errors():
        dialect.execute(connection, f"SELECT * FROM {prefix}boards")
    connection.close()
