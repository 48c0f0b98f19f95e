"""The audit log of a folder: a separate SQLite file.

It is not in `log.db`, since only the committing thread writes that file. So an administrative call
neither waits for a commit nor delays one, and the log has only the records from which the boards
are made.
"""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import msgspec
from msgspec.structs import replace

from laurels.errors import FormatTooNew, StorageFailed
from laurels.wire.audit_entry import MAX_ENTRIES, AuditEntry, without_member

from .database import Database

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
    """Implementation of `ErasableAudit`: entries in a file of a folder. Its methods raise
    StorageFailed, FormatTooNew.

    The file is opened by the first call, and created by the first entry. Threads that add entries
    at the same time share a transaction.
    """

    def __init__(self, folder: Path, most: int = MAX_ENTRIES) -> None:
        self._database = Database(folder / NAME, (_SCHEMA,), FORMAT, "FULL")
        self._most = most
        self._lock = Lock()
        self._waiting: list[_Write] = []

    def create(self) -> None:
        """Create the file if it is missing, and open it."""
        with self._lock, self._database.plain_errors():
            self._database.connection()

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
        with self._lock, self._database.plain_errors():
            if not self._database.exists:
                return []
            rows = self._database.connection().execute(_NEWEST, (older_than, limit)).fetchall()
            return [
                replace(msgspec.json.decode(body, type=AuditEntry), id=str(number))
                for number, body in rows
            ]

    def erase(self, member: str, token: str) -> int:
        with self._lock:
            if not self._database.exists:
                return 0
            with self._database.overwriting() as connection:
                entries = connection.execute("SELECT id, body FROM entry").fetchall()
                changed = [
                    (msgspec.json.encode(erased), number)
                    for number, body in entries
                    if (entry := msgspec.json.decode(body, type=AuditEntry))
                    and (erased := without_member(entry, member, token)) is not entry
                ]
                connection.executemany("UPDATE entry SET body = ? WHERE id = ?", changed)
            return len(changed)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _add_waiting(self) -> None:
        """Write the rows of all waiting calls, under the lock."""
        writes, self._waiting = self._waiting, []
        rows = [row for write in writes for row in write.rows]
        error = None
        try:
            with self._database.transaction() as connection:
                connection.executemany("INSERT INTO entry (body) VALUES (?)", rows)
                (last,) = connection.execute("SELECT max(id) FROM entry").fetchone()
                connection.execute("DELETE FROM entry WHERE id <= ?", (last - self._most,))
        except (StorageFailed, FormatTooNew) as failed:
            error = failed
        for write in writes:
            write.done, write.error = True, error
