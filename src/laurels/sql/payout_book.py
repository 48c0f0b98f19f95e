"""Read the payouts of a store from a ledger. Every method may block."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from laurels.core.changes.blocks import Block, decode_blocks
from laurels.core.payouts import BEFORE_ALL, DuePlace, PayoutFilter, PayoutRow
from laurels.timeline.instants import MAX_MS

from .dialects import Dialect, Row
from .payout_places import place_ranges
from .payout_rows import SELECTED, payout_key, payout_of_row
from .payout_tables import PayoutTables
from .texts import escape

LAST_SERIAL = 2**62
END = DuePlace(MAX_MS, LAST_SERIAL)
_OPEN = "p.superseded_by IS NULL AND p.reference IS NULL"
_CONDITIONS: dict[str, Callable[[int], tuple[str, tuple[int, ...]]]] = {
    "pending": lambda now_ms: (f"{_OPEN} AND p.due_at > %s", (now_ms,)),
    "due": lambda now_ms: (f"{_OPEN} AND p.due_at <= %s", (now_ms,)),
    "confirmed": lambda _: ("p.reference IS NOT NULL", ()),
    "superseded": lambda _: ("p.superseded_by IS NOT NULL", ()),
}
"""By state, the SQL condition for payouts in this state, and its arguments."""


class PayoutNote(Struct, frozen=True):
    """Data of a transaction in a ledger that the index server still has to record: a block of
    changes of the board with the unique id `uid`. With a `revision`, it also has to record that
    this revision of a period is valid."""

    number: int
    uid: str
    block: Block
    window: str | None = None
    instance: int | None = None
    revision: int | None = None


class LedgerPayouts:
    """The payouts of one store over a connection, in the transactions of its caller."""

    def __init__(self, dialect: Dialect, prefix: str, connection: Any, store: str) -> None:
        self._dialect = dialect
        self._tables = PayoutTables(dialect, prefix)
        self._connection = connection
        self._store = store

    def page(
        self, wanted: PayoutFilter, now_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[int, PayoutRow]]:
        """Return up to `limit` payouts of a board; see `PayoutBook.page`."""
        conditions, arguments = ["l.board = %s"], list[Any]([wanted.board])
        fields = (
            ("window_name", wanted.window),
            ("period", wanted.period),
            ("member", wanted.member),
        )
        for column, value in fields:
            if value is not None:
                conditions.append(f"p.{column} = %s")
                arguments.append(escape(value) if column == "member" else value)
        if wanted.state is not None:
            condition, values = _CONDITIONS[wanted.state](now_ms)
            conditions.append(condition)
            arguments += values
        if wanted.due_only:
            conditions.append("p.superseded_by IS NULL AND p.due_at <= %s")
            arguments.append(now_ms)
        rows = self._between(DuePlace(*after), END, limit, " AND ".join(conditions), arguments)
        return [(serial, row) for serial, _, row in rows]

    def find(self, id: str) -> PayoutRow | None:
        """Return a payout; None if there is none of that id."""
        rows = self._rows("p.payout = %s", [payout_key(id)])
        found = [row for _, _, row in rows if row.id == id]
        return found[0] if found else None

    def of_period(self, uid: str, window: str, instance: int) -> list[PayoutRow]:
        """Return the payouts of a period that are not superseded, in the order of their numbers."""
        where = "l.uid = %s AND l.window_name = %s AND l.instance = %s AND p.superseded_by IS NULL"
        rows = self._rows(where, [uid, window, instance], "ORDER BY l.serial")
        return [row for _, _, row in rows]

    def open_on(self, uid: str) -> int:
        """Return how many payouts of a board are neither confirmed nor superseded."""
        statement = f"SELECT count(*) FROM {self._joined} WHERE {self._own} AND l.uid = %s"
        return int(self._select(f"{statement} AND {_OPEN}", (self._store, uid))[0][0])

    def open_of(self, member: str) -> int:
        """Return how many payouts of a member are neither confirmed nor superseded. O(payouts)."""
        statement = f"SELECT count(*) FROM {self._joined} WHERE {self._own} AND p.member = %s"
        return int(self._select(f"{statement} AND {_OPEN}", (self._store, escape(member)))[0][0])

    def knows(self, board: str, window: str | None = None) -> bool:
        """Return whether a board of that name has or had payouts. With a `window`, only payouts of
        this window count."""
        which, arguments = "l.board = %s", [self._store, board]
        if window is not None:
            which, arguments = f"{which} AND l.window_name = %s", [*arguments, window]
        name = self._tables.name("payout_list")
        statement = f"SELECT 1 FROM {name} l WHERE {self._own} AND {which} LIMIT 1"
        return bool(self._select(statement, arguments))

    def between(
        self, after: DuePlace, until: DuePlace, limit: int
    ) -> list[tuple[int, int, PayoutRow]]:
        """Return up to `limit` payouts between two places that are not superseded, in order, each
        with its number and tag. The place `after` is excluded, the place `until` included."""
        return self._between(after, until, limit, "p.superseded_by IS NULL", [])

    def waiting(self, after: DuePlace, until: DuePlace) -> dict[str, tuple[int, int]]:
        """Return the number of payouts between two places that are not superseded, and the due time
        of the first of them, by board. O(payouts between the places)."""
        found: dict[str, tuple[int, int]] = {}
        for condition, bounds in place_ranges(after, until, "l.due_at", "l.serial"):
            rows = self._select(
                f"SELECT l.board, count(*), min(l.due_at) FROM {self._joined} "
                f"WHERE {self._own} AND {condition} AND p.superseded_by IS NULL GROUP BY l.board",
                (self._store, *bounds),
            )
            for board, count, oldest_ms in rows:
                before, first_ms = found.get(board, (0, int(oldest_ms)))
                found[board] = before + int(count), first_ms
        return found

    def mark(self) -> DuePlace:
        """Return the place of the last payout in the list of due payouts."""
        name = self._tables.name("payout_marks")
        rows = self._select(f"SELECT due_at, serial FROM {name} WHERE store = %s", (self._store,))
        return DuePlace(*map(int, rows[0])) if rows else BEFORE_ALL

    def tag_at(self, place: DuePlace) -> int | None:
        """Return the tag of the payout at a place; None if there is no such payout."""
        name = self._tables.name("payout_list")
        rows = self._select(
            f"SELECT l.tag FROM {name} l WHERE {self._own} AND l.serial = %s AND l.due_at = %s",
            (self._store, place.serial, place.due_ms),
        )
        return int(rows[0][0]) if rows else None

    def has_due(self, now_ms: int) -> bool:
        """Return whether any payout that is due at `now_ms` is missing in the list of due
        payouts."""
        return bool(self.between(self.mark(), DuePlace(now_ms, LAST_SERIAL), 1))

    def notes(self, limit: int) -> list[PayoutNote]:
        """Return the next notes, in the order of their numbers."""
        rows = self._select(
            f"SELECT number, uid, window_name, instance, revision, block "
            f"FROM {self._tables.name('payout_notes')} WHERE store = %s ORDER BY number LIMIT %s",
            (self._store, limit),
        )
        return [
            PayoutNote(int(number), uid, decode_blocks(bytes.fromhex(block))[0], *period)
            for number, uid, *period, block in rows
        ]

    @property
    def _joined(self) -> str:
        places, payouts = self._tables.name("payout_list"), self._tables.name("payouts")
        return f"{places} l JOIN {payouts} p ON p.payout = l.payout"

    _own = "l.store = %s"

    def _between(
        self, after: DuePlace, until: DuePlace, limit: int, where: str, arguments: Sequence[Any]
    ) -> list[tuple[int, int, PayoutRow]]:
        found: list[tuple[int, int, PayoutRow]] = []
        for condition, bounds in place_ranges(after, until, "l.due_at", "l.serial"):
            if len(found) < limit:
                found += self._rows(
                    f"{condition} AND {where}",
                    [*bounds, *arguments],
                    "ORDER BY l.due_at, l.serial LIMIT %s",
                    [limit - len(found)],
                )
        return found

    def _rows(
        self, where: str, arguments: Sequence[Any], end: str = "", more: Sequence[Any] = ()
    ) -> Iterator[tuple[int, int, PayoutRow]]:
        """Yield payouts of the store, each with its number and tag."""
        columns = ", ".join([f"p.{column}" for column in SELECTED.split(", ")])
        rows = self._select(
            f"SELECT l.serial, l.tag, {columns} FROM {self._joined} "
            f"WHERE {self._own} AND {where} {end}",
            (self._store, *arguments, *more),
        )
        for serial, tag, *values in rows:
            yield int(serial), int(tag), payout_of_row(tuple(values))

    def _select(self, statement: str, arguments: Sequence[Any]) -> list[Row]:
        return list(self._dialect.execute(self._connection, statement, arguments).fetchall())
