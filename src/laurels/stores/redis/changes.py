"""Reads the changes of boards on an index server, merged from all shards into one sequence of
pages."""

import asyncio
import heapq
from collections.abc import Sequence

from laurels.core.board_state import BoardState
from laurels.core.changes.answers import ChangedBoards, ChangePage
from laurels.core.changes.blocks import Block
from laurels.core.changes.cursor import NOW, BlockPlace, decode_cursor, decode_latest
from laurels.core.changes.pages import (
    ChangeContext,
    ensure_cursor,
    ensure_kept,
    make_page,
    sent_before,
    start_of,
)

from .catalog import BoardCatalog, opened_as
from .remote import ShardChanges
from .retry import read_only

_MAX_SEQUENCE = 2**53 - 1
"""A sequence number greater than that of any block: the greatest number that scripts represent
exactly."""


class ChangeReader:
    """Reads a board's changes page by page."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog

    async def end(self, board: str) -> str:
        """Return the cursor after the last change."""
        return (await self.page(board, NOW, 1)).cursor

    async def page(self, board: str, after: str | None, limit: int) -> ChangePage:
        """Return a page of changes after a cursor. Raises ChangesNotKept, ChangesExpired,
        CursorDiverged, InvalidCursor."""
        state = await self._catalog.find_board(board)
        cursor = None if after in (None, NOW) else decode_cursor(after)
        if not state.rules.changes_ms or (cursor is not None and cursor.uid != state.uid):
            await self._catalog.load()
            state = self._catalog.boards.named(board)
        ensure_kept(state)
        count = state.rules.shards
        sequences = [_MAX_SEQUENCE if after == NOW else 0] * count
        if cursor is not None and len(cursor.places) == count:
            sequences = [min(place.sequence, _MAX_SEQUENCE) for place in cursor.places]

        async def read(current: BoardState) -> list[ShardChanges]:
            shard_changes: list[ShardChanges] = await self._catalog.index.read_changes(
                opened_as(current), sequences, limit
            )
            return shard_changes

        shards = await read_only(self._catalog.retry_outdated)(board, read)
        floors, newest = [each.floor for each in shards], [each.newest for each in shards]
        places: Sequence[BlockPlace] = newest if after == NOW else floors
        if cursor is not None:
            ensure_cursor(state, cursor, floors, newest)
            places = cursor.places
        contexts = [
            ChangeContext(state.board.name, state.uid, shard, state.rules) for shard in range(count)
        ]
        blocks, waiting = _in_order(shards), sum(map(_waiting, shards, places))
        return await asyncio.to_thread(make_page, contexts, places, newest, blocks, limit, waiting)

    @read_only
    async def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor."""
        seen = None if after is None else decode_latest(after)
        newest, numbers = await self._catalog.index.latest_changes(seen)
        if numbers is None:
            return ChangedBoards(None, str(newest))
        boards = self._catalog.boards
        if any(boards.find_by_number(number) is None for number in numbers):
            await self._catalog.load()
        states = map(boards.find_by_number, numbers)
        names = [state.board.name for state in states if state is not None]
        return ChangedBoards(names, str(newest))


def _waiting(shard: ShardChanges, place: BlockPlace) -> int:
    """Return how many changes for sinks a shard has after `place`."""
    for block in shard.blocks[:1]:
        if block.sequence == place.sequence:
            return shard.waiting - sent_before(block, start_of(block, place))
    return shard.waiting


def _in_order(shards: Sequence[ShardChanges]) -> list[tuple[int, Block]]:
    """Merge the blocks of all shards by time, keeping the order within each shard."""
    each = [[(shard, block) for block in changes.blocks] for shard, changes in enumerate(shards)]
    return list(heapq.merge(*each, key=lambda entry: entry[1].now_ms))
