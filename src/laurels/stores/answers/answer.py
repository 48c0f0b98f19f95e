"""Encoded answers, and the settings and the observer of their cache."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from laurels.core.board_version import BoardVersion
from laurels.model.board_patterns import reaches

from .cache import DEFAULT_BYTES


class EncodedAnswer(Struct, frozen=True):
    """An encoded answer to a query. `version` is the version of the board that it shows. It is None
    if answers about the board are not cached, since versions are then never compared."""

    content: bytes
    version: BoardVersion | None = None


class CacheSettings(Struct, frozen=True):
    """The size of the cache in bytes (0 disables it), and the boards whose answers it keeps: those
    whose names match a pattern in `allow` (None: any name) and no pattern in `deny`."""

    max_bytes: int = DEFAULT_BYTES
    allow: Sequence[str] | None = None
    deny: Sequence[str] = ()

    def keeps(self, board: str) -> bool:
        """Return whether answers about a board may be cached."""
        allowed = self.max_bytes > 0 and reaches(self.allow, board)
        return allowed and not reaches(self.deny, board)


AnswerObserver = Callable[[bool, float], None]
"""A function that is called for each answer about a board with `max_age`. Its arguments are whether
the answer came from the cache, and the age of the answer in seconds."""
