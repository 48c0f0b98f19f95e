"""Merge entries of several shards around a pivot into the order of the whole board.

Each shard has returned its entries next to the pivot, before and after it, up to a limit. In each
direction the returned entries of a shard end somewhere, and beyond this end the shard may have more
entries. So the merged entries are complete only from the pivot to the nearest such end.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from laurels.core.index import Slice
from laurels.core.requests import ReadResult

Words = tuple[int, ...]


class RegionRow(NamedTuple):
    """An entry: the words that decide its order, its member, its shard, and its index in the
    shard's slice."""

    words: Words
    member: bytes
    shard: int
    place: int


class Region:
    """Consecutive entries of the whole board around a pivot, merged from the slices of its shards.
    `start` is the position of the first entry, `position` is the position of the pivot."""

    def __init__(self, parts: Sequence[ReadResult], anchor: int, span: int, width: int) -> None:
        self._parts = [part.slices[span] for part in parts]
        self._rows = [_rows(part, shard, width) for shard, part in enumerate(self._parts)]
        self.position = sum(part.positions[anchor] for part in parts)
        before: list[RegionRow] = []
        after: list[RegionRow] = []
        first: list[RegionRow | None] = []
        last: list[RegionRow | None] = []
        for part, slice, rows in zip(parts, self._parts, self._rows, strict=True):
            middle = part.positions[anchor] - slice.start
            before += rows[:middle]
            after += rows[middle:]
            if slice.start > 0:
                first.append(rows[0] if middle > 0 else None)
            if slice.start + len(rows) < part.total:
                last.append(rows[-1] if middle < len(rows) else None)
        before = _from(sorted(before), first)
        self.start = self.position - len(before)
        self.rows = before + _up_to(sorted(after), last)

    def cut(self, low: int, high: int) -> list[RegionRow] | None:
        """Return the entries from `low` to `high` of the whole board; None if some of them were not
        read."""
        if low < self.start or high > self.start + len(self.rows):
            return None
        return self.rows[low - self.start : high - self.start]

    def rank(self, row: RegionRow, columns: int) -> int | None:
        """Return how many entries of the whole board have better columns than a row. This is
        computed from the last entry before the row in each shard. Return None if one of these
        entries was not read."""
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
    """Return a slice without entries."""
    return Slice(start, [], array("q"), [array("q") for _ in range(width)])


def _rows(part: Slice, shard: int, width: int) -> list[RegionRow]:
    words = zip(*part.words[:width], strict=True)
    return [
        RegionRow(words, member.encode(), shard, place)
        for place, (words, member) in enumerate(zip(words, part.members, strict=True))
    ]


def _from(rows: list[RegionRow], first: Sequence[RegionRow | None]) -> list[RegionRow]:
    """Return the last rows before the pivot, as far back as no row is missing among them. `first`
    has an item for each shard that has more rows before those that were read: the first row that
    was read from it before the pivot, or None if none was. Earlier rows of this shard are missing,
    so the result begins at the row of `first` that is nearest to the pivot. With a None, it is
    empty."""
    start = 0
    for row in first:
        start = max(start, len(rows) if row is None else bisect_left(rows, row))
    return rows[start:]


def _up_to(rows: list[RegionRow], last: Sequence[RegionRow | None]) -> list[RegionRow]:
    """Return the first rows after the pivot, as far as no row is missing among them. `last` has an
    item for each shard that has more rows after those that were read: the last row that was read
    from it after the pivot, or None if none was. Later rows of this shard are missing, so the
    result ends at the row of `last` that is nearest to the pivot. With a None, it is empty."""
    end = len(rows)
    for row in last:
        end = min(end, 0 if row is None else bisect_right(rows, row))
    return rows[:end]
