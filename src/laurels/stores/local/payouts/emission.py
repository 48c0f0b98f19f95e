"""Which payouts have been emitted: entered in the list of due payouts, which sinks read, and
programs that pay.

A record of the log emits all payouts up to a place in the order of their due times and numbers. The
place is stored here as the mark. Payouts that are made later are due after the mark, whatever the
clock reads, so the list grows only at its end.
"""

import sqlite3

from laurels.core.payouts import BEFORE_ALL, DuePlace, PayoutRow, PayoutShare
from laurels.timeline.instants import MAX_MS

from .file import PayoutFile
from .rows import COLUMNS, row_of

VALID = "published AND superseded IS NULL"
DUE_SCHEMA = (
    f"CREATE INDEX IF NOT EXISTS in_order ON payout (due_ms, serial) WHERE {VALID}",
    "CREATE TABLE IF NOT EXISTS emitted "
    "(id INTEGER PRIMARY KEY CHECK (id = 1), due_ms INTEGER NOT NULL, serial INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS reader (name TEXT PRIMARY KEY, position TEXT NOT NULL)",
)
_LAST_SERIAL = 2**62
BETWEEN = f"{VALID} AND (due_ms, serial) > (?, ?) AND (due_ms, serial) <= (?, ?)"


class Emission:
    """The mark, and the payouts around it. The methods raise StorageFailed."""

    def __init__(self, file: PayoutFile) -> None:
        self._file = file
        self._mark: DuePlace | None = None
        self.next_ms = MAX_MS
        """When the next payout is to be emitted; MAX_MS if there is none."""

    @property
    def mark(self) -> DuePlace:
        """The place after the last payout that was emitted."""
        if self._mark is None:
            rows = self._file.rows("SELECT due_ms, serial FROM emitted")
            self._mark = DuePlace(*rows[0]) if rows else BEFORE_ALL
        return self._mark

    def refresh(self) -> None:
        """Read again when the next payout is to be emitted, since payouts have changed."""
        rows = self._file.rows(
            f"SELECT due_ms FROM payout WHERE {VALID} AND (due_ms, serial) > (?, ?) "
            "ORDER BY due_ms, serial LIMIT 1",
            self.mark.parts,
        )
        self.next_ms = rows[0][0] if rows else MAX_MS

    def share(self, now_ms: int, limit: int) -> PayoutShare | None:
        """Return up to `limit` payouts that are due at `now_ms` and not emitted yet; None if there
        are none."""
        if self.next_ms > now_ms:
            return None
        after = self.mark
        rows = self._file.rows(
            f"SELECT due_ms, serial FROM payout WHERE {VALID} AND (due_ms, serial) > (?, ?) "
            "AND due_ms <= ? ORDER BY due_ms, serial LIMIT ?",
            (*after.parts, now_ms, limit),
        )
        until = DuePlace(*rows[-1])
        counts = self._file.rows(
            f"SELECT board, uid, count(*) FROM payout WHERE {BETWEEN} GROUP BY board, uid",
            (*after.parts, *until.parts),
        )
        return PayoutShare(after, until, {(board, uid): count for board, uid, count in counts})

    def emit(self, until: DuePlace) -> None:
        """Move the mark forward. A second call changes nothing."""
        if until <= self.mark:
            return
        with self._file.transaction() as connection:
            _store(connection, until)
        self._mark = until
        self.refresh()

    def emitted(self, after: DuePlace, until: DuePlace, uid: str) -> list[PayoutRow]:
        """Return the payouts of a board between two places."""
        found = self._file.rows(
            f"SELECT {COLUMNS} FROM payout WHERE {BETWEEN} AND uid = ? ORDER BY due_ms, serial",
            (*after.parts, *until.parts, uid),
        )
        return list(map(row_of, found))

    def move_back(self, connection: sqlite3.Connection, now_ms: int) -> None:
        """Move the mark back to `now_ms` if it is later, in a transaction of the caller."""
        if self.mark.due_ms > now_ms:
            _store(connection, DuePlace(now_ms, _LAST_SERIAL))
        self._mark = None


def _store(connection: sqlite3.Connection, mark: DuePlace) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO emitted (id, due_ms, serial) VALUES (1, ?, ?)", mark.parts
    )
