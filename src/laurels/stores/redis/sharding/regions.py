"""Entries of several shards around a pivot, put in the order of the whole.

Each shard has given the entries before and behind the pivot that are next to it, maybe not all. As
far as no shard has more that it did not give, they are all entries of the whole, side by side.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from laurels.core.index import Slice
from laurels.core.requests import ReadResult

Words = tuple[int, ...]


class RegionRow(NamedTuple):
    """An entry: its words that decide the order, its member, the shard and the place in its
    slice."""

    words: Words
    member: bytes
    shard: int
    place: int


class Region:
    """The entries of the whole from position `start` on; `position` is the pivot's."""

    def __init__(self, parts: Sequence[ReadResult], anchor: int, span: int, width: int) -> None:
        self._parts = [part.slices[span] for part in parts]
        self._rows = [_rows(part, shard, width) for shard, part in enumerate(self._parts)]
        self.position = sum(part.positions[anchor] for part in parts)
        before: list[RegionRow] = []
        behind: list[RegionRow] = []
        first: list[RegionRow | None] = []
        last: list[RegionRow | None] = []
        for part, slice, rows in zip(parts, self._parts, self._rows, strict=True):
            middle = part.positions[anchor] - slice.start
            before += rows[:middle]
            behind += rows[middle:]
            if slice.start > 0:
                first.append(rows[0] if middle > 0 else None)
            if slice.start + len(rows) < part.total:
                last.append(rows[-1] if middle < len(rows) else None)
        before = _from(sorted(before), first)
        self.start = self.position - len(before)
        self.rows = before + _up_to(sorted(behind), last)

    def cut(self, low: int, high: int) -> list[RegionRow] | None:
        """Return the entries at these positions of the whole; None where it has not got all of
        them."""
        if low < self.start or high > self.start + len(self.rows):
            return None
        return self.rows[low - self.start : high - self.start]

    def rank(self, row: RegionRow, columns: int) -> int | None:
        """Return how many entries of the whole have better columns than one of these, in each shard
        as the last entry before it says; None where that was not read."""
        rank = 0
        for part, rows in zip(self._parts, self._rows, strict=True):
            place = bisect_left(rows, row)
            if place == 0 and part.start > 0:
                return None
            if place == 0:
                continue
            equal = rows[place - 1].words[:columns] == row.words[:columns]
            rank += part.ranks[place - 1] if equal else part.start + place
        return rank


def empty_slice(start: int, width: int) -> Slice:
    """A slice without entries."""
    return Slice(start, [], array("q"), [array("q") for _ in range(width)])


def _rows(part: Slice, shard: int, width: int) -> list[RegionRow]:
    words = zip(*part.words[:width], strict=True)
    return [
        RegionRow(words, member.encode(), shard, place)
        for place, (words, member) in enumerate(zip(words, part.members, strict=True))
    ]


def _from(rows: list[RegionRow], first: Sequence[RegionRow | None]) -> list[RegionRow]:
    """Return the rows from the last of the first ones on: before those, some shard has more."""
    start = 0
    for row in first:
        start = max(start, len(rows) if row is None else bisect_left(rows, row))
    return rows[start:]


def _up_to(rows: list[RegionRow], last: Sequence[RegionRow | None]) -> list[RegionRow]:
    """Return the rows up to the first of the last ones: behind those, some shard has more."""
    end = len(rows)
    for row in last:
        end = min(end, 0 if row is None else bisect_right(rows, row))
    return rows[:end]
