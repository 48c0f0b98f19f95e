"""Confirms the payouts of boards on an index server, enters them in the list of due payouts, and
records them in the changes of their boards.

Payouts are in the ledger of the board, where they are made in the transaction that completes a
sealed period. A transaction in a ledger that the index server has to record also writes a *note*.
Afterwards any process records the notes on the index server, in their order, and then removes them.
The first shard of a board stores the number of the last note, so each note takes effect once, even
if two processes record it, or if a process is killed before it removes the note.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.changes.payout_blocks import PayoutBlock
from laurels.core.changes.record_blocks import confirm_block
from laurels.core.commands import ConfirmPayout
from laurels.core.due_payouts import BoardSelection, WaitingPayouts
from laurels.core.payouts import Payout, PayoutPage, PayoutRequest, PayoutRow, payout_of
from laurels.errors import Closed, LaurelsError, UnknownBoard
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.payouts import PayoutsOpen
from laurels.model.board import Board
from laurels.model.validation import is_unicode, quoted
from laurels.sql.dialects import Dialect
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.payout_book import LedgerPayouts, PayoutNote
from laurels.sql.payout_copying import PayoutCopies
from laurels.sql.payout_moving import PayoutMoves
from laurels.sql.payout_writing import PayoutWriter
from laurels.stores.intake.confirming import confirm_record, ensure_short_text, unknown_payout
from laurels.stores.intake.tags import new_tag

from .catalog import BoardCatalog
from .ledgers import ArchiveSettings, Ledger, Ledgers
from .payout_lists import STORE, FetchedPayouts, PayoutLists, PayoutPlaces
from .remote import opened_as

SHARE = 500
"""The maximum number of payouts that are entered in the list of due payouts at once."""
NOTES = 100
"""The maximum number of notes that are read at once."""
POLL_NS = 1_000_000_000
"""The interval at which the process looks for due payouts and notes, in nanoseconds."""
RETRY_NS = 10_000_000_000
"""The time from a failure until it looks for them again, in nanoseconds."""

T = TypeVar("T")
K = TypeVar("K")

_log = logging.getLogger("laurels")


class ServerPayouts:
    """The payouts of a store. `elapsed_ns` is a monotonic clock."""

    def __init__(
        self,
        catalog: BoardCatalog,
        ledgers: Ledgers,
        places: PayoutPlaces,
        settings: ArchiveSettings,
        elapsed_ns: Callable[[], int],
    ) -> None:
        self._catalog = catalog
        self._ledgers = ledgers
        self._places = places
        self._lists = PayoutLists(ledgers, places)
        self._token = settings.token
        self._secret = settings.secret
        self._elapsed_ns = elapsed_ns
        self._task: asyncio.Task[None] | None = None
        self._next_ns = 0
        self._named: set[tuple[str, str]] = set()
        """The unique ids and names of the restored boards whose payouts are known to have the
        name."""

    # Where payouts are

    async def register(self, board: Board) -> None:
        """Store that the ledger of a board with prizes will have payouts. Call it before there are
        any."""
        if board.prizes():
            await self.expect(board)

    async def expect(self, board: Board) -> None:
        """Store that the ledger of a board may have payouts."""
        await self._places.add_ledger(board.name, board.ledger)

    async def store(self) -> str:
        """Return the random id of this store. In a ledger it distinguishes the payouts of this
        store from those of other stores."""
        return await self._catalog.registry.first_note(STORE, self._token)

    def writer(self, ledger: Ledger, store: str, connection: Any) -> PayoutWriter:
        """Return a writer of the payouts of this store."""
        return PayoutWriter(ledger.dialect, ledger.prefix, connection, store, self._random)

    def _random(self, bits: int) -> int:
        return int.from_bytes(self._secret((bits + 7) // 8)) >> -bits % 8

    # Reading

    async def fetch(self, board: str, request: PayoutRequest, now_ms: int) -> FetchedPayouts:
        """Read the payouts that a query asks for. Raises LedgerUnavailable, UnknownLedger."""
        store = await self.store()
        await self._ensure_named(board)
        fetched = await self._lists.fetch(store, board, request, now_ms)
        if fetched.received:
            for name in await self._places.ledgers(board):
                await self._publish_copies(self._ledgers.named(name), store)
            fetched = await self._lists.fetch(store, board, request, now_ms)
        return fetched

    async def page(self, after: str | None, limit: int, boards: BoardSelection) -> PayoutPage:
        """Return due payouts; see `DuePayouts`."""
        await self._enter_due()
        return await self._lists.page(await self.store(), after, limit, boards)

    async def waiting(self, after: str | None, boards: BoardSelection) -> list[WaitingPayouts]:
        """Return how many due payouts wait; see `DuePayouts`."""
        await self._enter_due()
        return await self._lists.waiting(await self.store(), after, boards)

    async def positions(self) -> dict[str, str]:
        """Return the positions of all readers; see `DuePayouts`."""
        return await self._lists.positions()

    async def move(self, reader: str, before: str | None, position: str | None) -> None:
        """Move the position of a reader; see `DuePayouts`."""
        await self._lists.move(reader, before, position)

    async def ensure_confirmed(self, state: BoardState) -> None:
        """Raise PayoutsOpen if a board has payouts that are not confirmed."""
        if not state.closing or not state.board.ledger:
            return
        await self._publish_copies(self._ledgers.named(state.board.ledger), await self.store())
        count = await self._lists.open_on(await self.store(), state.board.ledger, state.uid)
        if count:
            raise PayoutsOpen(
                f"the board {quoted(state.board.name)} has payouts that are not confirmed: {count}"
            )

    async def open_periods(self, state: BoardState) -> FetchedPayouts | None:
        """Return the periods with payouts that are not confirmed, for which a board stays after its
        `retain`. Return None if its ledger does not answer."""
        try:
            store = await self.store()
            return await self._lists.open_periods(store, state.board.ledger, state.uid)
        except LedgerUnavailable:
            return None

    async def open_of(self, member: str) -> int:
        """Return how many payouts of a member are neither confirmed nor superseded. Raises
        LedgerUnavailable."""
        return await self._lists.open_of(await self.store(), member)

    async def boards(self) -> dict[str, list[str]]:
        """Return, by ledger, the unique ids of the boards that have or had payouts."""
        return await self._lists.boards(await self.store())

    async def counts(self) -> dict[str, int]:
        """Return the number of payouts of each board, by its unique id. Raises
        LedgerUnavailable."""
        return await self._lists.counts(await self.store())

    async def ensure_named(self, state: BoardState) -> None:
        """If a board was restored, give its payouts and sealed periods the name that it has now. A
        process that was killed may not have done that. O(1) if this process has done it before."""
        if state.cleared is None or not state.cleared.restored or not state.board.ledger:
            return
        named = state.uid, state.board.name
        if named not in self._named:
            rename = partial(PayoutMoves.rename, uid=state.uid, board=state.board.name)
            await self.change(self._ledgers.named(state.board.ledger), PayoutMoves, rename)
            self._named.add(named)

    async def _ensure_named(self, board: str) -> None:
        state = self._catalog.boards.boards.get(board)
        if state is not None:
            await self.ensure_named(state)

    async def keep_archive(self, state: BoardState) -> None:
        """Store in which ledger a board that is about to be deleted has sealed periods."""
        if state.board.ledger and any(each.sealed for each in state.closing.values()):
            await self._places.add_archive(state.uid, state.board.ledger)

    async def archives(self) -> dict[str, str]:
        """Return the ledgers that have sealed periods of deleted boards, by the unique ids of the
        boards."""
        return await self._places.archives()

    # Confirming

    async def confirm(self, command: ConfirmPayout) -> tuple[Payout, bool]:
        """Record that a payout was paid. Return it, and whether this was not recorded before.
        Raises UnknownPayout, PayoutConfirmed, PayoutNotDue, UnknownBoard, LedgerUnavailable."""
        ensure_short_text(command.reference, "reference")
        await self._catalog.load()
        state = self._catalog.boards.boards.get(command.board)
        await self._ensure_named(command.board)
        store, is_id = await self.store(), isinstance(command.payout, str)
        for name in await self._places.ledgers(command.board):
            if not is_id or not is_unicode(command.payout):
                break
            ledger = self._ledgers.named(name)
            # Due payouts are listed first, so that the changes of the board have the payout as due
            # before they have its confirmation.
            await self.settle_ledger(ledger)
            now_ms = self._catalog.now() if state is None else self._catalog.time_of(state)
            confirmation = _Confirmation(command, state, now_ms)
            confirmed = await self._write(ledger, store, confirmation.write)
            if confirmed is not None:
                row, is_new = confirmed
                await self._record_notes(ledger, store)
                return payout_of(row, now_ms), is_new
        self._catalog.boards.named(command.board)
        raise unknown_payout(command.board, command.payout)

    # Due payouts and notes

    async def settle(self) -> None:
        """Enter all payouts that are due in the list of due payouts, and record all notes. Raises
        LedgerUnavailable."""
        if (failure := await self._enter_due()) is not None:
            raise failure

    def start(self) -> None:
        """Do in the background what `settle` does, unless that was done a short time ago."""
        if self._elapsed_ns() < self._next_ns or (self._task and not self._task.done()):
            return
        self._next_ns = self._elapsed_ns() + POLL_NS
        self._task = asyncio.get_running_loop().create_task(self._settle_in_background())

    async def stop(self) -> None:
        """End the work in the background."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _settle_in_background(self) -> None:
        try:
            await self.settle()
        except Closed:
            return
        except LaurelsError as error:
            self._next_ns = self._elapsed_ns() + RETRY_NS
            _log.warning("due payouts could not be listed and will be tried again: %s", error)

    async def _enter_due(self) -> LedgerUnavailable | None:
        """Do the work of `settle`. If a ledger does not answer, continue with the others. Return
        the last error; None if all ledgers have answered."""
        failure: LedgerUnavailable | None = None
        for name in await self._places.ledgers():
            ledger = self._ledgers.named(name)
            try:
                await self.settle_ledger(ledger)
            except LedgerUnavailable as error:
                failure = error
        return failure

    async def _enter_share(self, ledger: Ledger, store: str) -> bool:
        """Enter some due payouts in the list. Return whether more may be due. If none is due, this
        costs one read."""
        now_ms = self._catalog.now()
        if not await self._read(ledger, store, lambda book: book.has_due(now_ms)):
            return False
        await self._catalog.load()
        boards = self._catalog.boards.boards.values()
        recorded = frozenset([state.uid for state in boards if state.rules.changes_ms])
        return await self._write(ledger, store, _Entry(recorded, now_ms).write)

    async def _record_notes(self, ledger: Ledger, store: str) -> None:
        """Record on the index server what transactions in a ledger have noted."""
        while True:
            notes = await self._read(ledger, store, lambda book: book.notes(NOTES))
            for note in notes:
                await self._record_note(ledger, note)
            if notes:
                await self._write(
                    ledger, store, partial(PayoutWriter.forget_notes, number=notes[-1].number)
                )
            if len(notes) < NOTES:
                return

    async def record_notes(self, ledger: Ledger) -> None:
        """Record on the index server what transactions in a ledger have noted."""
        await self._record_notes(ledger, await self.store())

    async def settle_ledger(self, ledger: Ledger) -> None:
        """Do what `settle` does for one ledger. Raises LedgerUnavailable."""
        store = await self.store()
        await self._publish_copies(ledger, store)
        while await self._enter_share(ledger, store):
            pass
        await self._record_notes(ledger, store)

    async def _publish_copies(self, ledger: Ledger, store: str) -> None:
        """Make the payouts of finished copies of boards visible. If the ledger has no payouts of
        copies, this costs one read."""
        numbers = await self._read(ledger, store, LedgerPayouts.received)
        if not numbers:
            return
        await self._catalog.load()
        for number in numbers:
            if self._catalog.boards.find_by_number(number) is not None:
                publish = partial(PayoutCopies.publish, number=number, tag=self._random(48))
                await self.change(ledger, PayoutCopies, publish)

    async def change(
        self,
        ledger: Ledger,
        kind: Callable[[Dialect, str, Any, str], K],
        work: Callable[[K], None],
    ) -> None:
        """Change payouts of this store in a ledger: call `work` with an object of the class `kind`,
        such as `PayoutCopies`, in a transaction. No other process changes payouts of this store
        during the transaction."""
        store = await self.store()

        def change(connection: Any) -> None:
            self.writer(ledger, store, connection).lock()
            work(kind(ledger.dialect, ledger.prefix, connection, store))

        await ledger.write(change)

    async def publish_copies(self, ledger: Ledger) -> None:
        """Make the payouts of finished copies of boards visible."""
        await self._publish_copies(ledger, await self.store())

    async def forget(self, state: BoardState) -> None:
        """Remove the payouts of a board that continues in another store."""
        for ledger in await self.ledgers_of(state.board):
            await self.change(ledger, PayoutMoves, partial(PayoutMoves.forget, uid=state.uid))

    def ledger(self, name: str) -> Ledger:
        """Return the ledger of that name. Raises UnknownLedger."""
        return self._ledgers.named(name)

    async def ledgers_of(self, board: Board) -> list[Ledger]:
        """Return the ledgers that may have payouts of a board."""
        names = {*await self._places.ledgers(board.name)}
        if board.ledger and board.rules().closing:
            names.add(board.ledger)
        return [self._ledgers.named(name) for name in sorted(names)]

    async def _record_note(self, ledger: Ledger, note: PayoutNote) -> None:
        """Record one note, unless its board was deleted."""
        state = self._find(note.uid)
        if state is None:
            await self._catalog.load()
            state = self._find(note.uid)
        if state is None:
            return

        async def record(state: BoardState) -> None:
            if state.uid != note.uid:
                return
            if note.revision is None:
                await self._catalog.index.record_note(opened_as(state), note.number, note.block)
            else:
                await self._record_revision(ledger, state, note)

        try:
            await self._catalog.retry_outdated(state.board.name, record)
        except UnknownBoard:  # the board was deleted meanwhile
            return

    async def _record_revision(self, ledger: Ledger, state: BoardState, note: PayoutNote) -> None:
        """Record the seal of a new revision of a period, unless that is recorded. If the index
        server has lost the seal of the period, do nothing: the period will be sealed again with the
        standings in the ledger."""
        window, instance, revision = note.window, note.instance, note.revision
        assert window is not None
        assert instance is not None
        assert revision is not None

        def read(connection: Any) -> FinalPeriod | None:
            reader = ledger.reader(connection)
            return reader.period(state.uid, window, instance, revision)

        period, done = await ledger.read(read), False
        while period is not None and not done:
            await self._catalog.closings.load(state)
            closing = state.closing.get(window)
            sealed = None if closing is None else closing.sealed.get(instance)
            if sealed is None or sealed.revision >= revision:
                return
            done = await self._catalog.index.record_seal(
                opened_as(state), window, instance, sealed, period.revision.seal, note.block
            )
        await self._catalog.closings.load(state)

    async def _read(self, ledger: Ledger, store: str, work: Callable[[LedgerPayouts], T]) -> T:
        """Return the result of a function that reads the payouts of this store."""

        def read(connection: Any) -> T:
            return work(LedgerPayouts(ledger.dialect, ledger.prefix, connection, store))

        return await ledger.read(read)

    async def _write(self, ledger: Ledger, store: str, work: Callable[[PayoutWriter], T]) -> T:
        """Return the result of a function that changes the payouts of this store. No other process
        changes them meanwhile."""

        def write(connection: Any) -> T:
            writer = self.writer(ledger, store, connection)
            writer.lock()
            return work(writer)

        return await ledger.write(write)

    def _find(self, uid: str) -> BoardState | None:
        for state in self._catalog.boards.boards.values():
            if state.uid == uid:
                return state
        return None


class _Confirmation(Struct, frozen=True):
    """The confirmation of a payout at `now_ms`. `state` is the board of that name, None if there is
    none."""

    command: ConfirmPayout
    state: BoardState | None
    now_ms: int

    def write(self, writer: PayoutWriter) -> tuple[PayoutRow, bool] | None:
        """Confirm the payout, in a transaction of its own. Return it, and whether it was not
        confirmed before; None if the ledger does not have it. Raises PayoutConfirmed,
        PayoutNotDue."""
        payout, reference = self.command.payout, self.command.reference
        row = writer.stored.find(payout)
        if row is None or row.board != self.command.board:
            return None
        state = self.state if self.state is not None and self.state.uid == row.uid else None
        record = confirm_record(state, row, reference, self.now_ms)
        if record is None:
            return row, False
        writer.confirm(row, reference, self.now_ms)
        if state is not None and state.rules.changes_ms:
            writer.note(row.uid, confirm_block(record))
        written = writer.stored.find(payout)
        return None if written is None else (written, True)


class _Entry(Struct, frozen=True):
    """Enters payouts that are due at `now_ms` in the list of due payouts. `recorded` has the unique
    ids of the boards that keep changes."""

    recorded: frozenset[str]
    now_ms: int

    def write(self, writer: PayoutWriter) -> bool:
        """Enter the payouts, in a transaction of its own. Return whether more may be due."""
        entered = writer.emit(self.now_ms, SHARE)
        by_board: dict[str, list[PayoutRow]] = {}
        for row in entered:
            if row.uid in self.recorded:
                by_board.setdefault(row.uid, []).append(row)
        for uid, rows in by_board.items():
            writer.note(uid, PayoutBlock(0, new_tag(), self.now_ms, rows))
        return len(entered) == SHARE
