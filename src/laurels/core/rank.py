"""Ranks as users see them: a number, or the bounds between which the rank lies."""

from laurels.model.answer import Answer


class Estimate(Answer, frozen=True):
    """A rank below the head of a board: it certainly lies from `low` to `high`."""

    low: int
    high: int

    @property
    def middle(self) -> int:
        """The middle of `low` and `high`, rounded down."""
        return (self.low + self.high) // 2


Rank = int | Estimate
"""An exact rank, or the bounds of a rank below the head of a board."""
