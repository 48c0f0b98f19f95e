"""What the SQL databases of ledgers say differently."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable

from .columns import LedgerEntries, gathered
from .rows import COLUMNS

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
"""A statement that a server has not answered by then has failed."""

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
    """An SQL database. `execute` takes `%s` for its parameters, whatever the driver takes."""

    name: str
    key_name: str
    """The type of a name of up to 64 ASCII characters in a key."""
    key_text: str
    """The type of a text of up to 300 characters in a key."""
    long_text: str
    number: str
    """The type of an exact number."""
    table_end: str
    """What stands behind the columns of a table."""

    def quoted(self, name: str) -> str:
        """Return a name as a statement has it, whatever its case and characters."""

    def connect(self, *, create: bool = True) -> Any:
        """Return a connection that commits only when it is told to. A database that is a file is
        made when it is not there; without `create` that raises NoLedger. Raises
        TargetUnavailable."""

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
        """Begin a transaction whose reads all show the same state."""

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
        """Return a number as it was written: an int, or a Decimal with the places of its column."""

    def kept(self, value: Any) -> Any:
        """Return a number as it is when it comes back, where the database cannot keep it
        exactly."""

    def errors(self) -> Any:
        """Return a context in which the driver's errors are raised as those of laurels."""


def driver(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDriver(f"{name} is not installed") from error


@contextmanager
def named_errors(passing: tuple[type[Exception], ...], final: type[Exception]) -> Iterator[None]:
    """Raise TargetUnavailable for a driver's errors that may pass, TargetRefused for others."""
    try:
        yield
    except passing as error:
        raise TargetUnavailable(f"the database failed: {_message_of(error)}") from error
    except final as error:
        raise TargetRefused(f"the database refused: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def bare(kind: str) -> str:
    """Return a type without its collation."""
    return kind.split(" ", maxsplit=1)[0]


def entries_by_row(
    dialect: Dialect, connection: Any, table: str, board: str, scales: Sequence[int], size: int
) -> Iterator[list[LedgerEntries]]:
    """Yield the entries of a board from a database that answers with rows."""
    statement = f"SELECT {ENTRY} FROM {table} WHERE board = %s"
    for rows in dialect.stream(connection, statement, (board,), size):
        yield gathered(rows, scales, dialect.score)
