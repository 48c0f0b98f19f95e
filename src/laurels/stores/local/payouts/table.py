"""The payouts of a store in an SQLite database: `payouts.db` in its folder, or in memory.

Payouts are written before the period's seal is committed, invisible, and become visible when the
seal is folded. Confirmations are records of the log, which are folded onto this table; so a store
that loses the end of its log loses what it had not acknowledged, and nothing else. What the fold
writes is synced before a snapshot becomes valid, and folded again if it was lost before.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from laurels.core.payouts import PayoutFilter, PayoutRow
from laurels.stores.local.files.database import Database

NAME = "payouts.db"
FORMAT = 1
_FIELDS = PayoutRow.__struct_fields__
_COLUMNS = ", ".join([f'"{name}"' for name in _FIELDS])
_SCHEMA = (
    f"""CREATE TABLE IF NOT EXISTS payout (
    serial INTEGER PRIMARY KEY AUTOINCREMENT, {_COLUMNS.replace('"id"', '"id" TEXT UNIQUE')},
    wait_ms INTEGER, published INTEGER NOT NULL DEFAULT 0, replaced_by INTEGER)""",
    "CREATE INDEX IF NOT EXISTS of_board ON payout (board, due_ms, serial)",
    "CREATE INDEX IF NOT EXISTS of_period ON payout (uid, window, instance, revision)",
)
_INSERT = (
    f"INSERT OR IGNORE INTO payout ({_COLUMNS}, wait_ms) "
    f"VALUES ({', '.join('?' * (len(_FIELDS) + 1))})"
)
_PERIOD = "uid = ? AND window = ? AND instance = ?"
_OPEN = "published AND superseded IS NULL AND reference IS NULL"
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
        path = None if folder is None else folder / NAME
        self._database = Database(path, _SCHEMA, FORMAT, "NORMAL")
        self._lock = RLock()

    # Making payouts

    def stage(self, rows: Iterable[PayoutRow], wait_ms: int) -> None:
        """Write payouts that stay invisible until `publish`. They will be due `wait_ms` after
        that."""
        values = [(*[getattr(row, name) for name in _FIELDS], wait_ms) for row in rows]
        with self._transaction() as connection:
            connection.executemany(_INSERT, values)

    def stage_replaced(self, ids: Iterable[str], revision: int) -> None:
        """Name payouts that `publish` of a revision supersedes."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE payout SET replaced_by = ? WHERE id = ?", [(revision, id) for id in ids]
            )

    def unstage(self, uid: str, window: str, instance: int, revision: int) -> None:
        """Undo `stage` and `stage_replaced` of a revision that was not published, such as those of
        a store that was killed meanwhile."""
        if not self._database.exists:
            return
        period = (uid, window, instance, revision)
        with self._transaction() as connection:
            connection.execute(
                f"DELETE FROM payout WHERE {_PERIOD} AND revision = ? AND NOT published", period
            )
            connection.execute(
                f"UPDATE payout SET replaced_by = NULL WHERE {_PERIOD} AND replaced_by = ? "
                "AND superseded IS NULL",
                period,
            )

    def undo_after(self, newest_revision: Callable[[str, str, int], int | None]) -> None:
        """Undo the payouts of revisions that the log does not have, since the folder was rewound or
        its backup was taken during a correction. What was paid stays.

        `newest_revision` returns the newest revision of a period (uid, window, instance), -1 for a
        period that is not sealed, and None for a period whose payouts stay as they are."""
        if not self._database.exists:
            return
        periods = self._rows("SELECT DISTINCT uid, window, instance FROM payout", ())
        with self._transaction() as connection:
            for period in periods:
                if (newest := newest_revision(*period)) is None:
                    continue
                connection.execute(
                    f"DELETE FROM payout WHERE {_PERIOD} AND revision > ? AND reference IS NULL",
                    (*period, newest),
                )
                connection.execute(
                    "UPDATE payout SET superseded = NULL, replaced_by = NULL "
                    f"WHERE {_PERIOD} AND replaced_by > ?",
                    (*period, newest),
                )

    def next_due_of_replaced(
        self, uid: str, window: str, instance: int, revision: int
    ) -> int | None:
        """Return the earliest due time of the payouts that a revision would supersede; None if
        there are none."""
        [[due_ms]] = self._rows(
            f"SELECT min(due_ms) FROM payout WHERE {_PERIOD} AND replaced_by = ? AND {_OPEN}",
            (uid, window, instance, revision),
        ) or [[None]]
        return None if due_ms is None else int(due_ms)

    def publish(self, uid: str, window: str, instance: int, revision: int, now_ms: int) -> None:
        if not self._database.exists:
            return
        period = (uid, window, instance, revision)
        with self._transaction() as connection:
            connection.execute(
                "UPDATE payout SET published = 1, made_ms = ?, due_ms = ? + wait_ms "
                f"WHERE {_PERIOD} AND revision = ? AND NOT published",
                (now_ms, now_ms, *period),
            )
            connection.execute(
                f"UPDATE payout SET superseded = replaced_by WHERE {_PERIOD} AND replaced_by = ? "
                "AND superseded IS NULL AND reference IS NULL",
                period,
            )

    def confirm(self, id: str, reference: str, now_ms: int) -> None:
        if not self._database.exists:
            return
        with self._transaction() as connection:
            connection.execute(
                "UPDATE payout SET reference = ?, confirmed_ms = ? "
                "WHERE id = ? AND reference IS NULL",
                (reference, now_ms, id),
            )

    # Reading

    def page(
        self, wanted: PayoutFilter, now_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[int, PayoutRow]]:
        conditions = ["published", "board = :board", "(due_ms, serial) > (:due, :serial)"]
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
            "limit": limit,
        }
        found = self._rows(
            f"SELECT serial, {_COLUMNS} FROM payout WHERE {' AND '.join(conditions)} "
            "ORDER BY due_ms, serial LIMIT :limit",
            arguments,
        )
        return [(serial, _row(values)) for serial, *values in found]

    def find(self, id: str) -> PayoutRow | None:
        found = self._rows(f"SELECT {_COLUMNS} FROM payout WHERE id = ? AND published", (id,))
        return _row(found[0]) if found else None

    def of_period(self, uid: str, window: str, instance: int) -> list[PayoutRow]:
        found = self._rows(
            f"SELECT {_COLUMNS} FROM payout WHERE {_PERIOD} AND published "
            "AND superseded IS NULL ORDER BY serial",
            (uid, window, instance),
        )
        return list(map(_row, found))

    def is_open(self, uid: str) -> bool:
        return bool(self._rows(f"SELECT 1 FROM payout WHERE uid = ? AND {_OPEN} LIMIT 1", (uid,)))

    def knows(self, board: str) -> bool:
        found = self._rows("SELECT 1 FROM payout WHERE board = ? AND published LIMIT 1", (board,))
        return bool(found)

    # The file

    def flush(self) -> None:
        """Sync what was written. Until then a power cut may undo what was published and
        confirmed."""
        with self._lock, self._database.plain_errors():
            if self._database.path is not None and (opened := self._database.opened) is not None:
                opened.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _rows(self, statement: str, arguments: Any) -> list[Any]:
        with self._lock, self._database.plain_errors():
            if not self._database.exists:
                return []
            return self._database.connection().execute(statement, arguments).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._database.transaction() as connection:
            yield connection


def _row(values: Sequence[Any]) -> PayoutRow:
    fields = dict(zip(_FIELDS, values, strict=True))
    return PayoutRow(**{**fields, "withdrawn": bool(fields["withdrawn"])})
