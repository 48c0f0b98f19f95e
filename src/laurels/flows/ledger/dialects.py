"""The differences between the SQL databases that ledgers can be in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable

from .columns import LedgerEntries, gathered
from .rows import COLUMNS

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
"""The time after which an unanswered statement counts as failed."""

Row = tuple[Any, ...]
ENTRY = ", ".join(
    [
        "member, window_name, period, scope",
        *[f"score_{i + 1}" for i in range(COLUMNS)],
        "reached_at, last_at",
    ]
)
"""The columns of the table `scores` that an entry is read from."""


class Dialect(Protocol):
    """An SQL database. `execute` takes `%s` for parameters, whatever placeholder the driver
    uses."""

    name: str
    key_name: str
    """The type of a name of up to 64 ASCII characters in a key."""
    key_text: str
    """The type of a text of up to 300 characters in a key."""
    long_text: str
    number: str
    """The type of an exact number."""
    table_end: str
    """The text after the columns in CREATE TABLE."""

    def quoted(self, name: str) -> str:
        """Return a name quoted for a statement, whatever its case and characters."""

    def connect(self, *, create: bool = True) -> Any:
        """Return a connection that commits only explicitly. A database in a file is created if it
        does not exist; without `create` that raises NoLedger. Raises TargetUnavailable."""

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        """Carry out a statement and return its cursor."""

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        """Write rows whose columns, by name and type, end in `version`; the first `key` columns are
        the key. A row of a higher version stays as it is."""

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        """Delete the rows with these values in these columns."""

    def begin_snapshot(self, connection: Any) -> None:
        """Begin a transaction in which all reads see the same state."""

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        """Yield the rows of a query, about `size` at a time, without reading all of them first. No
        other statement may run meanwhile."""

    def entries(
        self, connection: Any, table: str, board: str, scales: Sequence[int], size: int
    ) -> Iterator[list[LedgerEntries]]:
        """Yield the entries of a board in columns, about `size` at a time. `scales` are those of
        its columns. Raises InvalidEntry."""

    def score(self, value: Any, scale: int) -> Any:
        """Return a number in its written form: an int, or a Decimal with the places of its
        column."""

    def kept(self, value: Any) -> Any:
        """Return the value that a number has after a round trip through the database, which may not
        store it exactly."""

    def errors(self) -> Any:
        """Return a context in which the driver's errors are raised as those of laurels."""


def driver(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDriver(f"{name} is not installed") from error


@contextmanager
def named_errors(passing: tuple[type[Exception], ...], final: type[Exception]) -> Iterator[None]:
    """Raise TargetUnavailable for errors of a driver that may be temporary, TargetRefused for
    others."""
    try:
        yield
    except passing as error:
        raise TargetUnavailable(f"the database failed: {_message_of(error)}") from error
    except final as error:
        raise TargetRefused(f"the database refused: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def bare(kind: str) -> str:
    """Return an SQL type without its collation."""
    return kind.split(" ", maxsplit=1)[0]


def entries_by_row(
    dialect: Dialect, connection: Any, table: str, board: str, scales: Sequence[int], size: int
) -> Iterator[list[LedgerEntries]]:
    """Yield the entries of a board from a database that returns rows."""
    statement = f"SELECT {ENTRY} FROM {table} WHERE board = %s"
    for rows in dialect.stream(connection, statement, (board,), size):
        yield gathered(rows, scales, dialect.score)
