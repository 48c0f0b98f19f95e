"""The number of events with ids that a board is sure to accept, computed before they are submitted.

A board refuses a new id while it remembers `dedupe_max` ids, and may accept it later. An import
must not count events after such an event, since its position could not record the gap.
"""

from collections.abc import Sequence

import laurels

from .reading import SourceRow


class IdRoom:
    """Counts submitted ids against those that fit. It queries the board rarely: O(rankings)."""

    def __init__(self, lb: laurels.Leaderboards, board: str) -> None:
        self._lb = lb
        self._board = board
        self._free = 0

    def fitting(self, rows: Sequence[SourceRow]) -> int:
        """Return how many of the first rows can be submitted at once without exceeding the
        limit."""
        with_ids = [place for place, row in enumerate(rows) if row.event[3] is not None]
        if len(with_ids) > self._free:
            self._free = self._read_free()
        if len(with_ids) <= self._free:
            self._free -= len(with_ids)
            return len(rows)
        fitting = with_ids[self._free]
        self._free = 0
        return fitting

    def _read_free(self) -> int:
        remembered = self._lb.stats(self._board).remembered
        return max(0, self._lb.get(self._board).dedupe_max - remembered)
