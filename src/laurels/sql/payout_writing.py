"""Make, correct and confirm the payouts of a store in a ledger.

The caller begins a transaction, calls `lock`, and then calls the other methods in this transaction.
So payouts become visible together with the standings from which they were computed, and each payout
is made once. Every method may block.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from laurels.core.changes.blocks import Block, encode_blocks
from laurels.core.payouts import Added, Correction, PayoutRow, correction
from laurels.core.period_awards import SealedPlace, SealedStandings
from laurels.errors.placement import BoardMoving
from laurels.model.validation import quoted

from .dialects import Dialect, Row
from .final_tables import FinalTables
from .payout_book import END, LedgerPayouts
from .payout_rows import payout_key, row_of_payout
from .payout_tables import PayoutTables
from .texts import escape

VERSION = 2**62
"""The version of the rows in `payouts`. It is greater than that of any row that a sink writes, so a
sink that sends to the same tables does not replace them."""
AT_ONCE = 1_000
"""The number of payouts that one statement inserts."""


class PayoutWriter:
    """Writes the payouts of one store over a connection. `random` returns a random integer with a
    given number of bits."""

    def __init__(
        self, dialect: Dialect, prefix: str, connection: Any, store: str, random: Any
    ) -> None:
        self._dialect = dialect
        self._tables = PayoutTables(dialect, prefix)
        self._payouts = FinalTables(dialect, prefix)
        self._connection = connection
        self._store = store
        self._random = random
        self.stored = LedgerPayouts(dialect, prefix, connection, store)

    def lock(self) -> None:
        """Block other callers of `lock` for the same store until the transaction ends. Create the
        row of the store if it has none.

        In a new row the last number given to a payout is random, so that payouts in several ledgers
        get different numbers."""
        marks = self._tables.name("payout_marks")
        lock = f"UPDATE {marks} SET version = 1 WHERE store = %s"
        if self.execute(lock, self._store).rowcount:
            return
        first = self._random(19) * 10**12
        row = (self._store, -(2**62), 0, first, 0, 0)
        self._dialect.upsert(self._connection, marks, self._tables.marks, 1, [row])
        self.execute(lock, self._store)

    def make(self, standings: SealedStandings, now_ms: int) -> int:
        """Make the payouts of a period that is being sealed at `now_ms`, and return their number.
        If they have been made before, do nothing. O(winners)."""
        prizes = standings.prizes
        if prizes is None or self._has(standings.place):
            return 0
        added = map(Added, standings.owed(prizes))
        return self._add(standings, added, now_ms, prizes.pay_after_ms)

    def correct(self, standings: SealedStandings, now_ms: int) -> Correction:
        """Change the payouts of a period to what its new revision owes, and return the changes.
        Payouts that are due at `now_ms` or in the list of due payouts stay, and the differences are
        added as further payouts. O(winners). Raises BoardMoving while the board is being moved."""
        prizes, place = standings.prizes, standings.place
        self._ensure_unblocked(place.uid, standings.board)
        if prizes is None:
            return Correction([], [])
        present = self.stored.of_period(place.uid, place.window, place.instance)
        due_ms = max(now_ms, self.stored.mark().due_ms)  # the mark may be ahead of `now_ms`
        change = correction(present, list(standings.owed(prizes)), due_ms)
        table = self._tables.name("payouts")
        for id in change.superseded:
            self.execute(
                f"UPDATE {table} SET superseded_by = %s WHERE payout = %s",
                *(place.revision, payout_key(id)),
            )
        self._add(standings, change.added, now_ms, prizes.pay_after_ms)
        return change

    def confirm(self, payout: PayoutRow, reference: str, now_ms: int) -> None:
        """Record that a payout was paid. Raises BoardMoving while the board is being moved."""
        self._ensure_unblocked(payout.uid, payout.board)
        self.execute(
            f"UPDATE {self._tables.name('payouts')} SET reference = %s, confirmed_at = %s "
            "WHERE payout = %s AND reference IS NULL",
            *(escape(reference), now_ms, payout_key(payout.id)),
        )

    def emit(self, now_ms: int, limit: int) -> list[PayoutRow]:
        """Enter up to `limit` payouts that are due at `now_ms` in the list of due payouts, and
        return them."""
        mark = self.stored.mark()
        due = self.stored.between(mark, replace(END, due_ms=now_ms), limit)
        if due:
            self.execute(
                f"UPDATE {self._tables.name('payout_marks')} SET due_at = %s, serial = %s "
                "WHERE store = %s",
                *(*due[-1].place.parts, self._store),
            )
        return [each.row for each in due]

    def note(self, uid: str, block: Block, period: tuple[str, int, int] | None = None) -> None:
        """Write a note for the index server, which has to record a block of changes of a board.
        With a `period`, it also has to record a new revision: `period` has the window, the instance
        and the number of the revision."""
        window, instance, revision = period or (None, None, None)
        number = self._take("last_note", 1)
        encoded = encode_blocks([block]).hex()
        row = (self._store, number, uid, window, instance, revision, encoded)
        self._insert("payout_notes", self._tables.notes, [row])

    def forget_notes(self, number: int) -> None:
        """Remove the notes up to a number."""
        self.execute(
            f"DELETE FROM {self._tables.name('payout_notes')} WHERE store = %s AND number <= %s",
            *(self._store, number),
        )

    def execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)

    def _ensure_unblocked(self, uid: str, board: str) -> None:
        """Raise BoardMoving if the payouts of a board must not change, since the board is being
        moved."""
        if self.stored.is_blocked(uid):
            raise BoardMoving(f"the board {quoted(board)} is being moved to another store")

    def _has(self, place: SealedPlace) -> bool:
        """Return whether a period has payouts."""
        found = self.execute(
            f"SELECT max(serial) FROM {self._tables.name('payout_list')} "
            "WHERE uid = %s AND window_name = %s AND instance = %s",
            *(place.uid, place.window, place.instance),
        ).fetchone()
        return found[0] is not None

    def _add(
        self, standings: SealedStandings, added: Iterable[Added], now_ms: int, wait_ms: int
    ) -> int:
        """Insert payouts, and return their number. They are due `wait_ms` after `now_ms`, or right
        after the last payout in the list of due payouts if that is later."""
        due_ms = max(now_ms + wait_ms, self.stored.mark().due_ms + 1)
        tag, count, rows = self._random(48), 0, map(standings.row, added)
        while part := list(islice(rows, AT_ONCE)):
            first = self._take("last_serial", len(part))
            payouts = [replace(row, made_ms=now_ms, due_ms=due_ms) for row in part]
            types = self._payouts.payouts
            self._insert("payouts", types, [row_of_payout(row, VERSION) for row in payouts])
            places = [
                (
                    *(self._store, serial, row.due_ms, row.due_ms, 0, tag, row.board, row.uid),
                    *(row.window, row.instance, payout_key(row.id)),
                )
                for serial, row in enumerate(payouts, first)
            ]
            self._insert("payout_list", self._tables.places, places)
            count += len(part)
        return count

    def _take(self, column: str, count: int) -> int:
        """Reserve `count` numbers, and return the first of them."""
        marks = self._tables.name("payout_marks")
        self.execute(
            f"UPDATE {marks} SET {column} = {column} + %s WHERE store = %s", count, self._store
        )
        taken = self.execute(f"SELECT {column} FROM {marks} WHERE store = %s", self._store)
        return int(taken.fetchone()[0]) - count + 1

    def _insert(self, table: str, types: Mapping[str, str], rows: list[Row]) -> None:
        self._dialect.insert(self._connection, self._tables.name(table), dict(types), rows)
