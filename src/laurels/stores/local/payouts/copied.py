"""Reads the payouts of a board for a copy, and receives the payouts of a copied board.

The payouts of an unfinished copy are in the table `copied`, with the number of the copy. The record
that finishes the copy moves them to the table of payouts. If the log is folded again, `copied` has
none of them, so nothing changes.
"""

from collections.abc import Iterable, Iterator
from sqlite3 import Connection

from laurels.core.season_pieces import CopiedPayout

from .emission import Emission
from .file import PayoutFile
from .ranges import NEVER_MS, PLACE
from .rows import COLUMNS, FIELDS, row_of

COPY_SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS copied (number INTEGER NOT NULL, serial INTEGER NOT NULL, "
    f"erased INTEGER NOT NULL, {COLUMNS}, PRIMARY KEY (number, id))",
    """CREATE TABLE IF NOT EXISTS made (
    uid TEXT NOT NULL, window TEXT NOT NULL, instance INTEGER NOT NULL, revision INTEGER NOT NULL,
    number INTEGER NOT NULL, PRIMARY KEY (uid, window, instance, revision)) WITHOUT ROWID""",
)
"""The table `made` has a row for each revision whose payouts were made in this store, with the
number of the board."""
_OF_NUMBER = (
    "uid = ? AND number <= ? AND NOT (number = 0 AND EXISTS (SELECT 1 FROM made "
    "WHERE made.uid = payout.uid AND made.window = payout.window "
    "AND made.instance = payout.instance AND made.revision = payout.revision "
    "AND made.number > ?))"
)
"""Selects the payouts of a board with a unique id, if the number of the board is at most a given
one. The given number is two of the arguments."""
_AT_ONCE = 500
_INSERT = (
    f"INSERT OR REPLACE INTO copied (number, serial, erased, {COLUMNS}) "
    f"VALUES ({', '.join('?' * (len(FIELDS) + 3))})"
)
_EMPTY = (
    "UPDATE payout SET id = NULL, uid = '', board = '', window = '', instance = 0, period = '', "
    "scope = '', member = '', prize = '', units = NULL, data = x'', corrects = NULL, "
    "reference = NULL, superseded = NULL, replaced_by = NULL, erased = 1 "
    f"WHERE {_OF_NUMBER}"
)
"""Empties rows of payouts, but keeps their places in the list of due payouts. Readers skip empty
rows."""


class CopiedPayouts:
    """The payouts of copied boards. The methods raise StorageFailed and PayoutsMissing."""

    def __init__(self, file: PayoutFile, emission: Emission) -> None:
        self._file = file
        self._emission = emission

    def of(self, uid: str, confirmed_ms: int | None = None) -> Iterator[CopiedPayout]:
        """Yield the payouts of a board in the order of their numbers. With `confirmed_ms`, yield
        only those that were confirmed at this instant or later."""
        serials = self._file.rows(
            "SELECT serial FROM payout INDEXED BY of_period WHERE uid = ? AND published "
            "AND (? IS NULL OR confirmed_ms >= ?)",
            (uid, confirmed_ms, confirmed_ms),
        )
        numbers = sorted([serial for [serial] in serials])
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            rows = self._file.rows(
                f"SELECT serial, erased, {COLUMNS} FROM payout "
                f"WHERE serial IN ({', '.join('?' * len(part))}) ORDER BY serial",
                part,
            )
            for serial, erased, *values in rows:
                yield CopiedPayout(serial, bool(erased), row_of(values))

    def note_number(
        self, connection: Connection, revision: tuple[str, str, int, int], number: int
    ) -> None:
        """Store that the payouts of a revision were published for the board with this number. The
        caller has begun a transaction. A second call changes nothing."""
        connection.execute("INSERT OR IGNORE INTO made VALUES (?, ?, ?, ?, ?)", (*revision, number))

    def receive(self, number: int, payouts: Iterable[CopiedPayout]) -> None:
        """Store payouts of an unfinished copy, which are not visible yet. A second call changes
        nothing."""
        rows = [
            (number, each.serial, each.is_erased, *[getattr(each.row, name) for name in FIELDS])
            for each in payouts
        ]
        with self._file.transaction() as connection:
            connection.executemany(_INSERT, rows)

    def publish(self, number: int, tag: int) -> None:
        """Move the payouts of a copy into the table of payouts. If a payout is in both tables, its
        row in the table of payouts stays, and becomes confirmed or superseded if the copied payout
        is. The payouts get numbers that are greater than all numbers in the source and in this
        table. So a reader with a cursor of either store misses no payout."""
        if not self._file.exists:
            return
        mark_ms = self._emission.mark.due_ms
        with self._file.transaction() as connection:
            [[newest]] = connection.execute(
                "SELECT max(serial) FROM copied WHERE number = ?", (number,)
            ).fetchall()
            if newest is None:
                return
            [[own]] = connection.execute(
                "SELECT max(seq) FROM sqlite_sequence WHERE name = 'payout'"
            ).fetchall()
            columns = f"serial, {COLUMNS}, published, tag, erased, list_ms, number"
            connection.execute(
                f"INSERT INTO payout ({columns}) "
                f"SELECT :base + row_number() OVER (ORDER BY serial), {COLUMNS}, 1, :tag, erased, "
                "CASE WHEN reference IS NOT NULL OR superseded IS NOT NULL THEN :never "
                "ELSE max(due_ms, :mark) END, number FROM copied WHERE number = :number "
                "ON CONFLICT (id) DO UPDATE SET published = 1, number = excluded.number, "
                "reference = ifnull(reference, excluded.reference), "
                "confirmed_ms = ifnull(confirmed_ms, excluded.confirmed_ms), "
                "superseded = ifnull(superseded, excluded.superseded)",
                {
                    "base": max(newest, own or 0),
                    "tag": tag,
                    "never": NEVER_MS,
                    "mark": mark_ms,
                    "number": number,
                },
            )
            connection.execute("DELETE FROM copied WHERE number = ?", (number,))
        self._emission.refresh()

    def discard(self, number: int) -> None:
        """Remove the payouts of a copy that was given up."""
        if self._file.exists:
            with self._file.transaction() as connection:
                connection.execute("DELETE FROM copied WHERE number = ?", (number,))

    def forget(self, number: int, uid: str) -> None:
        """Remove the payouts of a board that had this number. A payout that was emitted leaves an
        empty row, since the cursor of a reader may point to it."""
        if not self._file.exists:
            return
        mark = self._emission.mark
        with self._file.transaction() as connection:
            connection.execute(
                f"DELETE FROM payout WHERE {_OF_NUMBER} AND NOT (published AND {PLACE} <= ? "
                f"AND ({PLACE} < ? OR serial <= ?))",
                (uid, number, number, mark.due_ms, mark.due_ms, mark.serial),
            )
            connection.execute(_EMPTY, (uid, number, number))
        self._emission.refresh()
