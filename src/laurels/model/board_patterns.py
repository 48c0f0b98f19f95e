"""Patterns of board names: the boards that a key or token may use.

A pattern is a board's name, or has wildcards: `*` matches any characters, `?` one character, and
`[abc]` one of the characters in brackets. No wildcard matches `/`, so each part between slashes is
matched separately.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from laurels.errors.service import InvalidKey
from laurels.model.validation import safe_repr

ALL_BOARDS = ("*",)
MAX_PATTERNS = 100
MAX_PATTERN_LENGTH = 64
_MAX_NAME_LENGTH = 256
"""The length of the longest name that is matched, since the time of matching grows with the length.
No board's name is longer."""
_PATTERN = re.compile(r"[A-Za-z0-9_./*?\[\]!-]{1,64}")
_WILDCARDS = frozenset("*?[")


def matches(pattern: str, board: str) -> bool:
    """Return whether a board's name matches a pattern."""
    if pattern == "*":
        return "/" not in board
    if pattern == board:
        return True
    if len(board) > _MAX_NAME_LENGTH or pattern.count("/") != board.count("/"):
        return False
    return all(map(_part_matches, pattern.split("/"), board.split("/")))


def _part_matches(pattern: str, part: str) -> bool:
    return fnmatchcase(part, pattern)


def reaches(patterns: Sequence[str] | None, board: str) -> bool:
    """Return whether a board's name matches any of the patterns; None matches all boards."""
    return patterns is None or any(matches(pattern, board) for pattern in patterns)


def covers_all(own: Sequence[str] | None, patterns: Sequence[str] | None) -> bool:
    """Return whether every name that matches one of `patterns` certainly matches one of `own`;
    False if the patterns are too complex for a simple comparison."""
    if own is None:
        return True
    if patterns is None:
        return False
    return all(any(_covers(wide, pattern) for wide in own) for pattern in patterns)


def _covers(wide: str, pattern: str) -> bool:
    if wide == pattern or (not _WILDCARDS & set(pattern) and matches(wide, pattern)):
        return True
    prefix = wide.removesuffix("*")
    return (
        prefix != wide
        and not _WILDCARDS & set(prefix)
        and pattern.startswith(prefix)
        and "/" not in pattern[len(prefix) :]
    )


def parse_patterns(value: object) -> tuple[str, ...]:
    """Return patterns in their stored form. Raise InvalidKey for anything but 1 to 100 patterns."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise InvalidKey(f"expected a list of board patterns, got {safe_repr(value)}")
    if not 1 <= len(value) <= MAX_PATTERNS:
        raise InvalidKey(f"expected 1 to {MAX_PATTERNS} board patterns, got {len(value):,}")
    for pattern in value:
        if not isinstance(pattern, str) or _PATTERN.fullmatch(pattern) is None:
            raise InvalidKey(
                f"expected a board pattern of 1 to {MAX_PATTERN_LENGTH} letters, digits and "
                f"_ . - / * ? [ ] !, got {safe_repr(pattern)}"
            )
    return tuple(dict.fromkeys(value))
