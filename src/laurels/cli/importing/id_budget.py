"""Limits how many events with ids an import submits at once, so that the board accepts all of them.

A board that already remembers `dedupe_max` ids refuses events with new ids, but may accept them
later. An import must not count the events after such an event, since the stored position cannot
express the gap.
"""

from collections.abc import Sequence

import laurels

from .reading import SourceRow


class IdBudget:
    """Counts down how many more ids the board can remember. The board is asked for this number only
    when the count does not suffice, since answering takes O(rankings)."""

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
