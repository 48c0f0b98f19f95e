"""The members that writes have touched since a part of the index was copied."""

from array import array
from collections.abc import Iterator, Sequence

from laurels.engine.roster.roster import set_flags

FEW = 65_536
"""The maximum number of ids that are kept in a set in any case."""
SET_BYTES = 32
"""The minimum number of bytes that an id takes in a set."""


class TouchedIds:
    """A set of ids of members, which only grows.

    Resizing or freeing a Python set with millions of ids takes tens of milliseconds, for which all
    other threads wait. So a large number of ids is kept as flags instead: a byte for each id of the
    roster.
    """

    def __init__(self) -> None:
        self._few: set[int] = set()
        self._flags: bytearray | None = None

    def update(self, ids: Sequence[int], members: int) -> None:
        """Add ids, all less than `members`. O(ids)."""
        if self._flags is None:
            self._few.update(ids)
            if len(self._few) <= FEW or len(self._few) * SET_BYTES < members:
                return
            ids, self._few = array("I", self._few), set()
            self._flags = bytearray()
        if len(self._flags) < members:
            self._flags.extend(bytes(members - len(self._flags)))
        set_flags(self._flags, array("I", ids))

    @property
    def least(self) -> int:
        """The number of ids. If they are kept as flags, this is only a lower bound. O(1)."""
        return len(self._few) if self._flags is None else FEW

    def __iter__(self) -> Iterator[int]:
        """Yield each id once. No id may be added meanwhile."""
        if self._flags is None:
            yield from self._few
            return
        id = self._flags.find(1)
        while id >= 0:
            yield id
            id = self._flags.find(1, id + 1)
