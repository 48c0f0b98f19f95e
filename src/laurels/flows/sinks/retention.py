"""How much of what a board keeps a sink has used up, as a warning before changes are lost."""

from msgspec import Struct

from laurels.model.board import Board

WARNED_AT = 0.5
"""The share from which on an operator is warned."""


class Retention(Struct, frozen=True):
    """How long a board keeps changes, and how many."""

    keep_ms: int
    most: int

    def used(self, waiting: int, age_ms: int, *, is_registered: bool) -> float:
        """Return the share of the retention that changes take which a sink has not sent, the oldest
        of this age; at 1 the board removes changes that were not sent. The board keeps the changes
        of a registered sink beyond their time, so for it only their number counts."""
        by_number = waiting / self.most
        return by_number if is_registered else max(by_number, age_ms / self.keep_ms)


def retention_of(board: Board) -> Retention:
    """Return the retention of a board that keeps changes."""
    rules = board.rules()
    return Retention(rules.changes_ms, rules.changes_max)
