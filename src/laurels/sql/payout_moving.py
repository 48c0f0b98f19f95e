"""Keep the payouts of a board as they are while the board is moved to another store, and remove
them from the old store afterwards.

While the writes of a board are blocked, its payouts are neither confirmed nor corrected, and none
enters the list of due payouts. Otherwise the old store would change payouts that were already
copied. Every method may block. The caller begins a transaction and calls `PayoutWriter.lock`.
"""

from collections.abc import Iterator
from typing import Any

from .dialects import Dialect, Row
from .final_tables import FinalTables
from .payout_book import LedgerPayouts
from .payout_copying import WITHHELD_MS
from .payout_tables import PayoutTables

KEYS_A_STATEMENT = 500


class PayoutMoves:
    """The payouts of boards of one store that are moved or get another name, over a connection."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any, store: str) -> None:
        self._dialect = dialect
        self._tables = PayoutTables(dialect, prefix)
        self._finals = FinalTables(dialect, prefix)
        self._connection = connection
        self._store = store
        self._stored = LedgerPayouts(dialect, prefix, connection, store)

    def block(self, uid: str, owner: str) -> None:
        """Block the payouts of a board for the move `owner`. If they are still blocked by an
        earlier move, `owner` replaces it: the earlier move has ended, since only one move at a time
        tracks a board."""
        mark, blocks = self._stored.mark(), self._tables.name("payout_blocks")
        row = (self._store, uid, owner, 1)
        self._dialect.upsert(self._connection, blocks, self._tables.blocks, 2, [row])
        self._execute(
            f"UPDATE {self._tables.name('payout_list')} SET list_at = {WITHHELD_MS} "
            "WHERE uid = %s AND store = %s "
            f"AND list_at < {WITHHELD_MS} AND (list_at > %s OR (list_at = %s AND serial > %s))",
            *(uid, self._store, mark.due_ms, mark.due_ms, mark.serial),
        )

    def release(self, uid: str, owner: str | None = None) -> None:
        """Release the payouts of a board that the move `owner` has blocked; None stands for any
        move. Payouts that became due meanwhile can then enter the list of due payouts, at its
        end."""
        which, arguments = "store = %s AND uid = %s", [self._store, uid]
        if owner is not None:
            which, arguments = f"{which} AND owner = %s", [*arguments, owner]
        removed = self._execute(
            f"DELETE FROM {self._tables.name('payout_blocks')} WHERE {which}", *arguments
        )
        if not removed.rowcount:
            return
        after_ms = self._stored.mark().due_ms
        self._execute(
            f"UPDATE {self._tables.name('payout_list')} SET list_at = "
            f"CASE WHEN due_at > {after_ms} THEN due_at ELSE {after_ms + 1} END "
            f"WHERE uid = %s AND store = %s AND list_at = {WITHHELD_MS}",
            *(uid, self._store),
        )

    def seize(self, uid: str, owner: str) -> None:
        """Transfer the blocking of a board's payouts from an earlier move to the move `owner`. Do
        nothing if they are not blocked."""
        self._execute(
            f"UPDATE {self._tables.name('payout_blocks')} SET owner = %s "
            "WHERE store = %s AND uid = %s",
            *(owner, self._store, uid),
        )

    def forget(self, uid: str) -> None:
        """Remove the payouts of a board that continues in another store. A row of `payouts` stays
        if another store of this ledger has the payout, too. A payout that is in the list of due
        payouts leaves an empty row, since the cursor of a reader may point to it. A second call
        changes nothing."""
        self._remove_rows(uid)
        mark, listed = self._stored.mark(), self._tables.name("payout_list")
        self._execute(
            f"DELETE FROM {listed} WHERE uid = %s AND store = %s "
            "AND (list_at > %s OR (list_at = %s AND serial > %s))",
            *(uid, self._store, mark.due_ms, mark.due_ms, mark.serial),
        )
        self._execute(
            f"UPDATE {listed} SET board = '', uid = '', window_name = '', instance = 0, "
            "payout = '', is_erased = 1 WHERE uid = %s AND store = %s",
            *(uid, self._store),
        )
        self._execute(
            f"DELETE FROM {self._tables.name('payout_blocks')} WHERE store = %s AND uid = %s",
            *(self._store, uid),
        )

    def rename(self, uid: str, board: str) -> None:
        """Give a board another name in its payouts and sealed periods. A row of `payouts` keeps the
        name if another store of this ledger has the payout, too. A second call changes nothing."""
        listed = self._tables.name("payout_list")
        self._execute(
            f"UPDATE {listed} SET board = %s WHERE uid = %s AND store = %s AND board <> %s",
            *(board, uid, self._store, board),
        )
        for keys in self._own_payouts(uid):
            self._execute(
                f"UPDATE {self._tables.name('payouts')} SET board = %s "
                f"WHERE payout IN ({', '.join(['%s'] * len(keys))})",
                *(board, *keys),
            )
        self._execute(
            f"UPDATE {self._finals.name('final_periods')} SET board = %s WHERE uid = %s",
            *(board, uid),
        )

    def _remove_rows(self, uid: str) -> None:
        """Remove the rows of `payouts` that no other store lists."""
        for keys in self._own_payouts(uid):
            self._execute(
                f"DELETE FROM {self._tables.name('payouts')} "
                f"WHERE payout IN ({', '.join(['%s'] * len(keys))})",
                *keys,
            )

    def _own_payouts(self, uid: str) -> Iterator[list[str]]:
        """Yield the keys of the payouts of a board that no other store lists, some at a time."""
        listed = self._tables.name("payout_list")
        rows = self._select(
            f"SELECT l.payout FROM {listed} l WHERE l.uid = %s AND l.store = %s "
            f"AND NOT EXISTS (SELECT 1 FROM {listed} o "
            "WHERE o.payout = l.payout AND o.store <> l.store)",
            *(uid, self._store),
        )
        # the keys are in no subquery, for which MariaDB would read all payouts
        for start in range(0, len(rows), KEYS_A_STATEMENT):
            yield [key for (key,) in rows[start : start + KEYS_A_STATEMENT]]

    def _select(self, statement: str, *row: Any) -> list[Row]:
        return list(self._execute(statement, *row).fetchall())

    def _execute(self, statement: str, *row: Any) -> Any:
        return self._dialect.execute(self._connection, statement, row)
