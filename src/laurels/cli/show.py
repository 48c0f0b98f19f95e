"""The output of commands: tables for people, JSON for programs."""

import sys
from collections.abc import Iterable, Sequence

import msgspec

from laurels.errors import LaurelsError

from .errors import one_line
from .texts import Side, harmless


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
