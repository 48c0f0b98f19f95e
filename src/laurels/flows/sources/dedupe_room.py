"""Check whether a board can remember all event ids of a batch.

A board that remembers `dedupe_max` ids refuses events with new ids until older ids have expired. A
source must not count later events before it has counted a refused one, since its position could not
record that one event is missing.
"""

from collections.abc import Sequence
from typing import Protocol

from laurels.api.aio import AsyncLeaderboards


class WithEvent(Protocol):
    @property
    def event(self) -> tuple[object, object, object, str | None, object]: ...


class DedupeRoom:
    """Keeps a lower bound of the number of ids that each board can still remember, so that boards
    seldom have to be queried."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._lb = lb
        self._free: dict[str, int] = {}

    async def fits(self, board: str, rows: Sequence[WithEvent]) -> bool:
        """Return whether the board can remember the ids of all rows; if so, reserve room for
        them."""
        wanted = len([row for row in rows if row.event[3] is not None])
        if wanted > self._free.get(board, 0):
            remembered = (await self._lb.stats(board)).remembered
            most = (await self._lb.get(board)).dedupe_max
            self._free[board] = max(0, most - remembered)
        if wanted > self._free.get(board, 0):
            return False
        self._free[board] = self._free.get(board, 0) - wanted
        return True
