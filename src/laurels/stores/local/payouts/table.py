"""The payouts of a store in an SQLite database: `payouts.db` in its folder, or in memory.

Payouts are written before the seal of their period is committed. They are invisible until the seal
is folded. Confirmations are records of the log, which the fold writes to this table. So a store
that loses the end of its log loses only confirmations that it had not acknowledged. The writes of
the fold are synced before a snapshot becomes valid; if they are lost before that, the records are
folded again.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from laurels.core.payouts import DuePlace, PayoutFilter, PayoutRow, payout_id
from laurels.core.pending_erasure import ErasedPeriods

from .copied import COPY_SCHEMA, CopiedPayouts
from .due import LocalDuePayouts
from .emission import DUE_SCHEMA, Emission
from .file import PayoutFile
from .publishing import FIND_PENDING, PUBLISHING_SCHEMA, Publishing
from .rows import COLUMNS, FIELDS, row_of

_OPEN = "published AND superseded IS NULL AND reference IS NULL"
_SCHEMA = (
    f"""CREATE TABLE IF NOT EXISTS payout (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, {COLUMNS.replace('"id"', '"id" TEXT UNIQUE')},
    wait_ms INTEGER, published INTEGER NOT NULL DEFAULT 0, replaced_by INTEGER, tag INTEGER,
    erased INTEGER NOT NULL DEFAULT 0, list_ms INTEGER, number INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS of_board ON payout (board, due_ms, serial)",
    "CREATE INDEX IF NOT EXISTS of_period ON payout (uid, window, instance, revision)",
    f"CREATE INDEX IF NOT EXISTS open_of_board ON payout (uid, window, instance) WHERE {_OPEN}",
    "CREATE INDEX IF NOT EXISTS replaced ON payout (uid, window, instance, replaced_by) "
    "WHERE replaced_by IS NOT NULL",
    *DUE_SCHEMA,
    *PUBLISHING_SCHEMA,
    *COPY_SCHEMA,
)
_ADDED = {
    "payout": {
        "tag": "INTEGER",
        "erased": "INTEGER NOT NULL DEFAULT 0",
        "list_ms": "INTEGER",
        "number": "INTEGER NOT NULL DEFAULT 0",
    }
}
"""Columns that earlier versions did not create. `tag` is the random tag of the record that made the
payout visible. `erased` is 1 for a payout whose member was erased. If a payout came with a copy of
its board, `number` is the number of the copy, and `list_ms` the place of the payout in the list of
due payouts (see `ranges`)."""
_INSERT = (
    f"INSERT OR IGNORE INTO payout ({COLUMNS}, wait_ms) "
    f"VALUES ({', '.join('?' * (len(FIELDS) + 1))})"
)
_PERIOD = "uid = ? AND window = ? AND instance = ?"
_STATES = {
    "pending": f"{_OPEN} AND due_ms > :now",
    "due": f"{_OPEN} AND due_ms <= :now",
    "confirmed": "reference IS NOT NULL",
    "superseded": "superseded IS NOT NULL",
}


class PayoutTable:
    """Implementation of `PayoutBook`. Its methods raise StorageFailed, FormatTooNew.

    The file is opened by the first call, and created by the first payout.
    """

    def __init__(self, folder: Path | None) -> None:
        self.file = self._file = PayoutFile(folder, _SCHEMA, _ADDED)
        self._publishing = Publishing(self._file)
        self.emission = Emission(self._file, self._publishing)
        self.due = LocalDuePayouts(self._file, self.emission)
        self.copied = CopiedPayouts(self._file, self.emission)

    # Making payouts

    def stage(self, rows: Iterable[PayoutRow], wait_ms: int) -> None:
        """Write payouts that stay invisible until `publish`. They will be due `wait_ms` after their
        publication."""
        values = [(*[getattr(row, name) for name in FIELDS], wait_ms) for row in rows]
        with self._file.transaction() as connection:
            connection.executemany(_INSERT, values)

    def stage_replaced(self, ids: Iterable[str], revision: int) -> None:
        """Store which payouts `publish` will supersede when it publishes a revision."""
        with self._file.transaction() as connection:
            connection.executemany(
                "UPDATE payout SET replaced_by = ? WHERE id = ?", [(revision, id) for id in ids]
            )

    def unstage(self, uid: str, window: str, instance: int, revision: int) -> None:
        """Undo `stage` and `stage_replaced` for a revision that was not published, for instance
        because the store was killed before that."""
        if not self._file.exists:
            return
        period = (uid, window, instance, revision)
        with self._file.transaction() as connection:
            connection.execute(
                f"DELETE FROM payout WHERE {_PERIOD} AND revision = ? AND NOT published", period
            )
            connection.execute(
                f"UPDATE payout SET replaced_by = NULL WHERE {_PERIOD} AND replaced_by = ? "
                "AND superseded IS NULL",
                period,
            )

    def undo_after(
        self,
        newest_revision: Callable[[str, str, int], int | None],
        now_ms: int,
        new_tag: Callable[[], int],
    ) -> None:
        """Undo the payouts of revisions that the log does not have, since the folder was rewound or
        its backup was taken during a correction. Confirmed payouts stay. `now_ms` is the time of
        the newest record. If anything was undone, or was emitted after `now_ms`, the positions of
        all readers become invalid, and the readers begin anew.

        `newest_revision` returns the newest revision of a period (uid, window, instance), -1 for a
        period that is not sealed, and None for a period whose payouts stay as they are."""
        if not self._file.exists:
            return
        periods = self._file.rows("SELECT DISTINCT uid, window, instance FROM payout", ())
        undone = 0
        with self._file.transaction() as connection:
            for period in periods:
                if (newest := newest_revision(*period)) is not None:
                    self._publishing.forget_after(connection, period, newest)
                    undone += _undo(connection, period, newest)
            if undone or self.emission.mark.due_ms > now_ms:
                self.emission.move_back(connection, now_ms)
                connection.execute("UPDATE payout SET tag = ? WHERE published", (new_tag(),))
        self.publish_all()
        self.emission.refresh()

    def next_due_of_replaced(
        self, uid: str, window: str, instance: int, revision: int
    ) -> int | None:
        """Return the earliest due time of the payouts that a revision would supersede; None if
        there are none. Payouts that were confirmed meanwhile are included, although they are not
        superseded."""
        [[due_ms]] = self._file.rows(
            f"SELECT min(due_ms) FROM payout WHERE {_PERIOD} AND replaced_by = ? "
            "AND published AND superseded IS NULL",
            (uid, window, instance, revision),
        ) or [[None]]
        return None if due_ms is None else int(due_ms)

    def publish(
        self,
        number: int,
        uid: str,
        window: str,
        instance: int,
        revision: int,
        now_ms: int,
        tag: int,
    ) -> None:
        """Publish the first payouts of a revision, and supersede the payouts that it replaces. If
        more are left, `publish_share` publishes them; a query about the payouts of the board first
        publishes all of them."""
        if not self._file.exists:
            return
        period = (uid, window, instance, revision)
        first_ms = self.emission.mark.due_ms + 1  # later than all emitted payouts
        with self._file.transaction() as connection:
            self._publishing.begin(connection, period, now_ms, first_ms, tag)
            self.copied.note_number(connection, period, number)
            connection.execute(
                f"UPDATE payout SET superseded = replaced_by WHERE {_PERIOD} AND replaced_by = ? "
                "AND superseded IS NULL AND reference IS NULL",
                period,
            )
        self.emission.refresh()

    @property
    def is_publishing(self) -> bool:
        """Whether a revision is being published, so that some of its payouts are not published
        yet."""
        return self._publishing.is_pending

    def publish_share(self) -> bool:
        """Publish a share of the payouts that are left. Return whether any were left. Due payouts
        are emitted only when none are left."""
        was_pending = self._publishing.publish_share()
        if was_pending and not self._publishing.is_pending:
            self.emission.refresh()
        return was_pending

    def publish_all(self) -> None:
        """Publish all payouts that are left."""
        while self.publish_share():
            pass

    def confirm(self, id: str, reference: str, now_ms: int) -> None:
        if not self._file.exists:
            return
        with self._file.transaction() as connection:
            connection.execute(
                "UPDATE payout SET reference = ?, confirmed_ms = ? "
                "WHERE id = ? AND reference IS NULL",
                (reference, now_ms, id),
            )

    def erase(self, member: str, token: str, erased_from: ErasedPeriods = lambda *_: True) -> int:
        """Replace a member by a token in the payouts of the periods for which `erased_from` is
        true, and in their ids. Return the number of these payouts. When this returns, the file no
        longer names the member in these periods. After an interruption, another call replaces the
        rest."""
        self._file.ensure_not_missing()
        if not self._file.exists:
            return 0
        self.publish_all()
        of_member = f"SELECT serial, {COLUMNS} FROM payout WHERE member = ?"
        with self._file.overwriting() as connection:
            rows = [
                (serial, row_of(values))
                for serial, *values in connection.execute(of_member, (member,))
            ]
            rows = [
                (serial, row)
                for serial, row in rows
                if erased_from(row.uid, row.window, row.instance)
            ]
            ids = {row.id: _id_with(row, token) for _, row in rows}
            connection.executemany(
                "UPDATE payout SET id = ?, member = ?, corrects = ?, erased = 1 WHERE serial = ?",
                [(ids[row.id], token, _renamed(ids, row.corrects), at) for at, row in rows],
            )
        return len(rows)

    def rename(self, uid: str, board: str) -> None:
        if self._is_named_otherwise(uid, board):
            with self._file.transaction() as connection:
                connection.execute("UPDATE payout SET board = ? WHERE uid = ?", (board, uid))

    def _is_named_otherwise(self, uid: str, board: str) -> bool:
        """Return whether the payouts of a board are stored under a name other than `board`. All
        payouts of a board have the same name, so one row is read."""
        if not self._file.exists:
            return False
        rows = self._file.rows("SELECT board FROM payout WHERE uid = ? LIMIT 1", (uid,))
        return bool(rows) and rows[0][0] != board

    def restore_names(self, names: Callable[[], Mapping[str, str]]) -> None:
        """Store the payouts of each board under the name that `names` has for its unique id. They
        are stored under another name if the board was restored under a new name, and the log was
        then rewound to a time before that."""
        if self._file.exists:
            known = names()
            for [uid] in self._file.rows("SELECT DISTINCT uid FROM payout"):
                if uid in known:
                    self.rename(uid, known[uid])

    def counts(self) -> dict[str, int]:
        """Return the number of payouts of each board, by its unique id. O(payouts)."""
        if not self._file.exists:
            return {}
        return dict(self._file.rows("SELECT uid, count(*) FROM payout GROUP BY uid", ()))

    def emit(self, until: DuePlace) -> None:
        self.emission.emit(until)

    def adopt(self, number: int, tag: int) -> None:
        self.copied.publish(number, tag)

    def discard(self, number: int) -> None:
        self.copied.discard(number)

    def forget(self, number: int, uid: str) -> None:
        self.copied.forget(number, uid)

    # Reading

    def emitted(self, after: DuePlace, until: DuePlace) -> dict[str, list[PayoutRow]]:
        self.publish_all()
        return self.emission.emitted(after, until)

    def page(
        self, wanted: PayoutFilter, now_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[int, PayoutRow]]:
        if self._publishing.concerns(wanted.board):
            self.publish_all()
        conditions = ["published", "board = :board"]
        for name in ("window", "period", "member"):
            if getattr(wanted, name) is not None:
                conditions.append(f"{name} = :{name}")
        if wanted.state is not None:
            conditions.append(_STATES[wanted.state])
        if wanted.due_only:
            conditions.append("superseded IS NULL AND due_ms <= :now")
        arguments = {
            "board": wanted.board,
            "window": wanted.window,
            "period": wanted.period,
            "member": wanted.member,
            "now": now_ms,
            "due": after[0],
            "serial": after[1],
        }
        found: list[Any] = []
        # `sql.payout_places` says why this takes two queries
        for later in ("due_ms = :due AND serial > :serial", "due_ms > :due"):
            found += self._file.rows(
                f"SELECT serial, {COLUMNS} FROM payout WHERE {' AND '.join([*conditions, later])} "
                "ORDER BY due_ms, serial LIMIT :limit",
                {**arguments, "limit": limit - len(found)},
            )
        return [(serial, row_of(values)) for serial, *values in found]

    def find(self, id: str) -> PayoutRow | None:
        found = self._file.rows(f"SELECT {COLUMNS} FROM payout WHERE id = ? AND published", (id,))
        if not found and self._publishing.is_pending:
            found = self._file.rows(FIND_PENDING, (id,))
        return row_of(found[0]) if found else None

    def of_period(self, uid: str, window: str, instance: int) -> list[PayoutRow]:
        self.publish_all()
        found = self._file.rows(
            f"SELECT {COLUMNS} FROM payout WHERE {_PERIOD} AND published "
            "AND superseded IS NULL ORDER BY serial",
            (uid, window, instance),
        )
        return list(map(row_of, found))

    def open_on(self, uid: str) -> int:
        """Return how many payouts of a board are open, that is, neither confirmed nor
        superseded."""
        return self._count("uid = ?", uid)

    def open_periods(self, uid: str, window: str) -> list[int]:
        """Return the periods of a window that have open payouts, as instances in ascending
        order."""
        rows = self._file.rows(
            "SELECT DISTINCT instance FROM payout "
            f"WHERE uid = ? AND window = ? AND {_OPEN} ORDER BY instance",
            (uid, window),
        )
        return [instance for [instance] in rows]

    def open_of(self, member: str) -> int:
        """Return how many payouts of a member are open."""
        return self._count("member = ?", member)

    def _count(self, condition: str, argument: str) -> int:
        """Return how many payouts that fulfil a condition are open."""
        statement = f"SELECT count(*) FROM payout WHERE {condition} AND {_OPEN}"
        rows = self._file.rows(statement, (argument,))
        return int(rows[0][0]) if rows else 0

    def knows(self, board: str, window: str | None = None) -> bool:
        """Return whether a board of that name has or had payouts. With a `window`, only payouts of
        this window count."""
        of_board, arguments = "SELECT 1 FROM payout WHERE board = ? AND published", (board,)
        if window is None:
            return bool(self._file.rows(f"{of_board} LIMIT 1", arguments))
        return bool(self._file.rows(f"{of_board} AND window = ? LIMIT 1", (*arguments, window)))

    # The file

    def flush(self) -> None:
        """Sync all writes to the disk. Until then a power cut may undo publications and
        confirmations."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _id_with(row: PayoutRow, member: str) -> str:
    """Return the id that a payout would have if it were owed to another member."""
    return payout_id(row.uid, row.window, row.period, row.scope, member, row.prize, row.revision)


def _renamed(ids: Mapping[str, str], id: str | None) -> str | None:
    return None if id is None else ids.get(id, id)


def _undo(connection: Connection, period: tuple[str, str, int], newest: int) -> int:
    """Undo the payouts of a period that were made by revisions after `newest`. Return how many
    visible payouts have changed."""
    removed = connection.execute(
        f"DELETE FROM payout WHERE {_PERIOD} AND revision > ? AND reference IS NULL "
        "RETURNING published",
        (*period, newest),
    ).fetchall()
    valid_again = connection.execute(
        f"UPDATE payout SET superseded = NULL WHERE {_PERIOD} AND superseded > ?",
        (*period, newest),
    ).rowcount
    connection.execute(
        f"UPDATE payout SET replaced_by = NULL WHERE {_PERIOD} AND replaced_by > ?",
        (*period, newest),
    )
    return int(valid_again) + removed.count((1,))
