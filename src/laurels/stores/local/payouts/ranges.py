"""Reads payouts between two places in the order of their due times and numbers; see
`sql.payout_places`."""

from collections.abc import Iterator
from typing import Any

from laurels.core.payouts import DuePlace
from laurels.sql.payout_places import place_ranges

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
    for condition, arguments in place_ranges(after, until, "due_ms", "serial"):
        yield condition.replace("%s", "?"), arguments
