"""The embedded log: one SQLite file, one row per commit.

In WAL mode with `synchronous=FULL` the commit of a row returns when the row is on the disk, so an
acknowledged commit survives a kill and a power cut. Each row has a CRC-32 of its body, and offsets
are consecutive. So damage is detected, and its error names the entry. The writer's connection is
used by one thread at a time; each reader opens a connection of its own.

If the end of SQLite's write-ahead file is damaged, SQLite treats it as an unfinished transaction
and discards it. So the newest offset is also stored in a separate file, the mark (`mark`).
"""

import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from laurels.errors import FolderMissing, FormatTooNew, LogDamaged, StorageFailed
from laurels.stores.local.files.private_files import create_file

from .base import ERASED_UNTIL
from .mark import Mark

FORMAT = 1
MARK_NAME = "log.mark"
_FETCH = 64
_CHECKPOINT_BYTES = 16 << 20
_CHECKPOINT_PAGES = 16_384
"""The size of the write-ahead file, in pages, at which SQLite checkpoints it in a commit: 64
MiB."""
_PAGE = 4_096
_TRIM_BYTES = 1 << 20
_TRIM_ROWS = 256
_SCHEMA = """
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE log (offset INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
"""


class SqliteLog:
    """Implementation of `Log` in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _plain_errors(path):
            os.close(create_file(path))
            self._writer = self._connect()
            try:
                self._prepare()
                self._find_ends()
                self._checkpoint = _Checkpoint(self._writer, self._connect)
                self._mark = Mark(path.with_name(MARK_NAME), path, self._offset)
            except BaseException:
                self._writer.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
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

    def _find_ends(self) -> None:
        """Read the oldest and the newest offset, and cache them. So `first` and `offset` never wait
        for a write in progress."""
        row = self._writer.execute("SELECT min(offset), max(offset) FROM log").fetchone()
        self._first, self._offset = (1, 0) if row[0] is None else (int(row[0]), int(row[1]))

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def first(self) -> int:
        return self._first

    @property
    def doubt(self) -> str | None:
        return self._mark.doubt

    def append(self, body: bytes) -> int:
        row = (self._offset + 1, zlib.crc32(body), body)
        try:
            self._writer.execute("INSERT INTO log VALUES (?, ?, ?)", row)
        except (sqlite3.Error, OverflowError) as error:
            if self._writer.in_transaction:
                self._writer.rollback()
            raise StorageFailed(
                f"the log could not be written ({error}), so nothing was counted"
            ) from error
        self._offset += 1
        self._mark.set(self._offset)
        self._checkpoint.written(len(body))
        return self._offset

    def read(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        with _plain_errors(self._path), closing(self._connect()) as reader:
            rows = reader.execute("SELECT * FROM log WHERE offset > ? ORDER BY offset", (after,))
            yield from _whole(rows, after + 1, self._path)

    def trim(self, until: int) -> bool:
        until = min(until, self._offset - 1)
        oldest = self._writer.execute(
            "SELECT offset, length(body) FROM log WHERE offset <= ? ORDER BY offset LIMIT ?",
            (until, _TRIM_ROWS),
        )
        last, nbytes = 0, 0
        for offset, length in oldest.fetchall():
            last, nbytes = offset, nbytes + length
            if nbytes >= _TRIM_BYTES:
                break
        erased_until = int(self.note(ERASED_UNTIL) or 0)
        names_erased = self._first <= erased_until
        try:
            self._writer.execute(f"PRAGMA secure_delete = {int(names_erased)}")
            self._writer.execute("DELETE FROM log WHERE offset <= ?", (last,))
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.rollback()
            raise StorageFailed(f"the log could not be trimmed ({error})") from error
        self._first = max(self._first, last + 1)
        if names_erased and self._first > erased_until:
            # empty the write-ahead file as well, unless another program reads the log
            with suppress(sqlite3.Error):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return 0 < last < until

    def rewrite(self, change: Callable[[bytes], bytes | None], *, dry_run: bool) -> int:
        count = 0
        with _plain_errors(self._path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for offset, body in self.read(self._first - 1):
                    if (changed := change(body)) is not None:
                        count += 1
                        row = (zlib.crc32(changed), changed, offset)
                        if not dry_run:
                            self._writer.execute(
                                "UPDATE log SET crc = ?, body = ? WHERE offset = ?", row
                            )
                self._writer.execute("COMMIT")
            finally:
                if self._writer.in_transaction:
                    self._writer.rollback()
        return count

    def note(self, key: str) -> str | None:
        with _plain_errors(self._path):
            row = self._writer.execute("SELECT value FROM note WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_note(self, key: str, value: str) -> None:
        with _plain_errors(self._path):
            try:
                self._writer.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, value))
            except sqlite3.Error:
                if self._writer.in_transaction:
                    self._writer.rollback()
                raise

    def fill(self, notes: dict[str, str], entries: Iterable[tuple[int, bytes]]) -> None:
        """Write notes and entries, with their offsets, to an empty log."""
        rows = ((offset, zlib.crc32(body), body) for offset, body in entries)
        with _plain_errors(self._path):
            self._writer.execute("BEGIN")
            self._writer.executemany("INSERT OR REPLACE INTO note VALUES (?, ?)", notes.items())
            self._writer.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
            self._writer.execute("COMMIT")
        self._find_ends()
        self._mark.set(self._offset)

    def nbytes(self) -> int:
        folder, name = self._path.parent, self._path.name
        return sum(part.stat().st_size for part in folder.glob(f"{name}*"))

    def close(self) -> None:
        self._checkpoint.wait()
        self._writer.close()
        self._mark.close()


class LogView:
    """One consistent state of a log. Another process may write to the log meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _plain_errors(path):
            if not path.is_file():
                raise FolderMissing(f"there is no log at {path}")
            self._reader = sqlite3.connect(path, isolation_level=None)
            self._reader.execute("BEGIN")
            row = self._reader.execute("SELECT min(offset), max(offset) FROM log").fetchone()
            self.first, self.last = (int(row[0]), int(row[1])) if row[0] is not None else (1, 0)

    def notes(self) -> dict[str, str]:
        with _plain_errors(self._path):
            rows = self._reader.execute("SELECT key, value FROM note").fetchall()
        return {str(key): str(value) for key, value in rows}

    def entries(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Yield the entries from an offset on. Raises LogDamaged at the first damaged entry."""
        with _plain_errors(self._path):
            rows = self._reader.execute(
                "SELECT * FROM log WHERE offset >= ? ORDER BY offset", (start,)
            )
            yield from _whole(rows, max(start, self.first), self._path)

    def close(self) -> None:
        self._reader.close()


def write_log(path: Path, notes: dict[str, str], entries: Iterable[tuple[int, bytes]]) -> None:
    """Write a log with all its entries in one commit. Raises StorageFailed."""
    log = SqliteLog(path)
    try:
        log.fill(notes, entries)
    finally:
        log.close()


class _Checkpoint:
    """Copies SQLite's write-ahead file into the database from time to time. Durability does not
    depend on these copies, so a failed attempt is ignored, and repeated later."""

    def __init__(
        self, writer: sqlite3.Connection, connect: Callable[[], sqlite3.Connection]
    ) -> None:
        self._writer = writer
        self._connect = connect
        self._since = 0
        self._thread: threading.Thread | None = None

    def written(self, nbytes: int) -> None:
        """Add the size of a commit. Start copying if enough bytes were committed. Called by the
        writer."""
        self._since += nbytes + _PAGE
        if self._thread is None:
            if self._since >= _CHECKPOINT_BYTES:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
        elif not self._thread.is_alive():
            self._thread, self._since = None, 0
            with suppress(sqlite3.Error):
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with suppress(sqlite3.Error, StorageFailed), closing(self._connect()) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _whole(rows: sqlite3.Cursor, expected: int, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the entry of each row. Raise LogDamaged if an entry is damaged or missing."""
    while chunk := rows.fetchmany(_FETCH):
        for offset, crc, body in chunk:
            if offset != expected or zlib.crc32(body) != crc:
                raise LogDamaged(f"entry {expected} of the log in {path} is damaged or missing")
            expected += 1
            yield offset, body


@contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        raise StorageFailed(f"{path} could not be read or written: {error}") from error
    except sqlite3.DatabaseError as error:
        if _is_sound(path):
            raise StorageFailed(f"{path} could not be read: {error}") from error
        raise LogDamaged(f"{path} is damaged ({error})") from error


def _is_sound(path: Path) -> bool:
    """Return whether SQLite finds no damage when it reads a file again. This is needed because
    SQLite also reports a failed read of the disk as damage."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
            return reader.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False
