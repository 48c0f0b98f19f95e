"""Whether the ids of a batch certainly fit among those that a board remembers.

A board refuses a new id while it remembers `dedupe_max` of them, and takes it later. A source must
not count what comes behind such an event, for its position could not say so.
"""

from collections.abc import Sequence
from typing import Protocol

from laurels.api.aio import AsyncLeaderboards


class WithEvent(Protocol):
    @property
    def event(self) -> tuple[object, object, object, str | None, object]: ...


class DedupeRoom:
    """Counts the ids submitted against those that fit. Asks a board seldom."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._lb = lb
        self._free: dict[str, int] = {}

    async def fits(self, board: str, rows: Sequence[WithEvent]) -> bool:
        """Return whether all ids of the rows fit, and count them."""
        wanted = sum(row.event[3] is not None for row in rows)
        if wanted > self._free.get(board, 0):
            remembered = (await self._lb.stats(board)).remembered
            most = (await self._lb.get(board)).dedupe_max
            self._free[board] = max(0, most - remembered)
        if wanted > self._free.get(board, 0):
            return False
        self._free[board] = self._free.get(board, 0) - wanted
        return True
