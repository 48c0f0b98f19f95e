"""Detects changes of boards that are watched.

A write by any process increments the offset of its board, which is cheap to read. While a board is
watched (`server.live`), its offset is polled often; otherwise it is not polled.
"""

import asyncio
from collections.abc import Collection

from laurels.core.board_state import BoardState, time_token

from .catalog import BoardCatalog
from .remote import opened_as
from .retry import read_only


class Follower:
    """Reads and caches the offsets of boards, from which their change tokens are made."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog
        self._offsets: dict[int, int] = {}

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        """Return a token that changes whenever the board's lists may have changed. It consists of
        the board's number, the board's offset, and the two parts that change with time (see
        `time_token`). O(1). Raises UnknownBoard."""
        self._catalog.set_gone()
        state = self._catalog.boards.named(board)
        offset = self._offsets.get(state.number, -1)
        return (state.number, offset, *time_token(state, self._catalog.time_of(state)))

    @read_only
    async def poll(self, boards: Collection[str]) -> None:
        """Read the offsets of boards concurrently."""
        self._catalog.set_gone()
        names = self._catalog.boards.boards
        if any(board not in names for board in boards):
            await self._catalog.load()
        states = [names[board] for board in boards if board in names]
        await asyncio.gather(*map(self._poll, states))

    async def _poll(self, state: BoardState) -> None:
        offset = await self._catalog.index.changes(opened_as(state))
        if offset < self._offsets.get(state.number, 0):  # another process deleted the board
            await self._catalog.load()
        if self._catalog.boards.find_current(state) is None:
            self._offsets.pop(state.number, None)
        else:
            self._offsets[state.number] = offset
