"""Make boards from a ledger: definitions, entries with their times, data, positions of sources.

A board is made without `changes`, gets its entries, then what its members carry, then the positions
of its sources, and last its `changes`. How far it is, is noted as the position of a source of its
own (`rebuild`), so that the same command goes on after a kill: entries are put in place again,
which changes nothing. Rolling windows, decay and rankings by a label are not in a ledger and begin
empty.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.beginning import is_initial
from laurels.errors import UnknownBoard
from laurels.errors.ledger import LedgerIncomplete, NoLedger, RebuildTaken
from laurels.flows.sinks.target import POSITION_PREFIX
from laurels.model.board import Board
from laurels.model.board_patterns import reaches
from laurels.model.rules import Rules

from .reading import LedgerBoard, LedgerReader

T = TypeVar("T")
SOURCE = "rebuild"
"""The source whose position says how far a board is made."""
BEGUN, DONE = "begun", "done"
DATA_AT_ONCE = 500


class RebuiltBoard(Struct, frozen=True):
    """A board that was made from a ledger.

    `entries` are those in its rankings; `expired` those of periods that it no longer keeps;
    `left_out` those of scopes whose labels the ledger does not have. `empty` are the windows, and
    rankings by a label, that begin without members. `was_done` if an earlier run had made it.
    """

    board: str
    entries: int = 0
    expired: int = 0
    left_out: int = 0
    data: int = 0
    sources: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    was_done: bool = False


class Rebuilding:
    """Makes boards from a ledger. `progress` is called with the name of a board and the number of
    its entries that are in place."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        ledger: LedgerReader,
        progress: Callable[[str, int], None] = lambda _board, _entries: None,
    ) -> None:
        self._lb = lb
        self._ledger = ledger
        self._progress = progress

    async def run(self, patterns: Sequence[str] | None = None) -> list[RebuiltBoard]:
        """Make the boards whose names match. Raises NoLedger, LedgerIncomplete, RebuildTaken before
        any of them is made."""
        names = [
            name
            for name in await asyncio.to_thread(self._ledger.boards)
            if patterns is None or reaches(patterns, name)
        ]
        if not names:
            raise NoLedger("the ledger has none of these boards")
        boards = [await asyncio.to_thread(self._ledger.board, name) for name in names]
        for board in boards:
            _ensure_complete(board)
            await self._ensure_free(board)
        return [await self._make(board) for board in boards]

    async def _ensure_free(self, board: LedgerBoard) -> None:
        """Raise RebuildTaken if there is a board of that name which no run has begun to make, or
        which a source has written since."""
        name = board.definition.name
        try:
            existing = await self._lb.get(name)
        except UnknownBoard:
            return
        stage = await self._lb.position(name, SOURCE)
        if stage == DONE:
            return
        if not _is_same(existing, board.definition):
            raise RebuildTaken(f"there is a board {name!r} with another definition")
        if stage is None and await self._has_members(name):
            raise RebuildTaken(f"there is a board {name!r} with members")
        positions = await asyncio.to_thread(self._ledger.positions, name)
        for source, text in positions.items():
            if not _is_ours(source) and await self._lb.position(name, source) not in (None, text):
                raise RebuildTaken(
                    f"the source {source!r} has written to the board {name!r}, which is half made"
                )

    async def _make(self, board: LedgerBoard) -> RebuiltBoard:
        """Make a board, or go on where an earlier run was interrupted."""
        definition, lb = board.definition, self._lb
        name, rules = definition.name, definition.rules()
        if await self._exists(name) and await lb.position(name, SOURCE) == DONE:
            return RebuiltBoard(name, was_done=True)
        await self._begin(definition)
        made = await self._put_entries(board)
        made = replace(made, data=await self._put_data(name), empty=_empty(rules))
        positions = await asyncio.to_thread(self._ledger.positions, name)
        sources = {source: text for source, text in positions.items() if not _is_ours(source)}
        for source, text in sources.items():
            await lb.submit_many(name, [], position=(source, text))
        await lb.change(name, changes=definition.changes, changes_max=definition.changes_max)
        await lb.submit_many(name, [], position=(SOURCE, DONE))
        return replace(made, sources=tuple(sorted(sources)))

    async def _has_members(self, name: str) -> bool:
        stats = await self._lb.stats(name)
        return bool(stats.scopes) or any(window.rankings for window in stats.windows)

    async def _exists(self, name: str) -> bool:
        try:
            await self._lb.get(name)
        except UnknownBoard:
            return False
        return True

    async def _begin(self, definition: Board) -> None:
        if not await self._exists(definition.name):
            await self._lb.create(_without_changes(definition))
        await self._lb.submit_many(definition.name, [], position=(SOURCE, BEGUN))

    async def _put_entries(self, board: LedgerBoard) -> RebuiltBoard:
        name = board.definition.name
        reader = await asyncio.to_thread(self._ledger.reader, board)
        at = board.newest_ms
        entries = expired = left_out = 0
        pages = self._ledger.rows(board)
        following = _next(pages)
        try:
            while (rows := await following) is not None:
                following = _next(pages)
                rankings, unnamed = await asyncio.to_thread(reader.rankings, rows)
                placed = await self._lb.mend(name, rankings, at=at)
                entries += placed
                expired += len(rows) - unnamed - placed
                left_out += unnamed
                self._progress(name, entries)
        finally:  # nobody closes the connection while it is read
            await asyncio.gather(following, return_exceptions=True)
        return RebuiltBoard(name, entries, expired, left_out)

    async def _put_data(self, name: str) -> int:
        count = 0
        pages = self._ledger.data(name)
        while (page := await _next(pages)) is not None:
            for start in range(0, len(page), DATA_AT_ONCE):
                some = page[start : start + DATA_AT_ONCE]
                await asyncio.gather(*[self._lb.set_data(name, *each) for each in some])
            count += len(page)
        return count


def _next(pages: Iterator[T]) -> "asyncio.Future[T | None]":
    """Begin to read the next page in a thread; return a future of it, None after the last."""
    return asyncio.ensure_future(asyncio.to_thread(next, pages, None))


def _ensure_complete(board: LedgerBoard) -> None:
    """Raise LedgerIncomplete if the sink has not written every present entry yet."""
    if board.position is None or (is_initial(board.position) and board.generation == 1):
        raise LedgerIncomplete(
            f"the sink {board.sink!r} has not written every present entry of the board "
            f"{board.definition.name!r}"
        )


def _is_ours(source: str) -> bool:
    """Return whether a position is that of this module or of a sink."""
    return source == SOURCE or source.startswith(POSITION_PREFIX)


def _without_changes(definition: Board) -> Board:
    return replace(definition, changes="")


def _is_same(one: Board, other: Board) -> bool:
    """Return whether two definitions are equal but for their changes."""
    return _without_changes(one) == _without_changes(other)


def _empty(rules: Rules) -> tuple[str, ...]:
    """Return the windows and rankings of a board that a ledger does not have."""
    recorded = {rules.places[index].window for index in rules.recorded}
    windows = [name for name in rules.windows if name not in recorded]
    return (*windows, *[f"by {label}" for label in rules.rank_by])


def sentence(made: RebuiltBoard) -> str:
    """Return what was made, in words."""
    if made.was_done:
        return f"{made.board}: made already"
    parts = [f"{made.board}: {made.entries:,} entries"]
    if made.data:
        parts.append(f"the data of {made.data:,} members")
    if made.sources:
        parts.append(f"the positions of {', '.join(made.sources)}")
    if made.expired:
        parts.append(f"{made.expired:,} entries left out of periods that are no longer kept")
    if made.left_out:
        parts.append(f"{made.left_out:,} entries left out whose labels the ledger does not have")
    if made.empty:
        parts.append(f"{', '.join(made.empty)} begin empty")
    return "; ".join(parts)
