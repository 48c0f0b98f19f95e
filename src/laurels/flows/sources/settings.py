"""The settings of a source."""

from msgspec import Struct

from laurels.model.board_patterns import matches

POSITION_PREFIX = "source/"
"""The prefix of the names under which boards keep the positions of sources."""


class SourceSettings(Struct, frozen=True):
    """The settings of a source.

    `name` is the name under which boards keep its positions. `begin` determines where reading
    begins for a board without a position, or with one of another stream: `start`, `now`, or None,
    which means `start` without a position, and an error with one of another stream. `boards` is the
    pattern of their names. With `until_end` the run ends when no message is pending.
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
