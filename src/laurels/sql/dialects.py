"""The differences between the SQL databases that ledgers can be in."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Protocol

from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable

from .columns import LedgerEntries, entries_by_ranking
from .texts import COLUMNS

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
"""The time after which a statement without an answer fails."""

Row = tuple[Any, ...]
ENTRY = ", ".join(
    [
        "member, window_name, period, scope",
        *[f"score_{i + 1}" for i in range(COLUMNS)],
        "reached_at, last_at",
    ]
)
"""The columns of the table `scores` that are read for an entry."""


class Dialect(Protocol):
    """The operations that differ between the kinds of SQL databases. Statements have `%s` for each
    parameter, whatever placeholder the driver uses."""

    name: str
    key_name: str
    """The type of a column of a key that has names of up to 64 ASCII characters."""
    key_text: str
    """The type of a column of a key that has texts of up to 300 characters."""
    long_text: str
    number: str
    """The type of an exact number."""
    table_end: str
    """The options after the columns in CREATE TABLE."""

    def quote(self, name: str) -> str:
        """Return a name as a quoted identifier, which may have any case and characters."""

    def connect(self, *, create: bool = True, seconds: float = ANSWER_SECONDS) -> Any:
        """Return a connection that commits only on request. If the database is a file that does not
        exist, it is created with `create`; otherwise NoLedger is raised. A statement fails if it
        gets no answer within `seconds`. Raises TargetUnavailable."""

    def abort(self, connection: Any) -> None:
        """Let the statement fail that another thread is running over a connection, and all later
        statements over it. After that the connection can only be closed. Does not block."""

    def schema_locked(self, connection: Any, prefix: str) -> AbstractContextManager[None]:
        """Return a context manager. Within its block no other caller with this prefix makes tables,
        and at the end of the block the transaction is committed. Only needed if the database
        refuses to create a table or a view that another transaction is creating."""

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        """Carry out a statement and return its cursor."""

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        """Insert rows. A row that exists is updated, unless it has a higher version than the given
        row. `types` has the type of each column by name. The first `key` columns are the key, and
        the last column is `version`."""

    def insert(self, connection: Any, table: str, types: dict[str, str], rows: list[Row]) -> None:
        """Insert rows that do not exist yet. `types` has the type of each column by name."""

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        """Delete the rows that have one of the given combinations of values in these columns."""

    def begin_snapshot(self, connection: Any) -> None:
        """Begin a transaction in which all reads see the same state."""

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        """Yield the rows of a query, about `size` at a time, without loading all of them first. No
        other statement may run meanwhile."""

    def entries(
        self, connection: Any, table: str, board: str, scales: Sequence[int], size: int
    ) -> Iterator[list[LedgerEntries]]:
        """Yield the entries of a board in columns, about `size` at a time. `scales` has the scale
        of each column. Raises InvalidEntry."""

    def score(self, value: Any, scale: int) -> Any:
        """Return a number from the database as an int, or as a Decimal with `scale` places."""

    def after_round_trip(self, value: Any) -> Any:
        """Return the value that a number has after it was stored and read again, since the database
        may store it only approximately."""

    def errors(self) -> Any:
        """Return a context manager that translates errors of the driver into errors of laurels."""


def driver(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDriver(f"{name} is not installed") from error


@contextmanager
def translated_errors(
    temporary: tuple[type[Exception], ...], permanent: type[Exception]
) -> Iterator[None]:
    """Translate errors of a driver: those that may be temporary into TargetUnavailable, all others
    into TargetRefused."""
    try:
        yield
    except temporary as error:
        raise TargetUnavailable(f"the database failed: {_message_of(error)}") from error
    except permanent as error:
        raise TargetRefused(f"the database refused: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def without_collation(kind: str) -> str:
    """Return an SQL type without its collation."""
    return kind.split(" ", maxsplit=1)[0]


def entries_by_row(
    dialect: Dialect, connection: Any, table: str, board: str, scales: Sequence[int], size: int
) -> Iterator[list[LedgerEntries]]:
    """Implementation of `Dialect.entries` for a database that cannot return whole columns."""
    statement = f"SELECT {ENTRY} FROM {table} WHERE board = %s"
    for rows in dialect.stream(connection, statement, (board,), size):
        yield entries_by_ranking(rows, scales, dialect.score)
