"""Read and write rows of a board in the ledger while the board's sink waits."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

from laurels.core.changes.beginning import is_initial
from laurels.core.changes.cursor import is_end
from laurels.core.mending import StoredEntry
from laurels.errors.ledger import LedgerIncomplete, NoLedger
from laurels.model.rules import Rules
from laurels.sql.dialects import ENTRY, Dialect, Row
from laurels.sql.tables import Tables
from laurels.sql.texts import COLUMNS, RankingName, bucket_of, escape, unescape

from .rows import GENERATION_BITS

T = TypeVar("T")


class SinkPosition(Struct, frozen=True):
    """The position of a board's sink, and the generation of the rows that it writes."""

    sink: str
    cursor: str
    generation: int


class LockedRows:
    """The rows of a board, read and written in transactions during which its sink waits. Every
    method may block."""

    def __init__(self, dialect: Dialect, prefix: str, board: str, rules: Rules) -> None:
        self._dialect = dialect
        self._tables = Tables(dialect, prefix)
        self._board = board
        self._rules = rules
        self._connection: Any = None

    def open(self) -> None:
        """Connect if necessary, without making the sink wait. Raises NoLedger."""
        with self._transaction():
            if self._connection is None:
                self._connection = self._dialect.connect(create=False)

    def lock(self) -> SinkPosition:
        """Begin a transaction, and return the position at which the sink waits until the
        transaction ends. Raises NoLedger, LedgerIncomplete."""
        sinks = self._tables.name("sinks")
        self.open()
        with self._transaction():
            # In every database, a write to the row with the sink's position makes the sink wait.
            self._execute(
                f"UPDATE {sinks} SET updated_at = updated_at WHERE board = %s", self._board
            )
            rows = self._execute(
                f"SELECT sink, position, generation FROM {sinks} WHERE board = %s", self._board
            ).fetchall()
            # Of a deleted board only the position of its sink is left, at the end of its changes.
            if not rows or is_end(rows[0][1]):
                raise NoLedger(f"the ledger has no board {self._board!r}")
            sink, position, generation = rows[0]
            if position is None or is_initial(position):
                raise LedgerIncomplete(
                    f"the sink {sink!r} has not written every current entry of {self._board!r}"
                )
            return SinkPosition(sink, position, int(generation))

    def run(self, work: Callable[[Any], T]) -> T:
        """Return the result of a function of the connection, in the transaction that `lock` has
        begun."""
        with self._transaction():
            return work(self._connection)

    def rows(self, members: Sequence[str]) -> list[Row]:
        """Return the rows of these members in all rankings."""
        placeholders = ", ".join(["%s"] * len(members))
        with self._transaction():
            return list(
                self._execute(
                    f"SELECT {ENTRY} FROM {self._tables.name('scores')} "
                    f"WHERE board = %s AND member IN ({placeholders})",
                    *(self._board, *map(escape, members)),
                ).fetchall()
            )

    def write(self, name: RankingName, entries: Sequence[StoredEntry], generation: int) -> None:
        """Write entries of a ranking, in place of the rows of their members."""
        window, period, scope = name
        start_ms = None
        if period:
            start_ms = self._rules.windows[window].period(period).start_ms
        rows: list[Row] = []
        for entry in entries:
            parts = entry.score if isinstance(entry.score, tuple) else (entry.score,)
            scores = (*parts, *[None] * (COLUMNS - len(parts)))
            rows.append(
                (
                    *(self._board, escape(entry.member), window, period, scope, *scores),
                    *(entry.reached_ms, entry.last_ms, start_ms, bucket_of(entry.member)),
                    generation << GENERATION_BITS,
                )
            )
        with self._transaction():
            # Rows are deleted first, since the upsert leaves rows of higher versions unchanged.
            self.delete([(entry.member, name) for entry in entries])
            table, types = self._tables.name("scores"), self._tables.scores
            self._dialect.upsert(self._connection, table, types, 5, rows)

    def data(self, members: Sequence[str]) -> dict[str, str]:
        """Return the data of members in the ledger, as JSON."""
        placeholders = ", ".join(["%s"] * len(members))
        with self._transaction():
            rows = self._execute(
                f"SELECT member, data FROM {self._tables.name('member_data')} "
                f"WHERE board = %s AND member IN ({placeholders})",
                *(self._board, *map(escape, members)),
            ).fetchall()
        return {unescape(member): text for member, text in rows}

    def write_data(self, data: Mapping[str, str | None], generation: int) -> None:
        """Replace the data of members in the ledger; None deletes the data."""
        table, version = self._tables.name("member_data"), generation << GENERATION_BITS
        rows: list[Row] = [
            (self._board, escape(member), text, version)
            for member, text in data.items()
            if text is not None
        ]
        with self._transaction():
            # Rows are deleted first, since the upsert leaves rows of higher versions unchanged.
            keys = [(self._board, escape(member)) for member in data]
            self._dialect.delete(self._connection, table, ("board", "member"), keys)
            if rows:
                self._dialect.upsert(self._connection, table, self._tables.member_data, 2, rows)

    def positions(self) -> dict[str, str]:
        """Return the positions of the board's sources in the ledger."""
        with self._transaction():
            rows = self._execute(
                f"SELECT source, position FROM {self._tables.name('source_positions')} "
                "WHERE board = %s",
                self._board,
            ).fetchall()
        return {unescape(source): unescape(text) for source, text in rows}

    def write_positions(self, positions: Mapping[str, str | None], generation: int) -> None:
        """Replace positions of sources in the ledger; None deletes a position."""
        table, version = self._tables.name("source_positions"), generation << GENERATION_BITS
        rows: list[Row] = [
            (self._board, escape(source), escape(text), version)
            for source, text in positions.items()
            if text is not None
        ]
        with self._transaction():
            keys = [(self._board, escape(source)) for source in positions]
            self._dialect.delete(self._connection, table, ("board", "source"), keys)
            if rows:
                types = self._tables.source_positions
                self._dialect.upsert(self._connection, table, types, 2, rows)

    def delete(self, keys: Sequence[tuple[str, RankingName]]) -> None:
        """Delete rows, given by member and ranking."""
        with self._transaction():
            self._dialect.delete(
                self._connection,
                self._tables.name("scores"),
                ("board", "member", "window_name", "period", "scope"),
                [(self._board, escape(member), *name) for member, name in keys],
            )

    def unlock(self) -> None:
        """Commit the transaction, so that the sink continues."""
        if self._connection is not None:
            with self._transaction():
                self._connection.commit()

    def close(self) -> None:
        """Close the connection, and discard what `unlock` has not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._dialect.errors():
                connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the block of a `with`. If it raises an error, close the connection, so that the sink
        continues."""
        try:
            with self._dialect.errors():
                yield
        except BaseException:
            self.close()
            raise

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)
