"""Answers as they are sent, and what a store with a cache of answers counts."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from laurels.core.board_version import BoardVersion
from laurels.model.board_patterns import reaches

from .cache import DEFAULT_BYTES


class EncodedAnswer(Struct, frozen=True):
    """An answer to a query as it is sent. `version` is the state that it shows, None if answers
    about the board are not kept, so that nobody has to compare them."""

    content: bytes
    version: BoardVersion | None = None


class CacheSettings(Struct, frozen=True):
    """How many bytes of answers are kept (0: none are), and of which boards: patterns of their
    names, of which `allow` may be None for all. A board that `deny` matches is left out."""

    most_bytes: int = DEFAULT_BYTES
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()

    def keeps(self, board: str) -> bool:
        """Return whether answers about a board may be kept."""
        allowed = self.most_bytes > 0 and reaches(self.allow, board)
        return allowed and not reaches(self.deny, board)


AnswerObserver = Callable[[bool, float], None]
"""A function that is called for each answer about a board with `max_age`: with whether it came from
memory, and with its age in seconds."""
