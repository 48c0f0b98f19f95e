"""A small SQLite database beside the log, such as the audit log or the payouts."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from laurels.errors import FormatTooNew, StorageFailed

from .private_files import create_file


class Database:
    """A database in a file or, without a path, in memory. The file is created when it is opened,
    by the first call of `connection` or `transaction`. One thread at a time uses it.

    `schema` has the statements that create missing tables. With `synchronous="FULL"` a commit
    survives a power cut, with "NORMAL" only the kill of the process. `added` has, by table, the
    columns with their types that the file of an earlier version may lack.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Sequence[str],
        format: int,
        synchronous: Literal["FULL", "NORMAL"],
        added: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.path = path
        self._schema = schema
        self._format = format
        self._synchronous = synchronous
        self._added = added or {}
        self._opened: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Whether the database is open or its file exists."""
        return self._opened is not None or (self.path is not None and self.path.exists())

    @property
    def opened(self) -> sqlite3.Connection | None:
        """The connection, if the database is open."""
        return self._opened

    def connection(self) -> sqlite3.Connection:
        """Return the connection; open the database first if it is not open. Raises FormatTooNew."""
        if self._opened is None:
            if self.path is not None:
                os.close(create_file(self.path))
            connection = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._opened = connection
        return self._opened

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > self._format:
            raise FormatTooNew(
                f"{self.path} is in format {version}, this version reads {self._format}"
            )
        for table, columns in self._added.items():
            present = {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}
            for name in columns if present else ():
                if name not in present:
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {columns[name]}")
        for statement in self._schema:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={self._format}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction, and commit it at the end of the block. An error undoes it. Raises
        StorageFailed, FormatTooNew."""
        with self.plain_errors():
            connection = self.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.execute("COMMIT")

    @contextmanager
    def overwriting(self) -> Iterator[sqlite3.Connection]:
        """Begin a transaction like `transaction`. When the block has ended, replaced and deleted
        data is neither in the file nor in its write-ahead log. Raises StorageFailed, after the
        commit, if another program that reads the file prevents this; then call it again."""
        with self.plain_errors():
            self.connection().execute("PRAGMA secure_delete = ON")
        with self.transaction() as connection:
            yield connection
        with self.plain_errors():
            [(busy, *_)] = self.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if busy:
            raise StorageFailed(
                f"{self.path} still has what was erased, since another program is reading it"
            )

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Raise StorageFailed for an error of SQLite, of the file, or of stored bytes."""
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, msgspec.MsgspecError) as error:
            where = self.path or "a database in memory"
            raise StorageFailed(f"{where} could not be read or written: {error}") from error

    def close(self) -> None:
        """Close the database. A second call does nothing."""
        if self._opened is not None:
            self._opened.close()
