"""Dividing the rows of a source into those that can be counted and rejects."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import laurels
from laurels.errors import AtInFuture, LaurelsError
from laurels.errors.sources import SourceUnreadable
from laurels.timeline.instants import MAX_MS, MIN_MS

from .reading import Reject, SourceRow, rejected


def divided(
    rows_read: Iterable[SourceRow | Reject], latest_ms: int
) -> tuple[list[SourceRow], list[Reject]]:
    """Return the rows with events up to `latest_ms`, and the rejects of all other lines."""
    rows: list[SourceRow] = []
    rejects: list[Reject] = []
    for row in rows_read:
        if isinstance(row, Reject):
            rejects.append(row)
        elif _is_ahead(row, latest_ms):
            rejects.append(rejected(row.line, _in_future(row), row.raw))
        else:
            rows.append(row)
    return rows, rejects


def rows_until_error(
    rows_read: Iterable[SourceRow | Reject], latest_ms: int
) -> Iterator[SourceRow]:
    """Yield the rows with events up to `latest_ms`, until the end of the source or a read error.

    A read error is not raised here: the import itself raises it, after it has counted the rows
    before it.
    """
    with suppress(SourceUnreadable):
        for row in rows_read:
            if not isinstance(row, Reject) and not _is_ahead(row, latest_ms):
                yield row


def _is_ahead(row: SourceRow, latest_ms: int) -> bool:
    return latest_ms < (row.event[2] or MIN_MS) < MAX_MS


def time_of(row: SourceRow) -> int:
    """Return the time of a row; for a row without a time, the earliest possible one."""
    return MIN_MS if row.event[2] is None else row.event[2]


def _in_future(row: SourceRow) -> AtInFuture:
    return AtInFuture(
        f"`at` = {row.event[2]} ms is ahead of this machine's clock (--allow-future accepts it)"
    )


def stopped(row: SourceRow, error: LaurelsError, *, resumed: bool) -> LaurelsError:
    """Return `error`, by which a board refused a row that it may accept later, with a message about
    the import: it ends before this row, and can be continued."""
    again = "repeat the import later" if resumed else "import the remaining lines later"
    error.what = (
        f"line {row.line:,}: {error.what}: only the lines before it are counted; "
        f"{again}, or import into a board created with a larger --dedupe-max"
    )
    return error


def refused(rows: Sequence[SourceRow], receipts: laurels.Receipts) -> list[Reject]:
    """Return rejects for the rows that the board refused, with its reasons."""
    return [
        Reject(row.line, receipt.reason or "", receipt.message or "", row.raw)
        for row, receipt in zip(rows, receipts, strict=True)
        if receipt.status == "refused"
    ]
