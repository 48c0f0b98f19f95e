"""Conditions that select payouts between two places in the order of their due times and numbers.

All payouts of one seal are due at the same time, so the number has to be a bound of the index as
well. Not every database uses more than the first column of a comparison of rows as a bound. So the
payouts between two places are read as up to three ranges of the index, one after another.
"""

from collections.abc import Iterator

from laurels.core.payouts import DuePlace


def place_ranges(
    after: DuePlace, until: DuePlace, due: str, serial: str
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield, in order, the conditions of the ranges between two places, with their arguments. The
    first place is excluded, the second included. `due` and `serial` are the columns of the due time
    and the number."""
    if after >= until:
        return
    if after.due_ms == until.due_ms:
        bounds = (after.due_ms, after.serial, until.serial)
        yield f"{due} = %s AND {serial} > %s AND {serial} <= %s", bounds
        return
    yield f"{due} = %s AND {serial} > %s", after.parts
    yield f"{due} > %s AND {due} < %s", (after.due_ms, until.due_ms)
    yield f"{due} = %s AND {serial} <= %s", until.parts
