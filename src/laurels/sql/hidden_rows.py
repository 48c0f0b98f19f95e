"""Hidden members as rows of the table `hidden`."""

from laurels.core.hiding import Hiding

from .dialects import Row
from .texts import escape, unescape

SELECTED = "member, reason, since_at, until_at"
"""The columns from which `hiding_of_row` makes a hiding."""


def row_of_hiding(board: str, member: str, hiding: Hiding, version: int) -> Row:
    """Return the row of a hidden member."""
    times = hiding.since_ms, hiding.until_ms
    return board, escape(member), escape(hiding.reason), *times, version


def hiding_of_row(row: Row) -> tuple[str, Hiding]:
    """Return the hidden member in a row with the columns `SELECTED`, and its hiding."""
    member, reason, since_ms, until_ms = row
    return unescape(member), Hiding(unescape(reason), since_ms, until_ms)
