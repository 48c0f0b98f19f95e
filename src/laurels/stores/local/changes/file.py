"""The file of kept changes: a SQLite database beside the log, with rows of some hundred blocks.

Rows are written after the commits, in a separate thread. Blocks that a killed process has not
written are made again from the log. This is always possible, since a snapshot becomes valid only
when the file has all changes up to it.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from laurels.core.changes.blocks import Block, decode_blocks, encode_blocks
from laurels.core.changes.cursor import BlockPlace
from laurels.errors import FormatTooNew, LogDamaged, StorageFailed
from laurels.stores.local.files.private_files import create_file

from .base import RowOfBoard, StoredRow

FORMAT = 1
_CHECKPOINT_PAGES = 16_384
"""The size of the write-ahead file, in pages, at which SQLite checkpoints it: 64 MiB."""
_SCHEMA = """
CREATE TABLE format (format INTEGER NOT NULL);
CREATE TABLE floor (
    board INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, tag INTEGER NOT NULL
);
CREATE TABLE blocks (
    board INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, tag INTEGER NOT NULL,
    count INTEGER NOT NULL, at_ms INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (board, first)
) WITHOUT ROWID;
"""


class ChangeFile:
    """Implementation of `ChangeRows`. The file is created by the first write, since most stores
    have no board that keeps changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        return self._opened is not None or self._path.exists()

    @property
    def _writer(self) -> sqlite3.Connection:
        if self._opened is None:
            with self._plain_errors():
                os.close(create_file(self._path))
                writer = self._connect()
                try:
                    self._prepare(writer)
                except BaseException:
                    writer.close()
                    raise
                self._opened = writer
        return self._opened

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous=NORMAL")
        # Changes name members, which may be erased later, so deleted rows must not stay in free
        # pages.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        return connection

    def _prepare(self, writer: sqlite3.Connection) -> None:
        if not writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.executescript(f"BEGIN; {_SCHEMA} INSERT INTO format VALUES ({FORMAT}); COMMIT;")
        (format,) = writer.execute("SELECT format FROM format").fetchone()
        if format > FORMAT:
            raise FormatTooNew(f"{self._path} has format {format}, this version reads {FORMAT}")

    def floors(self) -> dict[int, BlockPlace]:
        if not self.exists:
            return {}
        with self._plain_errors():
            rows = self._writer.execute("SELECT board, sequence, tag FROM floor").fetchall()
        return {board: BlockPlace(sequence, tag) for board, sequence, tag in rows}

    def rows(self, board: int) -> list[StoredRow]:
        with self._plain_errors():
            rows = self._writer.execute(
                "SELECT first, last, tag, count, at_ms FROM blocks WHERE board = ? ORDER BY first",
                (board,),
            ).fetchall()
        return [StoredRow(*row) for row in rows]

    def read(self, board: int, first: int) -> Iterator[list[Block]]:
        with self._plain_errors(), closing(self._connect()) as reader:
            rows = reader.execute(
                "SELECT body FROM blocks WHERE board = ? AND last >= ? ORDER BY first",
                (board, first),
            )
            for (body,) in rows:
                yield decode_blocks(body)

    def write(
        self,
        rows: Iterable[RowOfBoard],
        floors: Iterable[tuple[int, BlockPlace]],
        *,
        durable: bool = False,
    ) -> None:
        try:
            self._writer.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._writer.execute("BEGIN IMMEDIATE")
            if durable:  # SQLite would not sync a commit that changes nothing
                self._writer.execute("UPDATE format SET format = format")
            self._writer.executemany(
                "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (board, row.first, row.last, row.tag, row.count, row.at_ms, encode_blocks(some))
                    for board, row, some in rows
                ),
            )
            for board, floor in floors:
                self._writer.execute(
                    "DELETE FROM blocks WHERE board = ? AND last <= ?", (board, floor.sequence)
                )
                self._writer.execute(
                    "INSERT OR REPLACE INTO floor VALUES (?, ?, ?)",
                    (board, floor.sequence, floor.tag),
                )
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            if self._writer.in_transaction:
                self._writer.rollback()
            raise StorageFailed(f"changes could not be written ({error})") from error

    def forget(self, board: int) -> None:
        if not self.exists:
            return
        with self._plain_errors():
            self._writer.execute("DELETE FROM blocks WHERE board = ?", (board,))
            self._writer.execute("DELETE FROM floor WHERE board = ?", (board,))

    def boards(self) -> list[int]:
        if not self.exists:
            return []
        with self._plain_errors():
            rows = self._writer.execute("SELECT board FROM blocks UNION SELECT board FROM floor")
            return [board for (board,) in rows.fetchall()]

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Translate errors of SQLite, raised in this context, into errors of laurels."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise StorageFailed(f"{self._path} cannot be used ({error})") from error
            raise LogDamaged(f"{self._path} is damaged ({error})") from error
