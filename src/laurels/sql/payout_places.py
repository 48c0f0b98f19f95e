"""Conditions that select payouts between two places in the order of their due times and numbers.

All payouts of one seal are due at the same time. So a search in the index has to begin and end at a
number as well, and not only at a due time. If a condition compares rows, `(due, number) > (?, ?)`,
some databases search the index by the first column only. So the payouts between two places are read
as up to three ranges of the index, one after another.

A range with only one due time is ordered by the number alone. If ORDER BY also named the due time,
and this is an expression, SQLite would not see that the index has the right order, and would sort
all payouts of the range for each page.
"""

from collections.abc import Iterator

from msgspec import Struct

from laurels.core.payouts import DuePlace


class PlaceRange(Struct, frozen=True):
    """A range of payouts: its condition with the arguments, and the columns to order by."""

    condition: str
    arguments: tuple[int, ...]
    order: str


def place_ranges(after: DuePlace, until: DuePlace, due: str, serial: str) -> Iterator[PlaceRange]:
    """Yield, in order, the ranges between two places. The first place is excluded, the second
    included. `due` and `serial` are the columns of the due time and the number."""
    if after >= until:
        return
    if after.due_ms == until.due_ms:
        bounds = (after.due_ms, after.serial, until.serial)
        yield PlaceRange(f"{due} = %s AND {serial} > %s AND {serial} <= %s", bounds, serial)
        return
    between = (after.due_ms, until.due_ms)
    yield PlaceRange(f"{due} = %s AND {serial} > %s", after.parts, serial)
    yield PlaceRange(f"{due} > %s AND {due} < %s", between, f"{due}, {serial}")
    yield PlaceRange(f"{due} = %s AND {serial} <= %s", until.parts, serial)
