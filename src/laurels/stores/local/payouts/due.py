"""The list of due payouts of the local store, and the positions of its readers."""

from collections import Counter
from typing import Any

from laurels.core.due_payouts import (
    BoardSelection,
    DueCursor,
    WaitingPayouts,
    due_cursor,
    page_limit,
    reader_name,
    scan_due,
)
from laurels.core.payouts import BEFORE_ALL, DuePlace, PayoutPage, PayoutRow, payout_of
from laurels.errors import PositionMoved
from laurels.errors.payouts import PayoutsDiverged
from laurels.model.validation import quoted

from .emission import Emission
from .file import PayoutFile
from .ranges import PLACE, groups_between, rows_between
from .rows import COLUMNS, row_of

_NOT_ERASED = " AND NOT erased"
"""The condition that leaves out the payouts of erased members, since their ids have changed: who
reads them again would take them for new ones. They stay valid places of cursors."""


class LocalDuePayouts:
    """Implementation of `DuePayouts`. The positions are stored beside the payouts and not in the
    log. If a power cut loses the newest position, its reader only gets some payouts again."""

    def __init__(self, file: PayoutFile, emission: Emission) -> None:
        self._file = file
        self._emission = emission

    def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        count, cursor, until = page_limit(limit), due_cursor(after), self._emission.mark
        self._place(cursor)

        def rows_after(place: DuePlace, limit: int) -> list[tuple[DueCursor, PayoutRow]]:
            found: list[tuple[DueCursor, PayoutRow]] = []
            for at_ms, serial, tag, *values in self._rows(place, until, limit):
                row = row_of(values)
                found.append((DueCursor(DuePlace(at_ms, serial), tag or 0), row))
            return found

        scan = scan_due(rows_after, cursor, count, boards)
        payouts = [payout_of(row, row.due_ms) for _, row in scan.payouts]
        end = None if scan.cursor is None else scan.cursor.encode()
        return PayoutPage(payouts, end if scan.more else None, end)

    def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        place, until = self._place(due_cursor(after)), self._emission.mark
        columns = "board, count(*), min(due_ms)"
        counts, oldest = Counter[str](), dict[str, int]()
        groups = groups_between(self._file, columns, place, until, "board", _NOT_ERASED)
        for board, count, oldest_ms in groups:
            counts[board] += count
            oldest[board] = min(oldest.get(board, oldest_ms), oldest_ms)
        return [
            WaitingPayouts(board, counts[board], oldest[board])
            for board in sorted(counts)
            if boards.has(board)
        ]

    def positions(self) -> dict[str, str]:
        return dict(self._file.rows("SELECT name, position FROM reader ORDER BY name"))

    def move(self, reader: str, before: str | None, position: str | None) -> None:
        name = reader_name(reader)
        due_cursor(before)
        due_cursor(position)
        if not self._file.exists:
            return
        with self._file.transaction() as connection:
            [stored] = connection.execute(
                "SELECT max(position) FROM reader WHERE name = ?", (name,)
            ).fetchone()
            if stored != before:
                raise PositionMoved(
                    f"expected the position {before} of {quoted(name)} in the due payouts, "
                    f"got {stored}"
                )
            if position is None:
                connection.execute("DELETE FROM reader WHERE name = ?", (name,))
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO reader (name, position) VALUES (?, ?)",
                    (name, position),
                )

    def _place(self, cursor: DueCursor | None) -> DuePlace:
        """Return the place of a cursor. Raises PayoutsDiverged."""
        if cursor is None:
            return BEFORE_ALL
        rows = self._file.rows(
            f"SELECT tag FROM payout WHERE serial = ? AND {PLACE} = ? AND published",
            (cursor.place.serial, cursor.place.due_ms),
        )
        if not rows or (rows[0][0] or 0) != cursor.tag:
            raise PayoutsDiverged(f"the store has no due payout at {cursor.encode()}")
        return cursor.place

    def _rows(self, after: DuePlace, until: DuePlace, limit: int) -> list[Any]:
        """Return payouts between two places, each with the time of its place, its number and its
        tag."""
        columns = f"{PLACE}, serial, tag, {COLUMNS}"
        return rows_between(self._file, columns, after, until, limit, _NOT_ERASED)
