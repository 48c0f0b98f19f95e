"""The output of commands: tables for people, JSON for programs.

Ids may contain any text, and must not be able to control a terminal. Characters that a terminal
would interpret or hide (control characters, text direction, invisible marks) are printed as escape
sequences, and no text is interpreted as markup.
"""

import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec

from laurels.core.standing import Needed
from laurels.errors import LaurelsError
from laurels.model.score import Score

from .errors import one_line

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


def put_table(
    columns: Sequence[tuple[str, Side]],
    rows: Iterable[Sequence[str]],
    *,
    title: str = "",
    foot: str = "",
    headed: bool = True,
) -> None:
    """Print a table. Cells are plain text, and are escaped here."""
    from .tables import lines_of  # noqa: PLC0415 (drawing takes long to import)

    for line in lines_of(columns, rows, title=title, foot=foot, headed=headed):
        sys.stdout.write(line + "\n")


def put_pairs(pairs: Iterable[tuple[str, str]], *, title: str) -> None:
    """Print names with their values."""
    put_table([("", "left"), ("", "left")], pairs, title=title, headed=False)


def put_line(text: str) -> None:
    """Print one line, escaped."""
    sys.stdout.write(harmless(text) + "\n")


def put_json(value: object) -> None:
    """Print one JSON document on one line. Decimals become numbers with the same digits."""
    put_bytes(json_bytes(value) + b"\n")


_encoder = msgspec.json.Encoder(decimal_format="number")


def json_bytes(value: object) -> bytes:
    return _encoder.encode(value)


def put_bytes(content: bytes) -> None:
    """Write bytes to standard output unchanged, whatever the encoding of the terminal."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def complain_of(error: LaurelsError) -> None:
    """Print an error as one line `error [code]: message` on standard error."""
    complain(f"error [{error.code}]: {one_line(error)}")


def complain(message: str) -> None:
    """Print one line on standard error, escaped."""
    sys.stderr.write(harmless(message) + "\n")
