"""The part of the order of a board that its shards know for certain."""

from collections.abc import Sequence

from laurels.core.requests import ReadResult


class Coverage:
    """The part of the whole board's order that is known: `total` is the number of its entries. The
    entries at the first `certain` positions are known for certain; if `certain` is None, all
    entries are. The first `listed` entries can be listed."""

    def __init__(self, parts: Sequence[ReadResult], head: int) -> None:
        self.total = sum(part.total for part in parts)
        self.certain: int | None = None
        self.grid_age: int | None = None
        self.listed = min(self.total, head or self.total)
        if any(part.certain is not None for part in parts):
            cut = [part for part in parts if certain_in(part) < part.total]
            self.certain = min(map(certain_in, cut), default=self.total)
            self.listed = min(self.listed, self.certain)
            ages = [part.grid_age for part in cut if part.grid_age is not None]
            self.grid_age = sum(ages) if len(ages) == len(cut) else None

    def lists(self, position: int) -> bool:
        """Return whether the position of an anchor is exact, and not after the end of the entries
        that can be listed."""
        if self.certain is not None and self.certain < self.total and position >= self.certain:
            return False
        return position <= self.listed


def certain_in(part: ReadResult) -> int:
    """Return how many of its first entries a shard knows for certain."""
    return part.total if part.certain is None else part.certain
