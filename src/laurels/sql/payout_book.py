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
_LISTED = "p.superseded_by IS NULL AND l.is_erased = 0"
_CONDITIONS: dict[str, Callable[[int], tuple[str, tuple[int, ...]]]] = {
    "pending": lambda now_ms: (f"{_OPEN} AND p.due_at > %s", (now_ms,)),
    "due": lambda now_ms: (f"{_OPEN} AND p.due_at <= %s", (now_ms,)),
    "confirmed": lambda _: ("p.reference IS NOT NULL", ()),
    "superseded": lambda _: ("p.superseded_by IS NOT NULL", ()),
}
"""By state, the SQL condition for payouts in this state, and its arguments."""


class PayoutNote(Struct, frozen=True):
    """A note that a transaction in a ledger left for the index server. The server still has to
    record `block`, a block of changes of the board with the unique id `uid`. With a `revision`, the
    server also has to record that the period is read in this revision from now on."""

    number: int
    uid: str
    block: Block
    window: str | None = None
    instance: int | None = None
    revision: int | None = None


class ListedPayout(Struct, frozen=True):
    """A payout, its place in the list of due payouts, and its tag."""

    place: DuePlace
    tag: int
    row: PayoutRow


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
        found = self._between(
            DuePlace(*after), END, limit, "l.due_at", " AND ".join(conditions), arguments
        )
        return [(each.place.serial, each.row) for each in found]

    def find(self, id: str) -> PayoutRow | None:
        """Return a payout; None if there is none of that id."""
        rows = self._rows("p.payout = %s", [payout_key(id)])
        found = [each.row for each in rows if each.row.id == id]
        return found[0] if found else None

    def of_period(self, uid: str, window: str, instance: int) -> list[PayoutRow]:
        """Return the payouts of a period that are not superseded, in the order of their numbers."""
        where = "l.uid = %s AND l.window_name = %s AND l.instance = %s AND p.superseded_by IS NULL"
        rows = self._rows(where, [uid, window, instance], "ORDER BY l.serial")
        return [each.row for each in rows]

    def open_on(self, uid: str) -> int:
        """Return how many payouts of a board are neither confirmed nor superseded."""
        statement = f"SELECT count(*) FROM {self._joined} WHERE {self._own} AND l.uid = %s"
        return int(self._select(f"{statement} AND {_OPEN}", (self._store, uid))[0][0])

    def open_periods(self, uid: str) -> dict[str, list[int]]:
        """Return, by window, the instances of the periods of a board with payouts that are neither
        confirmed nor superseded. O(payouts of the board)."""
        statement = f"SELECT DISTINCT l.window_name, l.instance FROM {self._joined}"
        rows = self._select(
            f"{statement} WHERE {self._own} AND l.uid = %s AND {_OPEN}", (self._store, uid)
        )
        periods: dict[str, list[int]] = {}
        for window, instance in rows:
            periods.setdefault(str(window), []).append(int(instance))
        return periods

    def open_of(self, member: str) -> int:
        """Return how many payouts of a member are neither confirmed nor superseded. O(payouts)."""
        statement = f"SELECT count(*) FROM {self._joined} WHERE {self._own} AND p.member = %s"
        return int(self._select(f"{statement} AND {_OPEN}", (self._store, escape(member)))[0][0])

    def boards(self) -> list[str]:
        """Return the unique ids of the boards that have or had payouts. O(payouts)."""
        name = self._tables.name("payout_list")
        statement = f"SELECT DISTINCT uid FROM {name} l WHERE {self._own} ORDER BY uid"
        return [str(uid) for (uid,) in self._select(statement, (self._store,))]

    def counts(self) -> dict[str, int]:
        """Return the number of payouts of each board, by its unique id. O(payouts)."""
        name = self._tables.name("payout_list")
        statement = f"SELECT uid, count(*) FROM {name} l WHERE {self._own} GROUP BY uid"
        return {str(uid): int(count) for uid, count in self._select(statement, (self._store,))}

    def knows(self, board: str, window: str | None = None) -> bool:
        """Return whether a board of that name has or had payouts. With a `window`, only payouts of
        this window count."""
        which, arguments = "l.board = %s", [self._store, board]
        if window is not None:
            which, arguments = f"{which} AND l.window_name = %s", [*arguments, window]
        name = self._tables.name("payout_list")
        statement = f"SELECT 1 FROM {name} l WHERE {self._own} AND {which} LIMIT 1"
        return bool(self._select(statement, arguments))

    def between(self, after: DuePlace, until: DuePlace, limit: int) -> list[ListedPayout]:
        """Return up to `limit` payouts between two places in the list of due payouts, in order. The
        place `after` is excluded, the place `until` included. Payouts that are superseded, or whose
        members were erased, are left out."""
        return self._between(after, until, limit, "l.list_at", _LISTED, [])

    def waiting(self, after: DuePlace, until: DuePlace) -> dict[str, tuple[int, int]]:
        """Return, for each board with payouts between two places, the number of the payouts that
        `between` would return without a limit, and their earliest due time. O(payouts between the
        places)."""
        found: dict[str, tuple[int, int]] = {}
        for each in place_ranges(after, until, "l.list_at", "l.serial"):
            rows = self._select(
                f"SELECT l.board, count(*), min(l.due_at) FROM {self._joined} "
                f"WHERE {self._own} AND {each.condition} AND {_LISTED} GROUP BY l.board",
                (self._store, *each.arguments),
            )
            for board, count, oldest_ms in rows:
                before, first_ms = found.get(board, (0, int(oldest_ms)))
                found[board] = before + int(count), min(first_ms, int(oldest_ms))
        return found

    def mark(self) -> DuePlace:
        """Return the place up to which payouts have entered the list of due payouts."""
        name = self._tables.name("payout_marks")
        rows = self._select(f"SELECT due_at, serial FROM {name} WHERE store = %s", (self._store,))
        return DuePlace(*map(int, rows[0])) if rows else BEFORE_ALL

    def tag_at(self, place: DuePlace) -> int | None:
        """Return the tag of the payout at a place; None if there is no such payout."""
        name = self._tables.name("payout_list")
        rows = self._select(
            f"SELECT l.tag FROM {name} l WHERE {self._own} AND l.serial = %s AND l.list_at = %s",
            (self._store, place.serial, place.due_ms),
        )
        return int(rows[0][0]) if rows else None

    def has_due(self, now_ms: int) -> bool:
        """Return whether any payout that is due at `now_ms` is missing in the list of due
        payouts."""
        return bool(self.between(self.mark(), DuePlace(now_ms, LAST_SERIAL), 1))

    def received(self, board: str | None = None) -> list[int]:
        """Return the numbers of the unfinished copies that have payouts: of boards with this name,
        or of all boards."""
        which, arguments = "store = %s", [self._store]
        if board is not None:
            which, arguments = f"{which} AND board = %s", [*arguments, board]
        table = self._tables.name("payout_copies")
        rows = self._select(f"SELECT DISTINCT number FROM {table} WHERE {which}", arguments)
        return sorted([int(number) for (number,) in rows])

    def is_blocked(self, uid: str) -> bool:
        """Return whether the payouts of a board must not change, since the board is being moved to
        another store and its writes are blocked."""
        name = self._tables.name("payout_blocks")
        statement = f"SELECT 1 FROM {name} WHERE store = %s AND uid = %s"
        return bool(self._select(statement, (self._store, uid)))

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
        self,
        after: DuePlace,
        until: DuePlace,
        limit: int,
        time: str,
        where: str,
        arguments: Sequence[Any],
    ) -> list[ListedPayout]:
        """Return payouts in the order of `time`, a column with a time, and of their numbers."""
        found: list[ListedPayout] = []
        for each in place_ranges(after, until, time, "l.serial"):
            if len(found) < limit:
                found += self._rows(
                    f"{each.condition} AND {where}",
                    [*each.arguments, *arguments],
                    f"ORDER BY {each.order} LIMIT %s",
                    [limit - len(found)],
                )
        return found

    def _rows(
        self, where: str, arguments: Sequence[Any], end: str = "", more: Sequence[Any] = ()
    ) -> Iterator[ListedPayout]:
        """Yield payouts of the store."""
        # two stores may have the same payout of boards with different names
        tables = {"board": "l"}
        columns = ", ".join([f"{tables.get(each, 'p')}.{each}" for each in SELECTED.split(", ")])
        rows = self._select(
            f"SELECT l.list_at, l.serial, l.tag, {columns} FROM {self._joined} "
            f"WHERE {self._own} AND {where} {end}",
            (self._store, *arguments, *more),
        )
        for list_ms, serial, tag, *values in rows:
            place = DuePlace(int(list_ms), int(serial))
            yield ListedPayout(place, int(tag), payout_of_row(tuple(values)))

    def _select(self, statement: str, arguments: Sequence[Any]) -> list[Row]:
        return list(self._dialect.execute(self._connection, statement, arguments).fetchall())
