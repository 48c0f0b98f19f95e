"""Consecutive entries of a ranking as columns, without an object for each entry. Pure."""

from array import array
from collections.abc import Iterable, Sequence

from msgspec import Struct

from laurels.engine.batch.packing import split_texts

MAX_EXPORTED = 4_096
"""The maximum number of entries that an index exports at once."""


class EntryColumns(Struct, frozen=True):
    """Entries in ranking order. `members` has the joined members, and `lengths` a byte for each
    member, the length of its id in bytes. `words` has an array of int64 for each word of an
    entry."""

    members: bytes
    lengths: bytes
    words: Sequence["array[int]"]

    @classmethod
    def of(cls, members: Sequence[bytes], words: Iterable[Sequence[int]]) -> "EntryColumns":
        """Return entries as columns. A member must have at most 255 bytes."""
        return cls(b"".join(members), bytes(map(len, members)), [*map(as_longs, words)])

    def __len__(self) -> int:
        return len(self.lengths)

    def names(self) -> list[bytes]:
        """Return the members."""
        return split_texts(self.members, self.lengths)

    def slice(self, start: int, stop: int) -> "EntryColumns":
        """Return the entries from `start` to `stop` (exclusive). O(entries)."""
        if start == 0 and stop >= len(self):
            return self
        first = sum(self.lengths[:start])
        lengths = self.lengths[start:stop]
        members = self.members[first : first + sum(lengths)]
        return EntryColumns(members, lengths, [column[start:stop] for column in self.words])

    def followed_by(self, others: "EntryColumns") -> "EntryColumns":
        """Return these entries, followed by others. All must have the same number of words."""
        words = [own + other for own, other in zip(self.words, others.words, strict=True)]
        return EntryColumns(self.members + others.members, self.lengths + others.lengths, words)

    def blocks(self, size: int) -> Iterable["EntryColumns"]:
        """Yield the entries in blocks of `size`; the last one may have fewer."""
        return (self.slice(at, at + size) for at in range(0, len(self), size))


def as_longs(column: Sequence[int]) -> "array[int]":
    """Return a column as an array of int64."""
    if isinstance(column, array) and column.typecode == "q":
        return column
    return array("q", column)
