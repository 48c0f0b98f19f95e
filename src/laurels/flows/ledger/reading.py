"""Read the boards of a ledger, and their entries in the form that a store uses."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.hiding import Hiding
from laurels.core.mending import StoredEntry
from laurels.core.payouts import PayoutRow
from laurels.core.sealed_contents import SealedRanking, SealedRows
from laurels.errors.ledger import NoLedger
from laurels.errors.sinks import LedgerTooNew, TargetRefused, TargetUnavailable
from laurels.model.board import Board
from laurels.model.rules import Rules
from laurels.sql import hidden_rows, payout_rows
from laurels.sql.columns import LedgerEntries
from laurels.sql.dialects import ENTRY, Dialect, Row
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.final_reading import FinalReader
from laurels.sql.tables import VERSION, Tables
from laurels.sql.texts import labels_in, may_be_shortened, scope_text, unescape

PAGE = 10_000
WITH_SEASONS = 3
"""The version of the tables from which on a ledger has hidden members."""


class LedgerBoard(Struct, frozen=True):
    """A board of a ledger: its definition, and the position of its sink. `newest_ms` is the latest
    time of any entry."""

    definition: Board
    sink: str
    position: str | None
    generation: int
    newest_ms: int | None


class EntryReader:
    """Turns rows of the table `scores` of one board into entries."""

    def __init__(self, dialect: Dialect, rules: Rules, scopes: dict[str, dict[str, str]]) -> None:
        self._score = dialect.score
        self._scales = [column.scale for column in rules.columns]
        self._scopes = scopes
        self._labels: dict[str, dict[str, str] | None] = {"": {}}

    def entry(self, row: Row) -> StoredEntry:
        """Return the entry in a row; without a score if the row has none."""
        values = row[4 : 4 + len(self._scales)]
        if None in values:  # no sink writes such a row
            return StoredEntry(unescape(row[0]))
        parts = [
            self._score(value, scale) if scale or value == int(value) else Decimal(str(value))
            for value, scale in zip(values, self._scales, strict=True)
        ]
        score = parts[0] if len(parts) == 1 else tuple(parts)
        return StoredEntry(unescape(row[0]), score, row[-2], row[-1])

    def labels(self, scope: str) -> dict[str, str] | None:
        """Return the labels of the scope with this text in the ledger; None if the text is
        shortened and the ledger does not have the labels."""
        if scope not in self._labels:
            if len(self._labels) > 100_000:
                self._labels = {"": {}}
            self._labels[scope] = self._read(scope)
        return self._labels[scope]

    def _read(self, scope: str) -> dict[str, str] | None:
        if (stored_labels := self._scopes.get(scope)) is not None:
            return stored_labels
        labels = labels_in(scope)
        return None if may_be_shortened(scope) and scope_text(labels) != scope else labels


class LedgerReader:
    """Reads a ledger as of the time of `open`. Every method may block."""

    def __init__(self, dialect: Dialect, prefix: str) -> None:
        self._dialect = dialect
        self._tables = Tables(dialect, prefix)
        self._connection: Any = None
        self._version = VERSION

    def open(self) -> None:
        """Connect, and begin the transaction in which everything is read. Raises NoLedger,
        LedgerTooNew, TargetUnavailable."""
        self._connection = self._dialect.connect(create=False)
        try:
            with self._dialect.errors():
                version = self._first_row(f"SELECT max(version) FROM {self._name('ledger')}")[0]
                self._connection.commit()
                self._dialect.begin_snapshot(self._connection)
        except (TargetRefused, TargetUnavailable) as error:
            raise NoLedger(f"the database has no tables of a ledger ({error.what})") from error
        if version is None:
            raise NoLedger("no sink has written to these tables")
        if version > VERSION:
            raise LedgerTooNew(f"expected tables of version {VERSION} or earlier, got {version}")
        self._version = int(version)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def boards(self) -> list[str]:
        """Return the names of the boards, sorted."""
        with self._dialect.errors():
            rows = self._execute(f"SELECT board FROM {self._name('boards')}").fetchall()
        return sorted(name for (name,) in rows)

    def board(self, name: str) -> LedgerBoard:
        """Return a board. Raises NoLedger if the ledger does not have it."""
        with self._dialect.errors():
            definitions = self._execute(
                f"SELECT definition FROM {self._name('boards')} WHERE board = %s", name
            ).fetchall()
            sinks = self._execute(
                f"SELECT sink, position, generation FROM {self._name('sinks')} WHERE board = %s",
                name,
            ).fetchall()
            newest = self._first_row(
                f"SELECT max(reached_at), max(last_at), max(period_start) "
                f"FROM {self._name('scores')} WHERE board = %s",
                name,
            )
        if not definitions or not sinks:
            raise NoLedger(f"the ledger has no board {name!r}")
        sink, position, generation = sinks[0]
        times = [int(each) for each in newest if each is not None]
        definition = Board.from_json(definitions[0][0].encode())
        return LedgerBoard(definition, sink, position, int(generation), max(times, default=None))

    def positions(self, board: str) -> dict[str, str]:
        """Return the positions of a board's sources, by name."""
        return {
            unescape(name): unescape(text)
            for name, text in self._pairs("source_positions", "source, position", board)
        }

    def hidden(self, board: str) -> list[tuple[str, Hiding]]:
        """Return the hidden members of a board with their hidings, in the order of the members."""
        if self._version < WITH_SEASONS:
            return []
        return sorted(
            map(hidden_rows.hiding_of_row, self._pairs("hidden", hidden_rows.SELECTED, board)),
            key=lambda each: each[0].encode(),
        )

    def sealed(self, uid: str) -> list[FinalPeriod]:
        """Return all revisions of the sealed periods of the board with this uid, in order."""
        if self._version < WITH_SEASONS:
            return []
        with self._dialect.errors():
            return self._final.periods(uid)

    def sealed_pieces(self, period: FinalPeriod) -> Iterator[SealedRanking | SealedRows]:
        """Yield the rankings and entries of a sealed period."""
        with self._dialect.errors():
            yield from self._final.pieces(period)

    def payouts(self, uid: str) -> list[PayoutRow]:
        """Return the payouts of the board with this uid."""
        if self._version < WITH_SEASONS:
            return []
        statement = f"SELECT {payout_rows.SELECTED} FROM {self._name('payouts')} WHERE uid = %s"
        with self._dialect.errors():
            return [payout_rows.payout_of_row(row) for row in self._execute(statement, uid)]

    @property
    def _final(self) -> FinalReader:
        return FinalReader(self._dialect, self._tables.prefix, self._connection)

    def periods(self, board: str) -> list[tuple[str, str]]:
        """Return the window and the label of each period with entries of a board."""
        columns = "DISTINCT window_name, period"
        return [(window, period) for window, period in self._pairs("scores", columns, board)]

    def data(self, board: str) -> Iterator[list[tuple[str, str]]]:
        """Yield, in pages, the members that have data, each with its data as JSON."""
        statement = f"SELECT member, data FROM {self._name('member_data')} WHERE board = %s"
        for page in self._stream(statement, board):
            yield [(unescape(member), text) for member, text in page]

    def reader(self, board: LedgerBoard) -> EntryReader:
        """Return an `EntryReader` for the rows of a board."""
        shortened: list[Row] = []
        if self._version > 1:
            shortened = self._pairs("scopes", "scope, labels", board.definition.name)
        scopes = {
            scope: msgspec.json.decode(labels, type=dict[str, str]) for scope, labels in shortened
        }
        return EntryReader(self._dialect, board.definition.rules(), scopes)

    def rows(self, board: LedgerBoard) -> Iterator[list[Row]]:
        """Yield the rows of all entries of a board, in pages."""
        statement = f"SELECT {ENTRY} FROM {self._name('scores')} WHERE board = %s"
        yield from self._stream(statement, board.definition.name)

    def entries(self, board: LedgerBoard) -> Iterator[list[LedgerEntries]]:
        """Yield the entries of a board in columns, in pages. Raises InvalidEntry."""
        scales = [column.scale for column in board.definition.rules().columns]
        with self._dialect.errors():
            yield from self._dialect.entries(
                self._connection, self._name("scores"), board.definition.name, scales, PAGE
            )

    def _pairs(self, table: str, columns: str, board: str) -> list[Row]:
        with self._dialect.errors():
            statement = f"SELECT {columns} FROM {self._name(table)} WHERE board = %s"
            return list(self._execute(statement, board).fetchall())

    def _stream(self, statement: str, board: str) -> Iterator[list[Row]]:
        with self._dialect.errors():
            yield from self._dialect.stream(self._connection, statement, (board,), PAGE)

    def _first_row(self, statement: str, *row: Any) -> Row:
        first_row: Row = self._execute(statement, *row).fetchone()
        return first_row

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)

    def _name(self, table: str) -> str:
        return self._tables.name(table)
