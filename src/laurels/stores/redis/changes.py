"""Reads the changes of boards on an index server, merged from all shards into one sequence of
pages."""

import asyncio
import heapq
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from laurels.core.board_state import BoardState, unknown_board
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.changes.beginning import uid_of
from laurels.core.changes.blocks import Block, WriteBlock
from laurels.core.changes.cursor import (
    NOW,
    BlockPlace,
    ChangeCursor,
    decode_cursor,
    decode_latest,
    ensure_not_ended,
    is_end,
)
from laurels.core.changes.deleted import Deletion
from laurels.core.changes.pages import (
    ChangeContext,
    ensure_cursor,
    ensure_kept,
    make_page,
    place_at,
    sent_before,
    start_of,
)
from laurels.errors import NotReady, UnknownBoard
from laurels.model.validation import quoted

from .catalog import ATTEMPTS, BoardCatalog
from .outdated import DefinitionOutdated
from .remote import ShardChanges, opened_as
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
        CursorDiverged, BoardDeleted, InvalidCursor."""
        cursor = None if after in (None, NOW) else decode_cursor(after)
        for _ in range(ATTEMPTS):
            if is_end(after) and not await self._was_restored(board, uid_of(after)):
                ensure_not_ended(board, after)
            state, deletion = await self.followed(board, after)
            ensure_kept(state)
            try:
                return await self._page(
                    _Followed(state, deletion is not None), after, cursor, limit
                )
            except _Replaced:
                continue
        raise NotReady(f"the board {quoted(board)} kept changing while its changes were read")

    async def _was_restored(self, board: str, uid: str | None) -> bool:
        """Return whether a board that was deleted is there again, under this name."""
        current = self._catalog.boards.boards.get(board)
        if current is None or current.uid != uid:
            await self._catalog.load()
            current = self._catalog.boards.boards.get(board)
        return current is not None and current.uid == uid

    async def followed(self, board: str, after: str | None) -> tuple[BoardState, Deletion | None]:
        """Return the board to which the cursor `after` belongs, and its deletion; None if it is not
        deleted. If the cursor belongs to no board, or to one whose changes are not kept, return the
        current board of the name. Raises UnknownBoard."""
        uid, boards = uid_of(after), self._catalog.boards
        self._catalog.set_gone()
        state = boards.boards.get(board)
        if state is None or not state.rules.changes_ms or uid not in (None, state.uid):
            await self._catalog.load()
            state = boards.boards.get(board)
        if uid is not None and (state is None or state.uid != uid):
            deletion = await read_only(self._catalog.find_deletion)(board, uid)
            if deletion is not None:
                return deletion.state, deletion
        return boards.named(board), None

    async def _page(
        self, followed: "_Followed", after: str | None, cursor: ChangeCursor | None, limit: int
    ) -> ChangePage:
        state, count = followed.state, followed.state.rules.shards
        edge = "" if cursor is None else cursor.edge
        sequences = [_MAX_SEQUENCE if after == NOW or edge == "last" else 0] * count
        if cursor is not None and len(cursor.places) == count:
            sequences = [min(place.sequence, _MAX_SEQUENCE) for place in cursor.places]
        shards = await self._read(followed, sequences, limit)
        if edge == "last":
            sequences[0] = max(0, shards[0].newest.sequence - 1)
            shards = await self._read(followed, sequences, limit)
        floors, newest = [each.floor for each in shards], [each.newest for each in shards]
        places: Sequence[BlockPlace] = newest if after == NOW else floors
        if edge == "last":
            places = [place_at(edge, floors[0], newest[0]), *newest[1:]]
        elif cursor is not None and cursor.places:
            ensure_cursor(state, cursor, floors, newest)
            places = cursor.places
        contexts = [
            ChangeContext(state.board.name, state.uid, shard, state.rules) for shard in range(count)
        ]
        blocks, waiting = _in_order(shards), sum(map(_waiting, shards, places))
        make = partial(make_page, deleted=followed.is_deleted)
        return await asyncio.to_thread(make, contexts, places, newest, blocks, limit, waiting)

    async def _read(
        self, followed: "_Followed", sequences: Sequence[int], limit: int
    ) -> list[ShardChanges]:
        """Read the changes of all shards. Raises _Replaced if the board was deleted meanwhile."""
        name, uid = followed.state.board.name, followed.state.uid
        if followed.is_deleted:
            return await self._read_deleted(followed.state, sequences, limit)

        async def read(current: BoardState) -> list[ShardChanges]:
            if current.uid != uid:
                raise _Replaced
            if current.hidden:
                await self._catalog.end_hidings(current)
            shard_changes: list[ShardChanges] = await self._catalog.index.read_changes(
                opened_as(current), sequences, limit
            )
            return shard_changes

        try:
            shards: list[ShardChanges] = await read_only(self._catalog.retry_outdated)(name, read)
        except UnknownBoard as error:
            raise _Replaced from error
        return shards

    async def _read_deleted(
        self, state: BoardState, sequences: Sequence[int], limit: int
    ) -> list[ShardChanges]:
        """Read the changes of all shards of a deleted board. If the process that deletes the board
        has not ended them yet, end them first. Raises UnknownBoard if the server has removed
        them."""
        read = partial(
            read_only(self._catalog.index.read_changes),
            opened_as(state),
            sequences,
            limit,
            deleted=True,
        )
        try:
            return await read()
        except DefinitionOutdated:
            await self._catalog.remove_deleted()
        try:
            return await read()
        except DefinitionOutdated as error:
            raise unknown_board(state.board.name) from error

    async def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are kept, each with the position of `source` in
        its changes."""
        await self._catalog.load()
        await self._catalog.remove_gone()
        return await read_only(self._catalog.deletions.answers)(source)

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
        states = {number: boards.find_by_number(number) for number in numbers}
        if None in states.values():
            deletions = await self._catalog.deletions.all()
            deleted = {each.state.number: each.state for each in deletions}
            states = {number: state or deleted.get(number) for number, state in states.items()}
        names = [state.board.name for state in states.values() if state is not None]
        return ChangedBoards([*dict.fromkeys(names)], str(newest))


class _Replaced(Exception):  # noqa: N818 (names the state)
    """The error that is raised if a board is deleted while its changes are read."""


class _Followed(Struct, frozen=True):
    """The board whose changes are read, and whether it is deleted."""

    state: BoardState
    is_deleted: bool


def _waiting(shard: ShardChanges, place: BlockPlace) -> int:
    """Return how many changes for sinks a shard has after `place`."""
    for block in shard.blocks[:1]:
        if block.sequence == place.sequence:
            return shard.waiting - sent_before(block, start_of(block, place))
    return shard.waiting


def _in_order(shards: Sequence[ShardChanges]) -> list[tuple[int, Block]]:
    """Merge the blocks of all shards by time, keeping the order within each shard. If the board was
    cleared or restored meanwhile, blocks that shards recorded before come first, then the clearing
    or the restoration, then all later blocks. A deletion comes last of the blocks before a
    restoration."""
    each = [
        [(shard, *block) for block in zip(changes.clears, changes.blocks, strict=True)]
        for shard, changes in enumerate(shards)
    ]
    return [(shard, block) for shard, _, block in heapq.merge(*each, key=_order)]


def _order(entry: tuple[int, int, Block]) -> tuple[int, bool, bool, int]:
    _, clears, block = entry
    kind = block.kind if isinstance(block, WriteBlock) else None
    return clears, kind == "delete", kind not in ("clear", "undelete"), block.now_ms
