"""Entries of a ledger in columns, the form in which they are read to build a store. Pure."""

from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct

from laurels.errors.ledger import InvalidEntry
from laurels.model.score import exact_units
from laurels.model.validation import safe_repr

from .texts import COLUMNS, RankingName

SCORES = slice(4, 4 + COLUMNS)
"""The slice of a row that has the scores, after member, window, period and scope."""


class LedgerEntries(Struct, frozen=True):
    """Entries of one ranking, in columns: the members, escaped as in the ledger and concatenated,
    with their lengths in bytes; the scores in units of 10^-scale, column by column; and two columns
    of times. A column of times is None unless the ledger has this time for every entry."""

    name: RankingName
    members: bytes
    lengths: Sequence[int]
    scores: list["array[int]"]
    reached_ms: "array[int] | None"
    last_ms: "array[int] | None"


def entries_by_ranking(
    rows: Sequence[tuple[Any, ...]], scales: Sequence[int], score: Callable[[Any, int], Any]
) -> list[LedgerEntries]:
    """Convert rows to entries in columns, grouped by ranking. `score` is the method of the dialect.
    Raises InvalidEntry, and the errors of values."""
    by_ranking: dict[RankingName, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_ranking.setdefault((row[1], row[2], row[3]), []).append(row)
    return [
        _entries(name, ranking_rows, scales, score) for name, ranking_rows in by_ranking.items()
    ]


def _entries(
    name: RankingName,
    rows: Sequence[tuple[Any, ...]],
    scales: Sequence[int],
    score: Callable[[Any, int], Any],
) -> LedgerEntries:
    columns = list(zip(*rows, strict=True))
    members = [member.encode() for member in columns[0]]
    scores = [
        _units(column, scale, score) for column, scale in zip(columns[SCORES], scales, strict=False)
    ]
    times = [_times(column) for column in columns[-2:]]
    return LedgerEntries(name, b"".join(members), list(map(len, members)), scores, *times)


def _units(column: Sequence[Any], scale: int, score: Callable[[Any, int], Any]) -> "array[int]":
    if not scale and all(type(value) is int for value in column):
        return array("q", column)
    return array("q", [_unit(value, scale, score) for value in column])


def _unit(value: Any, scale: int, score: Callable[[Any, int], Any]) -> int:
    if value is None:
        raise InvalidEntry("expected a number in each column of a score, got NULL")
    exact = score(value, scale) if scale or value == int(value) else Decimal(str(value))
    return exact_units(exact, scale, "a column of the ledger")


def _times(column: Sequence[Any]) -> "array[int] | None":
    if None in column:
        return None
    if not all(type(value) is int for value in column):
        invalid = next(value for value in column if type(value) is not int)
        raise InvalidEntry(f"expected a time in milliseconds, got {safe_repr(invalid)}")
    return array("q", column)
