"""A ledger in SQLite."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import ref

from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import TargetUnavailable

from .columns import LedgerEntries
from .dialects import ANSWER_SECONDS, Row, entries_by_row, translated_errors

_FILE_MODE = 0o600
_LOCK_SECONDS = 10.0
"""The maximum time for which a statement waits for other processes that write to the file."""
_STEPS = 100_000
"""After so many instructions of SQLite, some milliseconds, a statement checks whether its
connection was aborted."""


class _Connection(sqlite3.Connection):
    """A connection that refuses all statements after it was aborted."""

    is_aborted = False

    def watch(self) -> None:
        """Let a statement fail once the connection was aborted. `interrupt` alone has no effect on
        a statement that is just about to begin."""
        itself = ref(self)

        def is_aborted() -> bool:
            connection = itself()
            return connection is None or connection.is_aborted

        self.set_progress_handler(is_aborted, _STEPS)


class SQLite:
    """SQLite, through the module of the standard library. Decimals are stored as 8-byte floats,
    which are exact up to 15 digits."""

    name = "sqlite"
    key_name = key_text = "text"
    long_text = "text"
    number = "numeric"
    table_end = "WITHOUT ROWID"

    def __init__(self, path: Path) -> None:
        self._path = path

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def connect(self, *, create: bool = True, seconds: float = ANSWER_SECONDS) -> Any:
        with self.errors():
            if not create and not self._path.exists():
                raise NoLedger(f"there is no file {self._path}")
            if create:
                self._make_file()
            url = f"{self._path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            connection = sqlite3.connect(
                url,
                timeout=min(seconds, _LOCK_SECONDS),
                check_same_thread=False,
                uri=True,
                factory=_Connection,
            )
            connection.watch()
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return connection

    def _make_file(self) -> None:
        """Create the file if it does not exist, with a mode by which only its owner can read it;
        SQLite gives its write-ahead file the same mode."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _FILE_MODE))
        except FileExistsError:
            pass
        except OSError as error:
            raise TargetUnavailable(f"the file {self._path} cannot be created ({error})") from error

    @contextmanager
    def schema_locked(self, connection: Any, prefix: str) -> Iterator[None]:
        """Begin the transaction as a writer. Otherwise each statement that creates a table or a
        view would be a transaction of its own."""
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.commit()

    def abort(self, connection: Any) -> None:
        connection.is_aborted = True
        connection.interrupt()

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        if connection.is_aborted:
            raise sqlite3.OperationalError("interrupted")
        return connection.execute(statement.replace("%s", "?"), _plain(row))

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        names = list(types)
        sets = ", ".join([f"{name} = excluded.{name}" for name in names[key:]])
        connection.executemany(
            f"{_insert(table, names)} ON CONFLICT ({', '.join(names[:key])}) DO UPDATE SET {sets} "
            f"WHERE version <= excluded.version",
            map(_plain, rows),
        )

    def insert(self, connection: Any, table: str, types: dict[str, str], rows: list[Row]) -> None:
        connection.executemany(_insert(table, list(types)), map(_plain, rows))

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        where = " AND ".join([f"{column} = ?" for column in columns])
        connection.executemany(f"DELETE FROM {table} WHERE {where}", rows)

    def begin_snapshot(self, connection: Any) -> None:
        connection.execute("BEGIN")

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        cursor = self.execute(connection, statement, row)
        while rows := cursor.fetchmany(size):
            yield rows

    def entries(
        self, connection: Any, table: str, board: str, scales: Sequence[int], size: int
    ) -> Iterator[list[LedgerEntries]]:
        return entries_by_row(self, connection, table, board, scales, size)

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else Decimal(f"{value:.{scale}f}")

    def after_round_trip(self, value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        return self.score(float(value), -int(value.as_tuple().exponent))

    def errors(self) -> Any:
        return translated_errors((sqlite3.OperationalError,), sqlite3.Error)


def _insert(table: str, names: Sequence[str]) -> str:
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def _plain(row: Sequence[Any]) -> Row:
    """Return a row with decimals converted to floats, which SQLite accepts."""
    return tuple(
        [each if each is None or isinstance(each, (int, str)) else float(each) for each in row]
    )
