"""Determines the store of a board, by the patterns of the configuration."""

from collections.abc import Sequence
from functools import lru_cache

from laurels.model.board_patterns import matches

DEFAULT = 0
"""The number of the default store, which has the boards that no pattern matches."""
_NAMES = 10_000
"""The maximum number of names whose store is remembered."""


class Placement:
    """The patterns in the order of the configuration, each with the number of its store. The first
    pattern that matches a name decides."""

    def __init__(self, patterns: Sequence[tuple[str, int]]) -> None:
        self._patterns = tuple(patterns)
        self._find = lru_cache(_NAMES)(self._matched)

    def number_of(self, board: str) -> int:
        """Return the number of the store of a board, whether or not the board exists."""
        # A value that is not a name is refused by the default store.
        return self._find(board) if type(board) is str else DEFAULT

    def _matched(self, board: str) -> int:
        return next(
            (number for pattern, number in self._patterns if matches(pattern, board)), DEFAULT
        )
