"""The SQL databases a ledger can be in: how they connect, and what they say differently.

PostgreSQL takes rows as arrays (`unnest`), MariaDB and MySQL as JSON, SQLite one
by one: the fastest each has for rows that may be there already.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import InvalidTarget, MissingDriver, TargetRefused, TargetUnavailable

CONNECT_SECONDS = 10
ANSWER_SECONDS = 60
"""A statement that a server has not answered by then has failed."""

Row = tuple[Any, ...]


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

    def score(self, value: Any, scale: int) -> Any:
        """Return a number as it was written: an int, or a Decimal with the places of its column."""

    def kept(self, value: Any) -> Any:
        """Return a number as it is when it comes back, where the database cannot keep it
        exactly."""

    def errors(self) -> Any:
        """Return a context in which the driver's errors are raised as those of laurels."""


def dialect_of(url: str) -> tuple[Dialect, str]:
    """Return the database that a URL names, and the prefix of its tables. Raises InvalidTarget,
    MissingDriver."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", "laurels_")
    if not prefix.isascii() or not prefix.isidentifier() or len(prefix) > 32:
        raise InvalidTarget("expected letters, digits and _ for ?prefix=, up to 32")
    if parts.scheme in ("postgresql", "postgres"):
        return PostgreSQL(parts._replace(query="", fragment="").geturl(), options), prefix
    if parts.scheme in ("mysql", "mariadb"):
        return MariaDB(url, options), prefix
    if parts.scheme == "sqlite":
        path = unquote(parts.path)[1:]
        if parts.netloc or not path or options:
            raise InvalidTarget("expected sqlite:///FILE, or sqlite:////FILE from the root")
        return SQLite(Path(path)), prefix
    raise InvalidTarget(f"there is no ledger in {parts.scheme or 'a database without a scheme'}")


_json = msgspec.json.Encoder()


def _driver(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise MissingDriver(f"{name} is not installed") from error


@contextmanager
def _named_errors(passing: tuple[type[Exception], ...], final: type[Exception]) -> Iterator[None]:
    """Raise TargetUnavailable for a driver's errors that may pass, TargetRefused for others."""
    try:
        yield
    except passing as error:
        raise TargetUnavailable(f"the database failed: {_message_of(error)}") from error
    except final as error:
        raise TargetRefused(f"the database refused: {_message_of(error)}") from error


def _message_of(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


class PostgreSQL:
    """PostgreSQL, by psycopg 3."""

    name = "postgresql"
    key_name = key_text = 'text COLLATE "C"'
    long_text = "text"
    number = "numeric"
    table_end = ""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._driver = _driver("psycopg")
        self._url = url
        self._options = options

    def connect(self, *, create: bool = True) -> Any:
        options = {"connect_timeout": CONNECT_SECONDS, **self._options}
        with self.errors():
            connection = self._driver.connect(self._url, **options)
            connection.execute(f"SET statement_timeout = '{ANSWER_SECONDS}s'")
            connection.execute("SET client_min_messages = warning")
            connection.commit()
            return connection

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        return connection.execute(statement, row or None)

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        """Most columns have one value in all rows (the board, its window, columns that it does not
        have): those are sent once, which is half as fast again as sending all as arrays."""
        names = list(types)
        chosen: list[str] = []
        arrays: list[tuple[str, list[str | None]]] = []
        values: list[str | None] = []
        for name, kind, column in zip(names, types.values(), zip(*rows, strict=True), strict=True):
            texts = [None if each is None else str(each) for each in column]
            if name != names[1] and len(set(texts)) == 1:
                chosen.append(f"%s::text::{_bare(kind)}")
                values.append(texts[0])
            else:
                chosen.append(f"u.c{len(arrays)}")
                arrays.append((f"%s::text[]::{_bare(kind)}[]", texts))
        columns = ", ".join([f"c{i}" for i in range(len(arrays))])
        unnested = ", ".join([array for array, _ in arrays])
        sets = ", ".join([f"{name} = excluded.{name}" for name in names[key:]])
        statement = (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(chosen)} "
            f"FROM unnest({unnested}) AS u({columns}) "
            f"ON CONFLICT ({', '.join(names[:key])}) DO UPDATE SET {sets} "
            f"WHERE {table}.version <= excluded.version"
        )
        connection.execute(statement, [*values, *[texts for _, texts in arrays]])

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
            while found := cursor.fetchmany(size):
                yield found

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else value

    def kept(self, value: Any) -> Any:
        return value

    def errors(self) -> Any:
        passing = (self._driver.OperationalError, self._driver.InterfaceError)
        return _named_errors(passing, self._driver.Error)


def _bare(kind: str) -> str:
    """Return a type without its collation."""
    return kind.split(" ", maxsplit=1)[0]


def _of_json(kind: str) -> str:
    """Return a type as a column of JSON_TABLE has it: texts in the character set of JSON, whatever
    that of the database is."""
    bare = _bare(kind)
    return f"{bare} CHARACTER SET utf8mb4" if bare in ("varchar(300)", "longtext") else bare


class MariaDB:
    """MariaDB and MySQL, by PyMySQL."""

    name = "mariadb"
    key_name = "varchar(64) CHARACTER SET ascii COLLATE ascii_bin"
    key_text = "varchar(300)"
    long_text = "longtext"
    number = "decimal(38,15)"
    table_end = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin ENGINE=InnoDB"

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._driver = _driver("pymysql")
        parts = urlsplit(url)
        try:
            port = parts.port or 3306
        except ValueError:
            raise InvalidTarget("expected mysql://USER:PASSWORD@HOST:PORT/DATABASE") from None
        if not parts.path.strip("/"):
            raise InvalidTarget("expected mysql://USER:PASSWORD@HOST:PORT/DATABASE, without a name")
        self._place: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": port,
            "user": unquote(parts.username or "root"),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path[1:]),
        }
        if "socket" in options:
            self._place["unix_socket"] = options.pop("socket")
        if "ssl_ca" in options:
            self._place["ssl_ca"] = options.pop("ssl_ca")
        if options:
            raise InvalidTarget(f"expected ?prefix=, socket= or ssl_ca=, got {sorted(options)[0]}")

    def connect(self, *, create: bool = True) -> Any:
        with self.errors():
            connection = self._driver.connect(
                **self._place,
                charset="utf8mb4",
                connect_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                write_timeout=ANSWER_SECONDS,
                client_flag=self._driver.constants.CLIENT.FOUND_ROWS,
            )
            self.execute(connection, "SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
            return connection

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        cursor = connection.cursor()
        cursor.execute(statement, tuple(row) or None)
        return cursor

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        """The rows come as one document of JSON, several times as fast as a statement of many rows;
        columns of one value in all rows are sent once."""
        names = list(types)
        chosen: list[str] = []
        fields: list[str] = []
        values: list[Any] = []
        columns: list[Sequence[Any]] = []
        for name, kind, column in zip(names, types.values(), zip(*rows, strict=True), strict=True):
            if name != names[1] and len(set(column)) == 1:
                chosen.append("%s")
                values.append(column[0])
                continue
            number = len(columns)
            chosen.append(f"u.c{number}")
            fields.append(f"c{number} {_of_json(kind)} PATH '$[{number}]' ERROR ON ERROR")
            columns.append(column)
        newer = f"VALUES(version) >= {table}.version"
        sets = ", ".join(
            [f"{name} = IF({newer}, VALUES({name}), {table}.{name})" for name in names[key:]]
        )
        document = _json.encode(list(zip(*columns, strict=True))).decode()
        self.execute(
            connection,
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(chosen)} "
            f"FROM JSON_TABLE(%s, '$[*]' COLUMNS ({', '.join(fields)})) AS u "
            f"ON DUPLICATE KEY UPDATE {sets}",
            [*values, document],
        )

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        one = f"({', '.join(['%s'] * len(columns))})"
        for start in range(0, len(rows), 500):
            some = rows[start : start + 500]
            places = ", ".join([one] * len(some))
            statement = f"DELETE FROM {table} WHERE ({', '.join(columns)}) IN ({places})"
            self.execute(connection, statement, [value for row in some for value in row])

    def begin_snapshot(self, connection: Any) -> None:
        self.execute(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        with connection.cursor(self._driver.cursors.SSCursor) as cursor:
            cursor.execute(statement, tuple(row))
            while found := cursor.fetchmany(size):
                yield list(found)

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else round(value, scale)

    def kept(self, value: Any) -> Any:
        return value

    def errors(self) -> Any:
        passing = (
            self._driver.OperationalError,
            self._driver.InterfaceError,
            self._driver.InternalError,
        )
        return _named_errors(passing, self._driver.Error)


class SQLite:
    """SQLite, by the module of the standard library. Decimals are kept as 8-byte floating point:
    exact up to 15 digits."""

    name = "sqlite"
    key_name = key_text = "text"
    long_text = "text"
    number = "numeric"
    table_end = "WITHOUT ROWID"

    def __init__(self, path: Path) -> None:
        self._path = path

    def connect(self, *, create: bool = True) -> Any:
        with self.errors():
            if not create and not self._path.exists():
                raise NoLedger(f"there is no file {self._path}")
            url = f"{self._path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            connection = sqlite3.connect(url, timeout=10.0, check_same_thread=False, uri=True)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return connection

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        return connection.execute(statement.replace("%s", "?"), _plain(row))

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        names = list(types)
        sets = ", ".join([f"{name} = excluded.{name}" for name in names[key:]])
        connection.executemany(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
            f"ON CONFLICT ({', '.join(names[:key])}) DO UPDATE SET {sets} "
            f"WHERE version <= excluded.version",
            map(_plain, rows),
        )

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        where = " AND ".join([f"{column} = ?" for column in columns])
        connection.executemany(f"DELETE FROM {table} WHERE {where}", rows)

    def begin_snapshot(self, connection: Any) -> None:
        connection.execute("BEGIN")

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        cursor = self.execute(connection, statement, row)
        while found := cursor.fetchmany(size):
            yield found

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else Decimal(f"{value:.{scale}f}")

    def kept(self, value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        return self.score(float(value), -int(value.as_tuple().exponent))

    def errors(self) -> Any:
        return _named_errors((sqlite3.OperationalError,), sqlite3.Error)


def _plain(row: Sequence[Any]) -> Row:
    """Return a row with decimals as SQLite takes them."""
    return tuple(
        [each if each is None or isinstance(each, (int, str)) else float(each) for each in row]
    )
