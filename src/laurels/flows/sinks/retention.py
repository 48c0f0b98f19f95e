"""Compute which fraction of a board's retention the undelivered changes of a sink take up, so that
an operator can be warned before changes are lost."""

from msgspec import Struct

from laurels.model.board import Board

WARNED_AT = 0.5
"""The fraction from which on an operator is warned."""


class Retention(Struct, frozen=True):
    """The limits up to which a board keeps changes: their age and their number."""

    keep_ms: int
    max_changes: int

    def used(self, waiting: int, age_ms: int, *, is_registered: bool) -> float:
        """Return which fraction of the retention the unsent changes of a sink take up. `waiting` is
        the number of these changes, `age_ms` the age of the oldest of them. At 1 or more, the board
        removes unsent changes. For a registered sink the board keeps changes of any age, so the
        fraction depends only on their number."""
        by_number = waiting / self.max_changes
        return by_number if is_registered else max(by_number, age_ms / self.keep_ms)


def retention_of(board: Board) -> Retention:
    """Return the retention of a board that keeps changes."""
    rules = board.rules()
    return Retention(rules.changes_ms, rules.changes_max)
