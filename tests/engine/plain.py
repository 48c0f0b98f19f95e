"""A ranked set in the simplest form, a list of entries, with which the engine's ranked set is
compared."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Row = tuple[int, ...]


class PlainSet:
    """Entries in a dict from the bytes of a member to its columns. Each query sorts them again."""

    def __init__(self, *, columns: int, tie: bool, stamped: bool) -> None:
        self.columns = columns
        self.ordered = columns + tie
        self.width = columns + tie + stamped
        self.rows: dict[bytes, Row] = {}

    def put(self, member: bytes, row: Row) -> None:
        self.rows[member] = row

    def discard(self, member: bytes) -> bool:
        return self.rows.pop(member, None) is not None

    def order(self) -> list[tuple[Row, bytes]]:
        """Return the keys of all entries, in ranking order."""
        return sorted((row[: self.ordered], member) for member, row in self.rows.items())

    def ranks(self, style: int) -> dict[bytes, int]:
        """Return the rank from 0 of every member: ordinal, competition or dense."""
        ranks: dict[bytes, int] = {}
        shared = groups = -1
        before: Row | None = None
        for position, (row, member) in enumerate(self.order()):
            if row[: self.columns] != before:
                before, shared, groups = row[: self.columns], position, groups + 1
            ranks[member] = (position, shared, groups)[style]
        return ranks

    def bound(self, words: Sequence[int], member: bytes | None, *, right: bool) -> int:
        """Return how many entries precede a key; with `right`, entries equal to the key are
        included."""
        key = tuple(words)
        cut = bisect_right if right else bisect_left
        if member is None:
            return cut([row[: len(key)] for row, _ in self.order()], key)
        return cut(self.order(), (key, member))
