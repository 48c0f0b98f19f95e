"""Texts in the output of commands: names, numbers and ranks.

Ids may contain any text, and must not be able to control a terminal. Characters that a terminal
would interpret or hide (control characters, text direction, invisible marks) are printed as escape
sequences, and no text is interpreted as markup.
"""

import os
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import Literal

from laurels.core.standing import Needed
from laurels.model.score import Score

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
Side = Literal["left", "right"]


def escaped(text: str) -> str:
    """Return the text with invisible characters and backslashes escaped, so that different texts
    stay different."""
    return harmless(text.replace("\\", "\\\\"))


def harmless(text: str) -> str:
    """Return a message with invisible characters escaped and backslashes unchanged."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _HIDDEN else char
        for char in text
    )


def readable(path: str | Path) -> str:
    """Return a path as text that can be written anywhere.

    A byte of the path that is not UTF-8 becomes \\xNN.
    """
    return os.fsencode(path).decode(errors="backslashreplace")


def number(value: int | Decimal) -> str:
    """Return a number in full, without an exponent."""
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def numbers(score: Score) -> list[str]:
    """Return the columns of a score as texts."""
    return [number(part) for part in (score if isinstance(score, tuple) else (score,))]


def rank_words(rank: int, low: int | None, high: int | None) -> str:
    """Return a rank as text; an estimated rank has the bounds between which it lies."""
    if low is None or high is None or low == high:
        return str(rank)
    return f"about {rank:,}; between {low:,} and {high:,}"


def needed_words(needed: Needed) -> str:
    """Return the value that a member needs as text: `31 for rank 10`."""
    value = "out of reach" if needed.value is None else ", ".join(numbers(needed.value))
    return f"{value} for rank {needed.rank}"


def moved_by(places: int) -> str:
    """Return an arrow and the number of ranks by which a member rose (`▲2`) or fell; "" if the rank
    is the same."""
    return f"{'▲' if places > 0 else '▼'}{abs(places)}" if places else ""
