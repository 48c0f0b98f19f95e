"""Whether a board can certainly remember all event ids of a batch.

A board that remembers `dedupe_max` ids refuses new ones, and accepts them later. A source must not
count anything after such an event, since its position could not express that the event was left
out.
"""

from collections.abc import Sequence
from typing import Protocol

from laurels.api.aio import AsyncLeaderboards


class WithEvent(Protocol):
    @property
    def event(self) -> tuple[object, object, object, str | None, object]: ...


class DedupeRoom:
    """Compares the number of submitted ids with the number that a board can still remember, which
    it seldom has to query."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._lb = lb
        self._free: dict[str, int] = {}

    async def fits(self, board: str, rows: Sequence[WithEvent]) -> bool:
        """Return whether all ids of the rows fit, and count them."""
        wanted = len([row for row in rows if row.event[3] is not None])
        if wanted > self._free.get(board, 0):
            remembered = (await self._lb.stats(board)).remembered
            most = (await self._lb.get(board)).dedupe_max
            self._free[board] = max(0, most - remembered)
        if wanted > self._free.get(board, 0):
            return False
        self._free[board] = self._free.get(board, 0) - wanted
        return True
