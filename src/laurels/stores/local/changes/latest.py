"""Finds the boards with changes after an offset, without visiting every board."""

from collections.abc import Collection


class LatestChanges:
    """The boards with recorded changes, ordered by their latest change.

    `note` only collects the number of a board. The next call of `since` moves the collected boards
    to the end of the order, and gives them the offset that is current at that call. All methods are
    called under the lock of the fold.
    """

    def __init__(self) -> None:
        self._first_offset: int | None = None
        """The offset since which all changes are noted; None before the first reader."""
        self._noted: set[int] = set()
        self._offsets: dict[int, int] = {}

    def note(self, board: int) -> None:
        """Record that a board has a new change. O(1)."""
        self._noted.add(board)

    def forget(self, board: int) -> None:
        """Remove a deleted board from the list."""
        self._noted.discard(board)
        self._offsets.pop(board, None)

    def since(self, after: int | None, offset: int) -> Collection[int] | None:
        """Return the numbers of the boards that have changes after the offset `after`; None if they
        cannot be determined: `after` is None, or greater than `offset`, or less than the offset at
        the first call of this method. `offset` is the current offset. O(boards returned or noted
        since the last call)."""
        for board in self._noted:
            self._offsets.pop(board, None)
            self._offsets[board] = offset
        self._noted.clear()
        if self._first_offset is None:
            self._first_offset, self._offsets = offset, {}
        if after is None or not self._first_offset <= after <= offset:
            return None
        changed = []
        for board in reversed(self._offsets):
            if self._offsets[board] <= after:
                break
            changed.append(board)
        return changed
