"""Limits the events with ids that an import submits at once to those that the board can accept.

A board that remembers `dedupe_max` ids refuses a new id, which it may accept later. An import must
not count the events after a refused one, since the stored position cannot express such a gap.
"""

from collections.abc import Sequence

import laurels

from .reading import SourceRow


class IdRoom:
    """Counts submitted ids against the number that the board can still remember. That number is
    seldom read, since a read takes O(rankings)."""

    def __init__(self, lb: laurels.Leaderboards, board: str) -> None:
        self._lb = lb
        self._board = board
        self._free = 0

    def fitting(self, rows: Sequence[SourceRow]) -> int:
        """Return how many of the first rows can be submitted at once without exceeding the limit on
        ids."""
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
