"""Check whether a board can remember all event ids of a batch.

A board that remembers `dedupe_max` ids refuses events with new ids until older ids have expired.
After such a refusal a source must not count later events: its position would then be after the
refused event, as if that event had been counted.
"""

from collections.abc import Sequence

from laurels.api.aio import AsyncLeaderboards

from .mapping import MappedEvent


class DedupeCapacity:
    """Counts down how many more ids each board can remember, so that boards seldom have to be
    queried. If another program also submits ids, the count may be too high; then the board refuses
    an event."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._lb = lb
        self._free: dict[str, int] = {}

    async def can_remember(self, board: str, events: Sequence[MappedEvent]) -> bool:
        """Return whether the board can remember the ids of all events; if so, reserve room for
        them."""
        new_ids = len([event for event in events if event[3] is not None])
        if new_ids > self._free.get(board, 0):
            remembered = (await self._lb.stats(board)).remembered
            max_ids = (await self._lb.get(board)).dedupe_max
            self._free[board] = max(0, max_ids - remembered)
        if new_ids > self._free.get(board, 0):
            return False
        self._free[board] = self._free.get(board, 0) - new_ids
        return True
