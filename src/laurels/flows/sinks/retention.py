"""The share of a board's retention that the undelivered changes of a sink take, for a warning
before changes are lost."""

from msgspec import Struct

from laurels.model.board import Board

WARNED_AT = 0.5
"""The share at which an operator is warned."""


class Retention(Struct, frozen=True):
    """How long a board keeps changes, and how many."""

    keep_ms: int
    most: int

    def used(self, waiting: int, age_ms: int, *, is_registered: bool) -> float:
        """Return the share of the retention that is taken by the changes a sink has not sent:
        `waiting` is their number, `age_ms` the age of the oldest. From 1 on the board removes
        changes that were not sent. The board keeps the changes for a registered sink beyond their
        time, so for such a sink only the number of changes counts."""
        by_number = waiting / self.most
        return by_number if is_registered else max(by_number, age_ms / self.keep_ms)


def retention_of(board: Board) -> Retention:
    """Return the retention of a board that keeps changes."""
    rules = board.rules()
    return Retention(rules.changes_ms, rules.changes_max)
