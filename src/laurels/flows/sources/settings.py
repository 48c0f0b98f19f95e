"""How a source runs."""

from msgspec import Struct

from laurels.model.board_patterns import matches

POSITION_PREFIX = "source/"
"""How the positions of sources are named on a board."""


class SourceSettings(Struct, frozen=True):
    """How a source runs.

    `name` is the one under which boards keep its positions. `begin` says where a board without a
    position, or with one that does not fit, begins: `start`, `now`, or None, which is `start`
    without a position and an error with one that does not fit. `boards` is the pattern of their
    names. With `until_end` the run ends when nothing is pending.
    """

    name: str
    boards: str | None = None
    batch: int = 1_000
    begin: str | None = None
    until_end: bool = False

    @property
    def key(self) -> str:
        """The key under which boards store this source's positions."""
        return POSITION_PREFIX + self.name

    def takes(self, board: str) -> bool:
        """Return whether the source feeds boards of this name."""
        return self.boards is None or matches(self.boards, board)
