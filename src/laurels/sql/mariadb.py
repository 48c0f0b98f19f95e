"""A ledger in MariaDB or MySQL. Rows are sent as JSON, the fastest way to insert or update rows."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from laurels.errors.sinks import InvalidTarget, TargetUnavailable

from .columns import LedgerEntries
from .dialects import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    Row,
    driver,
    entries_by_row,
    translated_errors,
    without_collation,
)

_json = msgspec.json.Encoder()
_RESERVED_BYTES = 1 << 16
_LOCK_SECONDS = 10
_LOCK_NAME = 64
"""The part of a packet that is reserved for the statement itself, without the JSON of its rows."""


class MariaDB:
    """MariaDB and MySQL, through PyMySQL."""

    name = "mariadb"
    key_name = "varchar(64) CHARACTER SET ascii COLLATE ascii_bin"
    key_text = "varchar(300)"
    long_text = "longtext"
    number = "decimal(38,15)"
    table_end = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin ENGINE=InnoDB"

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._driver = driver("pymysql")
        self._max_document_bytes = 1 << 20
        """The maximum size of a JSON document that the server accepts, read at each connection."""
        parts = urlsplit(url)
        try:
            port = parts.port or 3306
        except ValueError:
            raise InvalidTarget(
                "expected mysql://USER:PASSWORD@HOST:PORT/DATABASE, got no valid port"
            ) from None
        if not parts.path.strip("/"):
            raise InvalidTarget(
                "expected mysql://USER:PASSWORD@HOST:PORT/DATABASE, got no database"
            )
        self._connect_arguments: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": port,
            "user": unquote(parts.username or "root"),
            "password": unquote(parts.password or ""),
            "database": unquote(parts.path[1:]),
        }
        if "socket" in options:
            self._connect_arguments["unix_socket"] = options.pop("socket")
        if "ssl_ca" in options:
            self._connect_arguments["ssl_ca"] = options.pop("ssl_ca")
        if options:
            raise InvalidTarget(
                f"expected the parameters prefix, socket or ssl_ca, got {sorted(options)[0]}"
            )

    def quote(self, name: str) -> str:
        return f"`{name}`"

    def connect(self, *, create: bool = True, seconds: float = ANSWER_SECONDS) -> Any:
        with self.errors():
            connection = self._driver.connect(
                **self._connect_arguments,
                charset="utf8mb4",
                connect_timeout=min(seconds, CONNECT_SECONDS),
                read_timeout=seconds,
                write_timeout=seconds,
                client_flag=self._driver.constants.CLIENT.FOUND_ROWS,
            )
            self.execute(connection, "SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
            if seconds < ANSWER_SECONDS:
                self._limit_statements(connection, seconds)
            max_packet = self.execute(connection, "SELECT @@max_allowed_packet").fetchone()[0]
            self._max_document_bytes = max(1, int(max_packet) - _RESERVED_BYTES)
            return connection

    @contextmanager
    def schema_locked(self, connection: Any, prefix: str) -> Iterator[None]:
        """Hold a lock of the session. A lock of the transaction would end too early, since each
        statement that creates a table or a view commits the transaction."""
        name = f"laurels {prefix}"[:_LOCK_NAME]
        taken = self.execute(connection, "SELECT GET_LOCK(%s, %s)", (name, _LOCK_SECONDS))
        if taken.fetchone()[0] != 1:
            raise TargetUnavailable("another program has been making tables for too long")
        try:
            yield
            connection.commit()
        finally:
            self.execute(connection, "SELECT RELEASE_LOCK(%s)", (name,)).fetchone()

    def _limit_statements(self, connection: Any, seconds: float) -> None:
        """Make the server end statements that take too long. Otherwise it would continue a
        statement even if the client no longer waits for the answer."""
        if "mariadb" in connection.get_server_info().lower():
            self.execute(connection, f"SET SESSION max_statement_time = {seconds}")
        else:
            self.execute(connection, f"SET SESSION max_execution_time = {int(1_000 * seconds)}")

    def abort(self, connection: Any) -> None:
        with suppress(OSError, AttributeError):  # the connection was closed or lost meanwhile
            connection._sock.shutdown(socket.SHUT_RDWR)

    def execute(self, connection: Any, statement: str, row: Sequence[Any] = ()) -> Any:
        cursor = connection.cursor()
        cursor.execute(statement, tuple(row) or None)
        return cursor

    def upsert(
        self, connection: Any, table: str, types: dict[str, str], key: int, rows: list[Row]
    ) -> None:
        names = list(types)
        newer = f"VALUES(version) >= {table}.version"
        sets = ", ".join(
            [f"{name} = IF({newer}, VALUES({name}), {table}.{name})" for name in names[key:]]
        )
        self._insert(connection, table, types, rows, f" ON DUPLICATE KEY UPDATE {sets}")

    def insert(self, connection: Any, table: str, types: dict[str, str], rows: list[Row]) -> None:
        self._insert(connection, table, types, rows)

    def _insert(
        self, connection: Any, table: str, types: dict[str, str], rows: list[Row], end: str = ""
    ) -> None:
        """Insert rows. `end` is appended to the statement. The rows are sent as one JSON document,
        which is several times as fast as a statement with many rows; a column with the same value
        in all rows is sent once. A document that does not fit in one packet is divided."""
        names = list(types)
        expressions: list[str] = []
        fields: list[str] = []
        values: list[Any] = []
        columns: list[Sequence[Any]] = []
        for name, kind, column in zip(names, types.values(), zip(*rows, strict=True), strict=True):
            if name != names[1] and len(set(column)) == 1:
                expressions.append("%s")
                values.append(column[0])
                continue
            number = len(columns)
            expressions.append(f"u.c{number}")
            fields.append(f"c{number} {_json_table_type(kind)} PATH '$[{number}]' ERROR ON ERROR")
            columns.append(column)
        document = _json.encode(list(zip(*columns, strict=True)))
        if len(rows) > 1 and _escaped_bytes(document) > self._max_document_bytes:
            half = len(rows) // 2
            self._insert(connection, table, types, rows[:half], end)
            self._insert(connection, table, types, rows[half:], end)
            return
        self.execute(
            connection,
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(expressions)} "
            f"FROM JSON_TABLE(%s, '$[*]' COLUMNS ({', '.join(fields)})) AS u{end}",
            [*values, document.decode()],
        )

    def delete(self, connection: Any, table: str, columns: Sequence[str], rows: list[Row]) -> None:
        row_placeholder = f"({', '.join(['%s'] * len(columns))})"
        for start in range(0, len(rows), 500):
            group = rows[start : start + 500]
            placeholders = ", ".join([row_placeholder] * len(group))
            statement = f"DELETE FROM {table} WHERE ({', '.join(columns)}) IN ({placeholders})"
            self.execute(connection, statement, [value for row in group for value in row])

    def begin_snapshot(self, connection: Any) -> None:
        self.execute(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")

    def stream(
        self, connection: Any, statement: str, row: Sequence[Any], size: int
    ) -> Iterator[list[Row]]:
        with connection.cursor(self._driver.cursors.SSCursor) as cursor:
            cursor.execute(statement, tuple(row))
            while rows := cursor.fetchmany(size):
                yield list(rows)

    def entries(
        self, connection: Any, table: str, board: str, scales: Sequence[int], size: int
    ) -> Iterator[list[LedgerEntries]]:
        return entries_by_row(self, connection, table, board, scales, size)

    def score(self, value: Any, scale: int) -> Any:
        return int(value) if not scale else round(value, scale)

    def after_round_trip(self, value: Any) -> Any:
        return value

    def errors(self) -> Any:
        temporary = (
            self._driver.OperationalError,
            self._driver.InterfaceError,
            self._driver.InternalError,
        )
        return translated_errors(temporary, self._driver.Error)


def _escaped_bytes(document: bytes) -> int:
    """Return the length of a JSON document as a literal of a statement, in which each quote and
    each backslash is preceded by a backslash."""
    return len(document) + sum(map(document.count, (b'"', b"'", b"\\")))


def _json_table_type(kind: str) -> str:
    """Return the type of a column in JSON_TABLE. A text column needs the character set of JSON
    there; without it, the column would have the character set of the database."""
    name = without_collation(kind)
    return f"{name} CHARACTER SET utf8mb4" if name in ("varchar(300)", "longtext") else name
