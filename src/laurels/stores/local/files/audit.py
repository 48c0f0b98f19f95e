"""The audit log of a folder: a separate SQLite file.

It is not in `log.db`, since only the committing thread writes that file. So an administrative call
neither waits for a commit nor delays one, and the log has only the records from which the boards
are made.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import msgspec
from msgspec.structs import replace

from laurels.errors import FormatTooNew, StorageFailed
from laurels.wire.audit_entry import MAX_ENTRIES, AuditEntry

from .private_files import create_file

NAME = "audit.db"
FORMAT = 1
_SCHEMA = "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB)"
_NEWEST = "SELECT id, body FROM entry WHERE id < ? ORDER BY id DESC LIMIT ?"
_LAST_ID = (1 << 63) - 1


class _Write:
    """The rows of one call of `add`, and whether they are written or failed."""

    def __init__(self, entries: Sequence[AuditEntry]) -> None:
        self.rows = [(msgspec.json.encode(entry),) for entry in entries]
        self.done = False
        self.error: StorageFailed | FormatTooNew | None = None


class FolderAudit:
    """Implementation of `AuditStore`: entries in a file of a folder. Its methods raise
    StorageFailed, FormatTooNew.

    The file is opened by the first call, and created by the first entry. Threads that add entries
    at the same time share a transaction.
    """

    def __init__(self, folder: Path, most: int = MAX_ENTRIES) -> None:
        self._path = folder / NAME
        self._most = most
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._waiting: list[_Write] = []

    def create(self) -> None:
        """Create the file if it is missing, and open it."""
        with self._lock, self._plain_errors():
            self._opened()

    def add(self, entries: Sequence[AuditEntry]) -> None:
        write = _Write(entries)
        self._waiting.append(write)
        with self._lock:
            if not write.done:
                self._add_waiting()
        if write.error is not None:
            raise write.error

    def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        older_than = _LAST_ID if before is None else int(before.partition("-")[0])
        with self._lock, self._plain_errors():
            if self._connection is None and not self._path.exists():
                return []
            rows = self._opened().execute(_NEWEST, (older_than, limit)).fetchall()
            return [
                replace(msgspec.json.decode(body, type=AuditEntry), id=str(number))
                for number, body in rows
            ]

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            os.close(create_file(self._path))
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise FormatTooNew(f"{self._path} is in format {version}, this version reads {FORMAT}")
        connection.execute(_SCHEMA)
        connection.execute(f"PRAGMA user_version={FORMAT}")

    def _add_waiting(self) -> None:
        """Write the rows of all waiting calls, under the lock."""
        writes, self._waiting = self._waiting, []
        rows = [row for write in writes for row in write.rows]
        error = None
        try:
            with self._plain_errors(), self._transaction() as connection:
                connection.executemany("INSERT INTO entry (body) VALUES (?)", rows)
                (last,) = connection.execute("SELECT max(id) FROM entry").fetchone()
                connection.execute("DELETE FROM entry WHERE id <= ?", (last - self._most,))
        except (StorageFailed, FormatTooNew) as failed:
            error = failed
        for write in writes:
            write.done, write.error = True, error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.execute("COMMIT")

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, msgspec.MsgspecError) as error:
            raise StorageFailed(f"{self._path} could not be read or written: {error}") from error
