"""Reads payouts between two places in the list of due payouts; see `sql.payout_places`.

The list is in the order of due times and numbers. A payout of a copied board that was due before
the copy may get a later place, so that it comes after all payouts that are already in the list.
"""

from typing import Any

from laurels.core.payouts import DuePlace
from laurels.sql.payout_places import PlaceRange, place_ranges

from .file import PayoutFile

VALID = "published AND superseded IS NULL"
"""The condition of the index `in_list`."""
PLACE = "ifnull(list_ms, due_ms)"
"""The time that orders the list."""
LAST_SERIAL = 2**62
NEVER_MS = 2**62
"""The place of a payout of a copied board that was confirmed before the copy. It never enters the
list."""


def rows_between(
    file: PayoutFile, columns: str, after: DuePlace, until: DuePlace, limit: int, where: str = ""
) -> list[Any]:
    """Return up to `limit` payouts after one place up to another, in order. O(log n + limit) if
    there is no further condition `where`."""
    found: list[Any] = []
    for each in place_ranges(after, until, PLACE, "serial"):
        if len(found) < limit:
            found += file.rows(
                f"SELECT {columns} FROM payout WHERE {VALID} AND {_condition(each)}{where} "
                f"ORDER BY {each.order} LIMIT ?",
                (*each.arguments, limit - len(found)),
            )
    return found


def groups_between(
    file: PayoutFile, columns: str, after: DuePlace, until: DuePlace, group: str, where: str = ""
) -> list[Any]:
    """Return the rows of a grouped query for each range between two places; a group may occur in
    several ranges. `where` is a further condition. O(log n + payouts between the places)."""
    found: list[Any] = []
    for each in place_ranges(after, until, PLACE, "serial"):
        found += file.rows(
            f"SELECT {columns} FROM payout INDEXED BY in_list "
            f"WHERE {VALID} AND {_condition(each)}{where} GROUP BY {group}",
            each.arguments,
        )
    return found


def _condition(range: PlaceRange) -> str:
    return range.condition.replace("%s", "?")
