"""Reads payouts between two places in the order of their due times and numbers.

Many payouts are due at the same time, those of one seal, so the number has to be a bound of the
index as well. SQLite uses only the first column of a comparison of rows as a bound. So the payouts
between two places are read as up to three ranges of the index, one after another.
"""

from collections.abc import Iterator
from typing import Any

from laurels.core.payouts import DuePlace

from .file import PayoutFile

VALID = "published AND superseded IS NULL"
"""The condition of the index `in_order`."""
LAST_SERIAL = 2**62


def rows_between(
    file: PayoutFile, columns: str, after: DuePlace, until: DuePlace, limit: int, where: str = ""
) -> list[Any]:
    """Return up to `limit` payouts after one place up to another, in order. O(log n + limit) if
    there is no further condition `where`."""
    found: list[Any] = []
    for condition, arguments in _ranges(after, until):
        if len(found) < limit:
            found += file.rows(
                f"SELECT {columns} FROM payout WHERE {VALID} AND {condition}{where} "
                "ORDER BY due_ms, serial LIMIT ?",
                (*arguments, limit - len(found)),
            )
    return found


def groups_between(
    file: PayoutFile, columns: str, after: DuePlace, until: DuePlace, group: str, where: str = ""
) -> list[Any]:
    """Return the rows of a grouped query for each range between two places; a group may occur in
    several ranges. `where` is a further condition. O(log n + payouts between the places)."""
    found: list[Any] = []
    for condition, arguments in _ranges(after, until):
        found += file.rows(
            f"SELECT {columns} FROM payout INDEXED BY in_order "
            f"WHERE {VALID} AND {condition}{where} GROUP BY {group}",
            arguments,
        )
    return found


def _ranges(after: DuePlace, until: DuePlace) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the conditions of the ranges between two places, with their arguments, in order."""
    if after >= until:
        return
    if after.due_ms == until.due_ms:
        bounds = (after.due_ms, after.serial, until.serial)
        yield "due_ms = ? AND serial > ? AND serial <= ?", bounds
        return
    yield "due_ms = ? AND serial > ?", after.parts
    yield "due_ms > ? AND due_ms < ?", (after.due_ms, until.due_ms)
    yield "due_ms = ? AND serial <= ?", until.parts
