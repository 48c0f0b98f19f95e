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
    pattern that matches a name decides, except for boards that were moved."""

    def __init__(self, patterns: Sequence[tuple[str, int]]) -> None:
        self._patterns = tuple(patterns)
        self._moved: dict[str, int] = {}
        self.pattern_number_of = lru_cache(_NAMES)(self._matched)
        """Returns the number of the store that a name points to."""

    def number_of(self, board: str) -> int:
        """Return the number of the store of a board, whether or not the board exists."""
        # A value that is not a name is refused by the default store.
        if type(board) is not str:
            return DEFAULT
        moved = self._moved.get(board) if self._moved else None
        return self.pattern_number_of(board) if moved is None else moved

    def move(self, board: str, number: int | None) -> None:
        """Place a board in a store; None stands for the store that its name points to."""
        if number is None or number == self.pattern_number_of(board):
            self._moved.pop(board, None)
        else:
            self._moved[board] = number

    def _matched(self, board: str) -> int:
        return next(
            (number for pattern, number in self._patterns if matches(pattern, board)), DEFAULT
        )
