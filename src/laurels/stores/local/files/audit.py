"""The audit log of a folder: a SQLite file of its own.

It is not in `log.db`, which is written only by the committing thread. So an administrative call
neither waits for a commit nor delays one, and the log has only the records that boards are made
from, complete with every snapshot and backup.
"""

import asyncio
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


class FolderAudit:
    """Implementation of `AuditStore`: entries in a file of a folder. Raises StorageFailed,
    FormatTooNew."""

    def __init__(self, folder: Path, most: int = MAX_ENTRIES) -> None:
        self._path = folder / NAME
        self._most = most
        self._lock = Lock()
        with self._plain_errors():
            os.close(create_file(self._path))
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found > FORMAT:
            raise FormatTooNew(f"{self._path} is in format {found}, this version reads {FORMAT}")
        self._connection.execute(_SCHEMA)
        self._connection.execute(f"PRAGMA user_version={FORMAT}")

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        await asyncio.to_thread(self._add, entries)

    async def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        return await asyncio.to_thread(self.newest, before, limit)

    async def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _add(self, entries: Sequence[AuditEntry]) -> None:
        rows = [(msgspec.json.encode(entry),) for entry in entries]
        with self._lock, self._plain_errors(), self._transaction():
            self._connection.executemany("INSERT INTO entry (body) VALUES (?)", rows)
            (last,) = self._connection.execute("SELECT max(id) FROM entry").fetchone()
            self._connection.execute("DELETE FROM entry WHERE id <= ?", (last - self._most,))

    def newest(self, before: str | None, limit: int) -> list[AuditEntry]:
        """Return the entries of `page`. Blocks."""
        older_than = _LAST_ID if before is None else int(before)
        with self._lock, self._plain_errors():
            rows = self._connection.execute(_NEWEST, (older_than, limit)).fetchall()
            return [
                replace(msgspec.json.decode(body, type=AuditEntry), id=str(number))
                for number, body in rows
            ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, msgspec.MsgspecError) as error:
            raise StorageFailed(f"{self._path} could not be read or written: {error}") from error
