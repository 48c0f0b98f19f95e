"""Read the payouts of a board from a ledger for a copy of the board, and receive those of a copied
board.

The payouts of an unfinished copy are in the table `payout_copies`, where neither readers of the
store nor readers of the table `payouts` see them. Once the index server has the finished board, one
transaction moves them to `payouts` and `payout_list`. A second call moves nothing, so any process
may do it, also after the process that copied the board was killed.

A payout that is due and not confirmed gets a place at the end of the list of due payouts, which
grows only there. One that was confirmed, or whose member was erased, gets none. Every method may
block. The caller begins a transaction and, before it changes anything, calls `PayoutWriter.lock`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from laurels.core.season_pieces import CopiedPayout

from .dialects import Dialect, Row
from .final_tables import FinalTables
from .payout_book import LedgerPayouts
from .payout_rows import SELECTED, payout_of_row, row_of_payout
from .payout_tables import PayoutTables
from .payout_writing import AT_ONCE, VERSION

NEVER_MS = 2**62
"""The time `list_at` of a payout that never enters the list of due payouts."""
WITHHELD_MS = NEVER_MS - 1
"""The time `list_at` of a payout that does not enter the list while its board is being moved."""


class PayoutCopies:
    """The payouts of copied boards of one store, over a connection."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any, store: str) -> None:
        self._dialect = dialect
        self._tables = PayoutTables(dialect, prefix)
        self._columns = list(FinalTables(dialect, prefix).payouts)
        self._connection = connection
        self._store = store
        self._stored = LedgerPayouts(dialect, prefix, connection, store)

    # Reading

    def of(self, uid: str, confirmed_ms: int | None = None) -> Iterator[CopiedPayout]:
        """Yield the payouts of a board in the order of their numbers, or only those that were
        confirmed from an instant on. O(payouts of the board)."""
        name = self._tables.name
        statement = (
            f"SELECT l.serial FROM {name('payout_list')} l WHERE l.uid = %s AND l.store = %s"
            if confirmed_ms is None
            else f"SELECT l.serial FROM {name('payout_list')} l JOIN {name('payouts')} p "
            "ON p.payout = l.payout WHERE l.uid = %s AND l.store = %s AND p.confirmed_at >= %s"
        )
        since = () if confirmed_ms is None else (confirmed_ms,)
        rows = self._select(statement, uid, self._store, *since)
        serials = sorted([int(serial) for (serial,) in rows])
        for start in range(0, len(serials), AT_ONCE):
            part = serials[start : start + AT_ONCE]
            yield from self._with_serials(part)

    def _with_serials(self, serials: Sequence[int]) -> list[CopiedPayout]:
        columns = ", ".join([f"p.{column}" for column in SELECTED.split(", ")])
        name, placeholders = self._tables.name, ", ".join(["%s"] * len(serials))
        rows = self._select(
            f"SELECT l.serial, l.is_erased, {columns} FROM {name('payout_list')} l "
            f"JOIN {name('payouts')} p ON p.payout = l.payout "
            f"WHERE l.store = %s AND l.serial IN ({placeholders})",
            *(self._store, *serials),
        )
        found = [
            CopiedPayout(int(serial), bool(is_erased), payout_of_row(tuple(values)))
            for serial, is_erased, *values in rows
        ]
        return sorted(found, key=lambda each: each.serial)

    # Receiving

    def receive(self, number: int, payouts: Iterable[CopiedPayout]) -> None:
        """Store payouts of an unfinished copy. Payouts that were received before are replaced."""
        rows = [self._row(number, each) for each in payouts]
        table = self._tables.name("payout_copies")
        self._dialect.upsert(self._connection, table, self._tables.copies, 3, rows)

    def _row(self, number: int, payout: CopiedPayout) -> Row:
        key, *rest = row_of_payout(payout.row, VERSION)
        return self._store, number, key, payout.serial, int(payout.is_erased), *rest

    def publish(self, number: int, tag: int) -> None:
        """Make the payouts of a finished copy visible. If the ledger already has a row for a
        payout, the row stays, and becomes confirmed or superseded if the copied payout is. The
        payouts get numbers that are greater than all numbers in the source and in this store. So a
        reader with a cursor of either store misses no payout."""
        name, copy = self._tables.name, (self._store, number)
        [(newest, count)] = self._select(
            f"SELECT max(serial), count(*) FROM {name('payout_copies')} "
            "WHERE store = %s AND number = %s",
            *copy,
        )
        if not count:
            return
        base = self._take(int(newest), int(count))
        mark_ms = self._stored.mark().due_ms
        self._execute(
            f"INSERT INTO {name('payout_list')} (store, serial, due_at, list_at, is_erased, tag, "
            "board, uid, window_name, instance, payout) "
            f"SELECT c.store, {base} + row_number() OVER (ORDER BY c.serial), c.due_at, "
            "CASE WHEN c.reference IS NOT NULL OR c.superseded_by IS NOT NULL OR c.is_erased = 1 "
            f"THEN {NEVER_MS} WHEN c.due_at > {mark_ms} THEN c.due_at ELSE {mark_ms} END, "
            f"c.is_erased, {tag}, c.board, c.uid, c.window_name, c.instance, c.payout "
            f"FROM {name('payout_copies')} c WHERE c.store = %s AND c.number = %s "
            f"AND NOT EXISTS (SELECT 1 FROM {name('payout_list')} l "
            "WHERE l.payout = c.payout AND l.store = c.store)",
            *copy,
        )
        self._merge(copy)
        columns = ", ".join(self._columns)
        self._execute(
            f"INSERT INTO {name('payouts')} ({columns}) SELECT {columns} "
            f"FROM {name('payout_copies')} c WHERE c.store = %s AND c.number = %s "
            f"AND NOT EXISTS (SELECT 1 FROM {name('payouts')} p WHERE p.payout = c.payout)",
            *copy,
        )
        self.discard(number)

    def _take(self, newest: int, count: int) -> int:
        """Reserve `count` numbers that are greater than `newest`. Return the number before the
        first of them."""
        marks = self._tables.name("payout_marks")
        [(last,)] = self._select(f"SELECT last_serial FROM {marks} WHERE store = %s", self._store)
        base = max(int(last), newest)
        self._execute(
            f"UPDATE {marks} SET last_serial = %s WHERE store = %s", base + count, self._store
        )
        return base

    def _merge(self, copy: tuple[str, int]) -> None:
        """Update the rows that `payouts` already has for copied payouts, written by this store, by
        another store or by a sink: if the copied payout is confirmed or superseded and its row is
        not, the row becomes so, too."""
        name = self._tables.name
        rows = self._select(
            "SELECT c.payout, c.reference, c.confirmed_at, c.superseded_by "
            f"FROM {name('payout_copies')} c JOIN {name('payouts')} p ON p.payout = c.payout "
            "WHERE c.store = %s AND c.number = %s AND (p.version < c.version "
            "OR (p.reference IS NULL AND c.reference IS NOT NULL) "
            "OR (p.superseded_by IS NULL AND c.superseded_by IS NOT NULL))",
            *copy,
        )
        for key, reference, confirmed_ms, superseded in rows:
            self._execute(
                f"UPDATE {name('payouts')} SET confirmed_at = CASE WHEN reference IS NULL THEN %s "
                "ELSE confirmed_at END, reference = coalesce(reference, %s), "
                "superseded_by = coalesce(superseded_by, %s), version = %s WHERE payout = %s",
                *(confirmed_ms, reference, superseded, VERSION, key),
            )

    def discard(self, number: int) -> None:
        """Remove the payouts of a copy that was given up, or made visible."""
        self._execute(
            f"DELETE FROM {self._tables.name('payout_copies')} WHERE store = %s AND number = %s",
            *(self._store, number),
        )

    def _select(self, statement: str, *row: Any) -> list[Row]:
        return list(self._execute(statement, *row).fetchall())

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)
