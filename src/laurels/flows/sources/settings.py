"""The settings of a source."""

from msgspec import Struct

from laurels.model.board_patterns import matches

POSITION_PREFIX = "source/"
"""The prefix of the names under which boards keep the positions of sources."""


class SourceSettings(Struct, frozen=True):
    """The settings of a source.

    `name` is the name of the source; boards store its positions under `key`. `boards` is the
    pattern of the names of the boards that the source feeds. `begin` determines where reading
    begins for a board that has no position, or a position in another stream: at the `start` of the
    stream or `now`. If it is None, reading begins at the start for a board without a position, and
    a position in another stream is an error. With `until_end` the run ends when no message is
    pending.
    """

    name: str
    boards: str | None = None
    batch: int = 1_000
    begin: str | None = None
    until_end: bool = False

    @property
    def key(self) -> str:
        """The name under which boards store this source's positions."""
        return POSITION_PREFIX + self.name

    def feeds(self, board: str) -> bool:
        """Return whether the source feeds boards of this name."""
        return self.boards is None or matches(self.boards, board)
