"""Which payouts have been emitted, that is, entered in the list of due payouts. Sinks read this
list, and so do programs that pay.

Payouts are ordered by their due times and numbers. A record of the log emits all payouts up to a
place in this order, which is stored here as the *mark*. Payouts that are made later are due after
the mark, whatever the clock reads, so the list grows only at its end.
"""

import sqlite3
from collections import Counter

from laurels.core.payouts import BEFORE_ALL, DuePlace, PayoutRow, PayoutShare
from laurels.timeline.instants import MAX_MS

from .file import PayoutFile
from .publishing import Publishing
from .ranges import LAST_SERIAL, PLACE, VALID, rows_between
from .rows import COLUMNS, row_of

DUE_SCHEMA = (
    "DROP INDEX IF EXISTS in_order",  # the index of an earlier version
    f"CREATE INDEX IF NOT EXISTS in_list ON payout ({PLACE}, serial) WHERE {VALID}",
    "CREATE TABLE IF NOT EXISTS emitted "
    "(id INTEGER PRIMARY KEY CHECK (id = 1), due_ms INTEGER NOT NULL, serial INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS reader (name TEXT PRIMARY KEY, position TEXT NOT NULL)",
)


class Emission:
    """Stores the mark, the place up to which payouts have been emitted; knows when the next payout
    is to be emitted; and reads emitted payouts. The methods raise StorageFailed."""

    def __init__(self, file: PayoutFile, publishing: Publishing) -> None:
        self._file = file
        self._publishing = publishing
        self._mark: DuePlace | None = None
        self.next_ms = MAX_MS
        """When the next payout is to be emitted; MAX_MS if there is none."""

    @property
    def mark(self) -> DuePlace:
        """The place up to which payouts have been emitted, inclusive."""
        if self._file.is_missing:
            return BEFORE_ALL
        if self._mark is None:
            rows = self._file.rows("SELECT due_ms, serial FROM emitted")
            self._mark = DuePlace(*rows[0]) if rows else BEFORE_ALL
        return self._mark

    def refresh(self) -> None:
        """Compute `next_ms` anew, after payouts have changed. It is MAX_MS, so that no payout is
        emitted, while the file of payouts is missing or payouts are being published."""
        if self._file.is_missing or self._publishing.is_pending:
            self.next_ms = MAX_MS
            return
        rows = rows_between(self._file, PLACE, self.mark, DuePlace(MAX_MS, LAST_SERIAL), 1)
        self.next_ms = rows[0][0] if rows else MAX_MS

    def share(self, now_ms: int, limit: int) -> PayoutShare | None:
        """Return up to `limit` payouts that are due at `now_ms` and not emitted yet; None if there
        are none."""
        if self.next_ms > now_ms:
            return None
        after = self.mark
        end = DuePlace(now_ms, LAST_SERIAL)
        rows = rows_between(self._file, f"{PLACE}, serial, board, uid", after, end, limit)
        until = DuePlace(*rows[-1][:2])
        return PayoutShare(after, until, Counter([(board, uid) for _, _, board, uid in rows]))

    def emit(self, until: DuePlace) -> None:
        """Move the mark forward. A second call changes nothing."""
        if until <= self.mark or self._file.is_missing:
            return
        with self._file.transaction() as connection:
            _store(connection, until)
        self._mark = until
        self.refresh()

    def emitted(self, after: DuePlace, until: DuePlace) -> dict[str, list[PayoutRow]]:
        """Return the payouts after one place up to another, in groups by the unique id of the
        board."""
        found: dict[str, list[PayoutRow]] = {}
        for row in map(row_of, rows_between(self._file, COLUMNS, after, until, LAST_SERIAL)):
            found.setdefault(row.uid, []).append(row)
        return found

    def move_back(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """If the mark is later than `now_ms`, move it back to `now_ms`, in a transaction of the
        caller."""
        if self.mark.due_ms > now_ms:
            _store(connection, DuePlace(now_ms, LAST_SERIAL))
        self._mark = None


def _store(connection: sqlite3.Connection, mark: DuePlace) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO emitted (id, due_ms, serial) VALUES (1, ?, ?)", mark.parts
    )
