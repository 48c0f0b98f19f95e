"""The embedded log: one SQLite file, one row per commit.

WAL mode with `synchronous=FULL`: the commit of a row returns when the row is on the disk, so
what was acknowledged survives a kill and a power cut. Each row carries a CRC-32 of its body, and
offsets follow each other without a gap, so damage is found where it is and named, never guessed
around. The writer's connection is used by one thread at a time; a reader opens its own.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from laurels.errors import FormatTooNew, LogDamaged, StorageFailed

FORMAT = 1
_FETCH = 64
_SCHEMA = """
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE log (offset INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
"""


class SqliteLog:
    """A log in one SQLite file; implements `Log`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _plain_errors(path):
            self._writer = self._connect()
            self._prepare()
            self._offset = self._newest()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _prepare(self) -> None:
        fresh = not self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if fresh:
            self._writer.execute("PRAGMA journal_mode=WAL")
            self._writer.executescript(
                f"BEGIN; {_SCHEMA} INSERT INTO note VALUES ('format', '{FORMAT}'); COMMIT;"
            )
        elif int(self.note("format") or 0) > FORMAT:
            raise FormatTooNew(
                f"{self._path} is in format {self.note('format')}, this version reads {FORMAT}"
            )

    def _newest(self) -> int:
        return int(self._writer.execute("SELECT ifnull(max(offset), 0) FROM log").fetchone()[0])

    @property
    def offset(self) -> int:
        return self._offset

    def append(self, body: bytes) -> int:
        row = (self._offset + 1, zlib.crc32(body), body)
        try:
            self._writer.execute("INSERT INTO log VALUES (?, ?, ?)", row)
        except (sqlite3.Error, OverflowError) as error:
            if self._writer.in_transaction:
                self._writer.rollback()
            raise StorageFailed(
                f"the log could not be written ({error}), nothing of it was counted"
            ) from error
        self._offset += 1
        return self._offset

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        with _plain_errors(self._path), closing(self._connect()) as reader:
            rows = reader.execute("SELECT * FROM log WHERE offset > ? ORDER BY offset", (after,))
            expected = after + 1
            while chunk := rows.fetchmany(_FETCH):
                for offset, crc, body in chunk:
                    if offset != expected or zlib.crc32(body) != crc:
                        raise LogDamaged(
                            f"entry {expected} of the log in {self._path} is damaged or missing"
                        )
                    expected += 1
                    yield offset, body

    def trim(self, until: int) -> None:
        oldest = min(until + 1, self._offset)
        self._writer.execute("DELETE FROM log WHERE offset < ?", (oldest,))

    def note(self, key: str) -> str | None:
        row = self._writer.execute("SELECT value FROM note WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_note(self, key: str, value: str) -> None:
        self._writer.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, value))

    def nbytes(self) -> int:
        folder, name = self._path.parent, self._path.name
        return sum(part.stat().st_size for part in folder.glob(f"{name}*"))

    def close(self) -> None:
        self._writer.close()


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StorageFailed(f"{path} could not be opened or read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LogDamaged(f"{path} is damaged ({error})") from error
