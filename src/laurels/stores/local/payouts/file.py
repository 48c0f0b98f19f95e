"""The database of payouts, in a form that several threads may use."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from threading import RLock
from typing import Any

from laurels.errors.payouts import PayoutsMissing
from laurels.stores.local.files.database import Database

NAME = "payouts.db"
FORMAT = 1


class PayoutFile:
    """The database of payouts, in a file or in memory. `added` has, by table, the columns that the
    file of an earlier version may lack. The methods raise StorageFailed, FormatTooNew."""

    def __init__(
        self,
        folder: Path | None,
        schema: Sequence[str],
        added: Mapping[str, Mapping[str, str]],
    ) -> None:
        path = None if folder is None else folder / NAME
        self._database = Database(path, schema, FORMAT, "NORMAL", added)
        self._lock = RLock()
        self.is_expected = False
        """Whether the file must exist, since payouts were made."""

    @property
    def exists(self) -> bool:
        """Whether the database exists."""
        return self._database.exists

    def rows(self, statement: str, arguments: Any = ()) -> list[Any]:
        """Return the rows of a query; none if there is no database. Raises PayoutsMissing."""
        with self._lock, self._database.plain_errors():
            if not self._database.exists:
                self.ensure_not_missing()
                return []
            return self._database.connection().execute(statement, arguments).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Enter a transaction, which is committed at the end or, after an error, rolled back.
        Raises PayoutsMissing."""
        self.ensure_not_missing()
        with self._lock, self._database.transaction() as connection:
            yield connection

    @property
    def is_missing(self) -> bool:
        """Whether payouts were made and their file is gone."""
        return self.is_expected and not self._database.exists

    def ensure_not_missing(self) -> None:
        """Raise PayoutsMissing if payouts were made and their file is gone."""
        if self.is_missing:
            raise PayoutsMissing(f"{self._database.path} is missing, although payouts were made")

    @contextmanager
    def overwriting(self) -> Iterator[Connection]:
        """Enter a transaction that overwrites replaced data; see `Database.overwriting`."""
        with self._lock, self._database.overwriting() as connection:
            yield connection

    def flush(self) -> None:
        """Sync all writes to the disk. Until then a power cut may undo them."""
        with self._lock, self._database.plain_errors():
            if self._database.path is not None and (opened := self._database.opened) is not None:
                opened.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
