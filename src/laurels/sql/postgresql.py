"""A ledger in PostgreSQL. Rows are sent as arrays (`unnest`), which is the fastest way to insert or
update rows."""

import sys
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import Any, TypeVar

from laurels.errors.ledger import InvalidEntry
from laurels.errors.sinks import InvalidTarget

from .columns import LedgerEntries
from .dialects import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Row,
    driver,
    translated_errors,
    without_collation,
)

T = TypeVar("T")

SILENT_SECONDS = ANSWER_SECONDS + 10.0
"""The time without any byte from a server after which it counts as down. It is longer than the
timeout of statements, which a running server enforces itself."""
CHECK_SECONDS = 0.1
"""The time between two checks of a connection on which nothing happens."""


def _is_port(text: str) -> bool:
    return not text or (text.isdecimal() and text.isascii())


class PostgreSQL:
    """PostgreSQL, through psycopg 3."""

    name = "postgresql"
    key_name = key_text = 'text COLLATE "C"'
    long_text = "text"
    number = "numeric"
    table_end = ""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._driver = driver("psycopg")
        try:
            parameters = self._driver.conninfo.conninfo_to_dict(url)
        except self._driver.ProgrammingError:  # the message of the error may contain the password
            parameters = None
        # If a password has an unescaped '/', the text before the '/' is parsed as the port.
        if parameters is None or not all(map(_is_port, str(parameters.get("port", "")).split(","))):
            raise InvalidTarget(
                "expected postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters "
                "percent-encoded ('%' as %25)"
            )
        self._url = url
        self._options = options

    def quote(self, name: str) -> str:
        return f'"{name}"'

    def connect(self, *, create: bool = True, seconds: float = ANSWER_SECONDS) -> Any:
        options = {"connect_timeout": ceil(min(seconds, CONNECT_SECONDS)), **self._options}
        with self.errors():
            connection = self._connection_class().connect(self._url, **options)
            connection.execute(f"SET statement_timeout = '{ceil(1_000 * seconds)}ms'")
            connection.execute("SET client_min_messages = warning")
            connection.commit()
            return connection

    def abort(self, connection: Any) -> None:
        connection.is_aborted = True  # the thread that waits for the server checks this

    def _connection_class(self) -> Any:
        """Return a class of connections that raise an error if the server stops answering or the
        connection is aborted; the driver's own class would wait forever."""
        driver = self._driver

        def wait(
            connection: Any, steps: Any, interval: float = CHECK_SECONDS, **options: Any
        ) -> Any:
            checks = ceil(SILENT_SECONDS / interval)
            steps = _until_silent(steps, driver, connection, checks=checks)
            return driver.Connection.wait(connection, steps, interval, **options)

        members = {"wait": wait, "is_aborted": False}
        return type("Connection", (driver.Connection,), members)

    @contextmanager
    def schema_locked(self, connection: Any, prefix: str) -> Iterator[None]:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (prefix,))
        yield
        connection.commit()

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        return connection.execute(statement, row or None)

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        names = list(types)
        sets = ", ".join([f"{name} = excluded.{name}" for name in names[key:]])
        insert, values = _insert(table, types, rows)
        connection.execute(
            f"{insert} ON CONFLICT ({', '.join(names[:key])}) DO UPDATE SET {sets} "
            f"WHERE {table}.version <= excluded.version",
            values,
        )

    def insert(self, connection: Any, table: str, types: dict[str, str], rows: list[Row]) -> None:
        connection.execute(*_insert(table, types, rows))

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        arrays = ", ".join(["%s::text[]"] * len(columns))
        statement = (
            f"DELETE FROM {table} WHERE ({', '.join(columns)}) IN (SELECT * FROM unnest({arrays}))"
        )
        connection.execute(statement, [list(column) for column in zip(*rows, strict=True)])

    def begin_snapshot(self, connection: Any) -> None:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        with connection.cursor(name="laurels") as cursor:
            cursor.execute(statement, row)
            while rows := cursor.fetchmany(size):
                yield rows

    def entries(
        self, connection: Any, table: str, board: str, scales: Sequence[int], size: int
    ) -> Iterator[list[LedgerEntries]]:
        """Yield pages of entries. The database concatenates the members and the numbers of each
        ranking, so that this process gets whole columns instead of a tuple for each row. Each page
        has about `size` entries: all entries of the next members in the order of their ids."""
        select = _columns_of(table, scales)
        after, comparison = "", ">="
        while True:
            last_row = connection.execute(
                f"SELECT member FROM {table} WHERE board = %s AND member {comparison} %s "
                "ORDER BY board, member, window_name, period, scope OFFSET %s LIMIT 1",
                [board, after, size - 1],
            ).fetchone()
            until, upper_bound = (
                ([], "") if last_row is None else ([last_row[0]], " AND member <= %s")
            )
            rows = connection.execute(
                f"{select} WHERE board = %s AND member {comparison} %s{upper_bound} "
                "GROUP BY window_name, period, scope",
                [board, after, *until],
                binary=True,
            )
            yield [_entries(row, len(scales)) for row in rows]
            if last_row is None:
                return
            after, comparison = last_row[0], ">"

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else value

    def after_round_trip(self, value: Any) -> Any:
        return value

    def errors(self) -> Any:
        driver = self._driver
        temporary = (
            driver.OperationalError,
            driver.InterfaceError,
            # These occur after a failover, and if the server ends idle sessions.
            driver.errors.ReadOnlySqlTransaction,
            driver.errors.IdleInTransactionSessionTimeout,
        )
        return translated_errors(temporary, driver.Error)


def _insert(table: str, types: dict[str, str], rows: list[Row]) -> tuple[str, list[Any]]:
    """Return the statement that inserts rows, and its parameters. Many columns have the same value
    in all rows (the board, its window, columns that the board does not have). These values are sent
    once, which is 1.5 times as fast as sending all columns as arrays."""
    names = list(types)
    expressions: list[str] = []
    arrays: list[tuple[str, list[str | None]]] = []
    values: list[Any] = []
    for name, kind, column in zip(names, types.values(), zip(*rows, strict=True), strict=True):
        texts = [None if each is None else str(each) for each in column]
        if name != names[1] and len(set(texts)) == 1:
            expressions.append(f"%s::text::{without_collation(kind)}")
            values.append(texts[0])
        else:
            expressions.append(f"u.c{len(arrays)}")
            arrays.append((f"%s::text[]::{without_collation(kind)}[]", texts))
    columns = ", ".join([f"c{i}" for i in range(len(arrays))])
    unnested = ", ".join([array for array, _ in arrays])
    statement = (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(expressions)} "
        f"FROM unnest({unnested}) AS u({columns})"
    )
    return statement, [*values, *[texts for _, texts in arrays]]


def _until_silent(
    steps: Generator[Any, Any, T], driver: Any, connection: Any, *, checks: int
) -> Generator[Any, Any, T]:
    """Run `steps`, the generator of a driver's call. After each check of the connection the
    generator receives the operations for which the connection is ready, or 0 if there are none.
    Raises OperationalError after `checks` consecutive checks with 0, and if the connection is
    aborted."""
    idle = 0
    try:
        awaited = next(steps)
        while True:
            if connection.is_aborted:
                raise driver.OperationalError("the connection was aborted")
            ready = yield awaited
            idle = 0 if ready else idle + 1
            if idle >= checks:
                raise driver.OperationalError(
                    f"the server has not answered for {SILENT_SECONDS:g} s"
                )
            awaited = steps.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


def _columns_of(table: str, scales: Sequence[int]) -> str:
    """Return the statement that reads entries as columns, up to its WHERE."""
    units = [f"score_{i + 1} * {10**scale}" for i, scale in enumerate(scales)]
    columns = [
        "convert_to(member, 'UTF8')",
        "int2send(octet_length(convert_to(member, 'UTF8'))::smallint)",
        *[f"int8send(({each})::bigint)" for each in units],
        "int8send(reached_at)",
        "int8send(last_at)",
    ]
    joined = ", ".join([f"string_agg({column}, ''::bytea)" for column in columns])
    is_exact = " AND ".join([f"{each} = trunc({each})" for each in units])
    return (
        f"SELECT window_name, period, scope, count(*), coalesce(bool_and({is_exact}), false), "
        f"{joined} FROM {table}"
    )


def _entries(row: Row, columns: int) -> LedgerEntries:
    window, period, scope, count, is_exact, members, lengths, *numbers = row
    scores = [_numbers("q", each) for each in numbers[:columns]]
    if not is_exact or any(len(each) != count for each in scores):
        raise InvalidEntry(
            f"expected scores with the decimal places of their columns in {window} {period}, got "
            "NULL or a score with more places"
        )
    times = [_numbers("q", each) for each in numbers[columns:]]
    reached_ms, last_ms = [each if len(each) == count else None for each in times]
    name = (window, period, scope)
    return LedgerEntries(name, members, _numbers("h", lengths), scores, reached_ms, last_ms)


def _numbers(kind: str, sent: bytes | None) -> "array[int]":
    """Return the integers in concatenated big-endian form."""
    numbers = array(kind, sent or b"")
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
