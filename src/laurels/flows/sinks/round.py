"""Spread the reading of all boards of a sink evenly over time."""

from collections.abc import Sequence

ROUND_SECONDS = 60.0
"""The time in which every board is read at least once, even if the store reports no changes."""
BOARDS_A_SECOND = 100
"""The maximum rate of a round. With more than 6,000 boards a round takes longer than a minute."""


class BoardRound:
    """Iterates over the names of boards at an even rate."""

    def __init__(self) -> None:
        self.begin(())

    def begin(self, names: Sequence[str]) -> None:
        """Begin a round over these boards."""
        self._names = names
        self._seconds = max(ROUND_SECONDS, len(names) / BOARDS_A_SECOND)
        self._elapsed = 0.0
        self._returned = 0

    @property
    def is_over(self) -> bool:
        """Whether all boards have been returned and the time of the round is over."""
        return self._elapsed >= self._seconds

    @property
    def seconds_left(self) -> float:
        """The time until the next round begins."""
        return max(0.0, self._seconds - self._elapsed)

    def after(self, seconds: float) -> Sequence[str]:
        """Advance the round by some seconds, and return the boards that are to be read in this
        time."""
        self._elapsed += seconds
        end = int(len(self._names) * min(1.0, self._elapsed / self._seconds))
        names, self._returned = self._names[self._returned : end], end
        return names
