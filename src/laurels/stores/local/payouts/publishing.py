"""Makes the payouts of a sealed period visible, in shares.

A record of the log publishes all payouts of a revision. If the period is large, changing all of
them at once would delay other writes. So only the first share is published at once, and the same
transaction stores which payouts are left. The sealing thread publishes the others, share by share.
Payouts are published in the order of their numbers. Until all are published, no payout is emitted,
so the list of due payouts grows only at its end. A query about the payouts of a board first
publishes all that are left.
"""

from sqlite3 import Connection

from .file import PayoutFile
from .rows import FIELDS

SHARE = 250
"""The maximum number of payouts that are published at once. This takes about two milliseconds."""
PERIOD = "uid = ? AND window = ? AND instance = ?"
PUBLISHING_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS publishing (
    uid TEXT NOT NULL, window TEXT NOT NULL, instance INTEGER NOT NULL, revision INTEGER NOT NULL,
    made_ms INTEGER NOT NULL, first_ms INTEGER NOT NULL, tag INTEGER NOT NULL,
    after_serial INTEGER NOT NULL, PRIMARY KEY (uid, window, instance, revision)) WITHOUT ROWID""",
)
"""The revisions with payouts that are not published yet. The payouts of a revision are due at its
`first_ms` or later."""
_PENDING = {
    "made_ms": "publishing.made_ms",
    "due_ms": "max(publishing.made_ms + wait_ms, publishing.first_ms)",
}
FIND_PENDING = (
    f"SELECT {', '.join([_PENDING.get(name, f'payout.{name}') for name in FIELDS])} "
    "FROM payout JOIN publishing USING (uid, window, instance, revision) "
    "WHERE id = ? AND NOT published"
)
"""Selects, by its id, a payout that is not published yet although its revision is being
published."""

_OF_BOARD = (
    "SELECT 1 FROM publishing WHERE EXISTS (SELECT 1 FROM payout WHERE payout.uid = publishing.uid "
    "AND payout.window = publishing.window AND payout.instance = publishing.instance "
    "AND payout.revision = publishing.revision AND payout.board = ?)"
)

Revision = tuple[str, str, int, int]
"""The uid of a board, a window, the instance of a period, and a revision of it."""


class Publishing:
    """Publishes payouts in shares. The methods raise StorageFailed."""

    def __init__(self, file: PayoutFile) -> None:
        self._file = file
        self._is_pending: bool | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a revision is being published, so that some of its payouts are not published
        yet."""
        if self._is_pending is None:
            if not self._file.exists:
                return False
            self._is_pending = bool(self._file.rows("SELECT 1 FROM publishing LIMIT 1"))
        return self._is_pending

    def begin(
        self, connection: Connection, revision: Revision, made_ms: int, first_ms: int, tag: int
    ) -> None:
        """Publish the first share of a revision, in a transaction of the caller. Repeating the call
        has no effect."""
        pending = f"SELECT 1 FROM publishing WHERE {PERIOD} AND revision = ?"
        if connection.execute(pending, revision).fetchone() is None:
            self._share(connection, revision, made_ms, first_ms, tag, 0)
        self._is_pending = None

    def publish_share(self) -> bool:
        """Publish the next share, if one is left. Return whether there was one."""
        if not self.is_pending:
            return False
        with self._file.transaction() as connection:
            row = connection.execute("SELECT * FROM publishing LIMIT 1").fetchone()
            if row is not None:
                self._share(connection, row[:4], *row[4:])
        self._is_pending = None
        return row is not None

    def concerns(self, board: str) -> bool:
        """Return whether a board of this name has payouts that are still to be published."""
        return self.is_pending and bool(self._file.rows(_OF_BOARD, (board,)))

    def forget_after(
        self, connection: Connection, period: tuple[str, str, int], newest: int
    ) -> None:
        """Stop publishing the revisions of a period that are newer than `newest`, in a transaction
        of the caller."""
        connection.execute(
            f"DELETE FROM publishing WHERE {PERIOD} AND revision > ?", (*period, newest)
        )
        self._is_pending = None

    def _share(
        self,
        connection: Connection,
        revision: Revision,
        made_ms: int,
        first_ms: int,
        tag: int,
        after_serial: int,
    ) -> None:
        """Publish the next share of a revision: payouts with numbers greater than `after_serial`.
        Store whether more payouts are left."""
        serials = connection.execute(
            f"SELECT serial FROM payout WHERE {PERIOD} AND revision = ? AND serial > ? "
            "AND NOT published ORDER BY serial LIMIT ?",
            (*revision, after_serial, SHARE),
        ).fetchall()
        connection.executemany(
            "UPDATE payout SET published = 1, made_ms = ?, due_ms = max(? + wait_ms, ?), tag = ? "
            "WHERE serial = ?",
            [(made_ms, made_ms, first_ms, tag, serial) for (serial,) in serials],
        )
        if len(serials) == SHARE:
            connection.execute(
                "INSERT OR REPLACE INTO publishing VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*revision, made_ms, first_ms, tag, serials[-1][0]),
            )
        else:
            connection.execute(f"DELETE FROM publishing WHERE {PERIOD} AND revision = ?", revision)
