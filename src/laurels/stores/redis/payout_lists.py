"""The payouts of a store in the ledgers of its boards: lists of them, and the list of those that
are due.

A store may have payouts in several ledgers, each of which has a list of its own. A cursor of the
list of due payouts has a place in each of them: `main:1700000000000-5-9f,other:…`. As long as other
ledgers have payouts, a ledger that does not answer is left out, and its part of the cursor stays
unchanged.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from laurels.core.due_payouts import (
    BoardSelection,
    DueCursor,
    DueScan,
    WaitingPayouts,
    due_cursor,
    page_limit,
    reader_name,
    scan_due,
)
from laurels.core.payouts import (
    BEFORE_ALL,
    DuePlace,
    PayoutFilter,
    PayoutPage,
    PayoutRequest,
    PayoutRow,
    payout_of,
)
from laurels.errors import InvalidCursor, PositionMoved
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.payouts import PayoutsDiverged
from laurels.model.validation import quoted, safe_repr
from laurels.sql.payout_book import LedgerPayouts

from .ledgers import Ledger, Ledgers

STORE = "payouts"
"""The note with the random id of this store, by which its payouts are found in a ledger."""


class PayoutPlaces(Protocol):
    """The protocol for data about payouts on the index server: which ledgers have payouts of a
    store, and the positions of the readers of due payouts."""

    async def add_ledger(self, board: str, ledger: str) -> None:
        """Store that a ledger may have payouts of boards of this name."""

    async def ledgers(self, board: str | None = None) -> list[str]:
        """Return the names of the ledgers that may have payouts of boards of this name; None stands
        for all boards."""

    async def add_archive(self, uid: str, ledger: str) -> None:
        """Store which ledger has sealed periods of a board that is deleted."""

    async def archives(self) -> dict[str, str]:
        """Return the ledgers that have sealed periods of deleted boards, by the unique ids of the
        boards."""

    async def positions(self) -> dict[str, str]:
        """Return the positions of all readers of the due payouts, by their names."""

    async def move(self, reader: str, before: str, position: str) -> str | None:
        """If the stored position of a reader is `before` ('' for none), replace it and return None.
        Otherwise return the stored position."""


class FetchedPayouts(Struct, frozen=True):
    """Payouts of one query that were read before its answer is made; see `PayoutReads`. `received`
    means that a ledger also has payouts of a copy that may be finished by now; these payouts may be
    missing here. `open` has the periods with payouts that are not confirmed, by window, if the
    query needs them."""

    rows: list[tuple[int, PayoutRow]] = []
    has_board: bool = False
    has_window: bool = False
    received: bool = False
    open: dict[str, list[int]] = {}

    def page(
        self, wanted: PayoutFilter, now_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[int, PayoutRow]]:
        return self.rows[:limit]

    def knows(self, board: str, window: str | None = None) -> bool:
        return self.has_board if window is None else self.has_window

    def open_periods(self, uid: str, window: str) -> list[int]:
        return self.open.get(window, [])


class PayoutLists:
    """Reads the payouts of a store. `places` has the data about them on the index server."""

    def __init__(self, ledgers: Ledgers, places: PayoutPlaces) -> None:
        self._ledgers = ledgers
        self._places = places

    async def fetch(
        self, store: str, board: str, request: PayoutRequest, now_ms: int
    ) -> FetchedPayouts:
        """Read the payouts of a board. Raises LedgerUnavailable, UnknownLedger."""

        def read(book: LedgerPayouts) -> FetchedPayouts:
            window = request.wanted.window
            return FetchedPayouts(
                book.page(request.wanted, now_ms, request.after, request.limit),
                book.knows(board),
                window is not None and book.knows(board, window),
                bool(book.received(board)),
            )

        fetched = [
            await self._read(self._ledgers.named(name), store, read)
            for name in await self._places.ledgers(board)
        ]
        rows = heapq.merge(
            *[each.rows for each in fetched], key=lambda row: (row[1].due_ms, row[0])
        )
        return FetchedPayouts(
            list(rows),
            any(each.has_board for each in fetched),
            any(each.has_window for each in fetched),
            any(each.received for each in fetched),
        )

    async def page(
        self, store: str, after: str | None, limit: int, boards: BoardSelection
    ) -> PayoutPage:
        """Return due payouts; see `DuePayouts.page`. Raises LedgerUnavailable if some ledger does
        not answer and the other ledgers have no payouts after the cursor."""
        count, cursors = page_limit(limit), _cursors(after)
        names = await self._places.ledgers()
        _ensure_in_ledgers(cursors, names)
        scans: dict[str, DueScan] = {}
        failure: LedgerUnavailable | None = None
        for name in names:
            reading = _Scan(cursors.get(name), count, boards)
            try:
                scans[name] = await self._read(self._ledgers.named(name), store, reading.read)
            except LedgerUnavailable as error:
                failure = error
        merged = heapq.merge(
            *[
                [(row, name, cursor) for cursor, row in scan.payouts]
                for name, scan in scans.items()
            ],
            key=lambda each: each[2].place.due_ms,
        )
        shown = list(merged)[:count]
        if failure is not None and not shown:
            raise failure
        for name, scan in scans.items():
            own = [cursor for _, of, cursor in shown if of == name]
            end = scan.cursor if len(own) == len(scan.payouts) else own[-1] if own else None
            if end is not None:
                cursors[name] = end
        more = any(scan.more or scan.cursor != cursors.get(name) for name, scan in scans.items())
        cursor = _joined(cursors)
        payouts = [payout_of(row, row.due_ms) for row, _, _ in shown]
        return PayoutPage(payouts, cursor if more else None, cursor)

    async def waiting(
        self, store: str, after: str | None, boards: BoardSelection
    ) -> list[WaitingPayouts]:
        """Return how many payouts wait; see `DuePayouts.waiting`."""
        cursors = _cursors(after)
        names = await self._places.ledgers()
        _ensure_in_ledgers(cursors, names)
        counts: dict[str, tuple[int, int]] = {}
        for name in names:
            cursor = cursors.get(name)

            def read(
                book: LedgerPayouts, cursor: DueCursor | None = cursor
            ) -> dict[str, tuple[int, int]]:
                return book.waiting(_place(book, cursor), book.mark())

            found = await self._read(self._ledgers.named(name), store, read)
            for board, (count, oldest_ms) in found.items():
                before, first_ms = counts.get(board, (0, oldest_ms))
                counts[board] = before + count, min(first_ms, oldest_ms)
        return [
            WaitingPayouts(board, *counts[board]) for board in sorted(counts) if boards.has(board)
        ]

    async def positions(self) -> dict[str, str]:
        """Return the positions of all readers, in the order of their names."""
        return dict(sorted((await self._places.positions()).items()))

    async def move(self, reader: str, before: str | None, position: str | None) -> None:
        """Move the position of a reader; see `DuePayouts.move`."""
        name = reader_name(reader)
        _cursors(before)
        _cursors(position)
        stored = await self._places.move(name, before or "", position or "")
        if stored is not None:
            raise PositionMoved(
                f"expected the position {before} of {quoted(name)} in the due payouts, "
                f"got {stored or None}"
            )

    async def open_on(self, store: str, ledger: str, uid: str) -> int:
        """Return how many payouts of a board are neither confirmed nor superseded."""
        found: int = await self._read(
            self._ledgers.named(ledger), store, lambda book: book.open_on(uid)
        )
        return found

    async def open_periods(self, store: str, ledger: str, uid: str) -> FetchedPayouts:
        """Return the periods of a board with payouts that are not confirmed."""
        periods: dict[str, list[int]] = await self._read(
            self._ledgers.named(ledger), store, lambda book: book.open_periods(uid)
        )
        return FetchedPayouts(open=periods)

    async def open_of(self, store: str, member: str) -> int:
        """Return how many payouts of a member are neither confirmed nor superseded, in all
        ledgers. Raises LedgerUnavailable."""
        return sum(
            [
                await self._read(
                    self._ledgers.named(name), store, lambda book: book.open_of(member)
                )
                for name in await self._places.ledgers()
            ]
        )

    async def counts(self, store: str) -> dict[str, int]:
        """Return the number of payouts of each board, by its unique id. Raises
        LedgerUnavailable."""
        counts: dict[str, int] = {}
        for name in await self._places.ledgers():
            found = await self._read(self._ledgers.named(name), store, LedgerPayouts.counts)
            for uid, count in found.items():
                counts[uid] = counts.get(uid, 0) + count
        return counts

    async def boards(self, store: str) -> dict[str, list[str]]:
        """Return, by ledger, the unique ids of the boards that have or had payouts. Raises
        LedgerUnavailable."""
        return {
            name: await self._read(self._ledgers.named(name), store, LedgerPayouts.boards)
            for name in await self._places.ledgers()
        }

    async def _read(self, ledger: Ledger, store: str, work: Any) -> Any:
        """Return the result of a function that reads the payouts of this store in a ledger."""

        def read(connection: Any) -> Any:
            return work(LedgerPayouts(ledger.dialect, ledger.prefix, connection, store))

        return await ledger.read(read)


class _Scan(Struct, frozen=True):
    """A read of the due payouts in one ledger."""

    after: DueCursor | None
    limit: int
    boards: BoardSelection

    def read(self, book: LedgerPayouts) -> DueScan:
        """Return the payouts after the cursor. Raises PayoutsDiverged."""
        _place(book, self.after)
        until = book.mark()

        def rows_after(place: DuePlace, limit: int) -> list[tuple[DueCursor, PayoutRow]]:
            return [
                (DueCursor(each.place, each.tag), each.row)
                for each in book.between(place, until, limit)
            ]

        return scan_due(rows_after, self.after, self.limit, self.boards)


def _place(book: LedgerPayouts, cursor: DueCursor | None) -> DuePlace:
    """Return the place after which a cursor continues, the beginning for None. Raises
    PayoutsDiverged if another payout, or none, is at the cursor's place."""
    if cursor is None:
        return BEFORE_ALL
    if book.tag_at(cursor.place) != cursor.tag:
        raise PayoutsDiverged(f"the store has no due payout at {cursor.encode()}")
    return cursor.place


def _cursors(text: object) -> dict[str, DueCursor]:
    """Decode a cursor: a place for each ledger. Raises InvalidCursor."""
    if text is None:
        return {}
    if not isinstance(text, str):
        raise InvalidCursor(f"expected the cursor of a page of due payouts, got {safe_repr(text)}")
    found = {}
    for part in text.split(","):
        name, _, encoded = part.rpartition(":")
        cursor = due_cursor(encoded)
        assert cursor is not None, "a text is not the beginning of the list"
        found[name] = cursor
    return found


def _joined(cursors: Mapping[str, DueCursor]) -> str | None:
    """Return the places in all ledgers as one cursor; None at the beginning of the list."""
    return ",".join([f"{name}:{cursors[name].encode()}" for name in sorted(cursors)]) or None


def _ensure_in_ledgers(cursors: Mapping[str, DueCursor], names: Sequence[str]) -> None:
    """Raise PayoutsDiverged if a cursor has a place in a ledger in which the store has no
    payouts."""
    for name in cursors:
        if name not in names:
            raise PayoutsDiverged(f"the store has no payouts in the ledger {quoted(name)}")
