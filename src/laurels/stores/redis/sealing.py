"""Seals closed periods: writes their standings to the ledger of the board, then records the seal.

A period is in the ledger as a whole or not at all, since its row there becomes complete in the last
transaction. If a process fails before the seal is recorded, the next one finds the complete period
in the ledger and records its seal. A lease keeps other processes from doing the same work; it is
not needed for correctness, since the ledger completes only one of several writes of a period.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from laurels.core.board_state import BoardState
from laurels.core.changes.record_blocks import seal_block
from laurels.core.close_schedule import prizes_in
from laurels.core.closing import SealedPeriod, final_ms_of
from laurels.core.lifecycle import oldest_stored
from laurels.core.period_awards import SealedPlace, SealedStandings
from laurels.core.ranking_key import RankingKey
from laurels.core.record import Seal
from laurels.core.sealed_contents import (
    DigestOfPieces,
    SealedRanking,
    SealedRevision,
    SealedRows,
)
from laurels.errors import LaurelsError, NotReady
from laurels.errors.index_server import LedgerRequired, NotOnIndexServer
from laurels.errors.ledger import FinalOvertaken
from laurels.model.board import Board
from laurels.model.labels import ALL
from laurels.model.prizes import prizes_of
from laurels.model.validation import quoted
from laurels.sql.final_writing import PeriodWriter
from laurels.sql.payout_writing import PayoutWriter
from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.deadline import ends_in

from .catalog import BoardCatalog
from .frozen import PeriodToSeal, RankingsToSeal, period_to_seal
from .ledgers import ArchiveSettings, Ledger, Ledgers
from .outdated import ClosingsMoved, DefinitionOutdated, PlanExpired, StepNotReady
from .payouts import ServerPayouts
from .remote import opened_as
from .sealed_index import ledger_standings

LEASE_MS = 60_000
"""How long a process that seals a period keeps others from it, unless it renews the lease."""
RELEASE_SECONDS = 5
"""The time limit of releasing a lease, which ends by itself otherwise."""
ATTEMPTS = 100
ROWS = 10_000
"""About how many entries are written to the ledger in one transaction."""
WAIT_SECONDS = 0.05
"""After this many seconds it is tried again to seal a period that another process is sealing."""


class ServerSealing:
    """Seals the closed periods of boards."""

    def __init__(
        self,
        catalog: BoardCatalog,
        ledgers: Ledgers,
        payouts: ServerPayouts,
        settings: ArchiveSettings,
    ) -> None:
        self._catalog = catalog
        self._ledgers = ledgers
        self.payouts = payouts
        self._turns: dict[str, asyncio.Lock] = {}
        """A lock for each ledger: this process has one lease for all its tasks, so it seals one
        period of a ledger after the other."""
        self._token = settings.token
        self._secret = settings.secret

    async def close(self, state: BoardState) -> int:
        """Close the periods of a board that are due. Return how many this process has closed."""
        if not state.closing:
            return 0
        await self._catalog.closings.load(state)
        state.final_ms = min(state.final_ms, self._catalog.time_of(state))
        return await self._catalog.closings.close_due(state, self._catalog.time_of(state))

    async def seal_board(self, name: str) -> int:
        """Seal all closed periods of a board. Return how many this call has sealed."""
        sealed = 0
        while True:
            done: int | None = await self._catalog.retry_outdated(name, self._seal_next)
            if done is None:
                return sealed
            sealed += done

    def ensure_ledger(self, board: Board, before: Board | None = None) -> None:
        """Raise LedgerRequired if a board has windows with `archive` or `prizes` and names no
        ledger, UnknownLedger if this process does not know its ledger. Raise NotOnIndexServer for a
        window that cannot be archived. Nothing is checked if the definition `before` a change has
        the same windows, scopes and ledger."""
        if before is not None and _archived_as(before) == _archived_as(board):
            return
        rules = board.rules()
        for window in rules.closing:
            if not board.ledger:
                raise LedgerRequired(
                    f"the window {quoted(window)} has archive or prizes: on an index server they "
                    "need a ledger"
                )
            if rules.has_label_replica and rules.windows[window].boundaries(0, 0) is not None:
                raise NotOnIndexServer(
                    f"the window {quoted(window)} has archive_every, and the board has rank_by and "
                    "several shards"
                )
            if all(spec.name for spec in rules.specs):
                raise NotOnIndexServer(
                    f"the window {quoted(window)} has archive or prizes, and the board has no "
                    "ranking of all events"
                )
        if board.ledger:
            self._ledgers.named(board.ledger)

    async def settle_gone(self, state: BoardState) -> int:
        """Close and seal all periods of a board that is no longer retained. Return how many were
        sealed. Raises NotReady, LedgerUnavailable."""
        sealed = 0
        for _ in range(ATTEMPTS):
            try:
                await self.close(state)
                while (done := await self._seal_next(state)) is not None:
                    sealed += done
            except DefinitionOutdated:
                await self._catalog.load()
                if self._catalog.registry.gone.get(state.board.name) is not state:
                    return sealed  # another process has removed the board
                with suppress(DefinitionOutdated):
                    await self._catalog.hidings.update(state)
            except ClosingsMoved:
                await self._catalog.load_closings(state)
            except StepNotReady as error:
                await self._catalog.advance(state, self._catalog.time_of(state), error)
            except PlanExpired as error:
                self._catalog.note_time(state, error.now_ms)
            else:
                await self.payouts.keep_archive(state)
                return sealed
        raise NotReady(f"the board {quoted(state.board.name)} kept changing before its removal")

    async def is_settled(self, state: BoardState) -> bool:
        """Return whether no period of a board is left to be closed or sealed. A period that waits
        for a source is left. Return False if this process's copy of the board is outdated."""
        try:
            await self._catalog.closings.find_open(state)
        except DefinitionOutdated:
            return False
        return not any(closing.open or closing.closed for closing in state.closing.values())

    async def settle(self, state: BoardState) -> None:
        """Before a board is deleted, close its due periods, and seal all closed ones. Raises
        PayoutsOpen, LedgerUnavailable."""
        await self._catalog.retry_outdated(state.board.name, self.close)
        await self.seal_board(state.board.name)
        await self.payouts.ensure_confirmed(state)
        await self.payouts.keep_archive(state)

    async def _seal_next(self, state: BoardState) -> int | None:
        """Seal the next closed period of a board. Return 1 if this process has sealed it, 0 if not,
        and None if no closed period is left."""
        await self._catalog.closings.ensure_loaded(state)
        for window, instance in sorted(self._catalog.closings.unexpired.get(state.number, ())):
            await self._expire(state, window, instance)
        if _next_closed(state) is None:
            return None
        ledger = self._ledgers.named(state.board.ledger)
        async with self._turns.setdefault(ledger.name, asyncio.Lock()):
            # another task may have sealed periods while this one waited for its turn
            chosen = _next_closed(state)
            if chosen is None:
                return None
            return int(await self._seal_period(state, period_to_seal(*chosen), ledger))

    async def _seal_period(self, state: BoardState, period: PeriodToSeal, ledger: Ledger) -> bool:
        """Seal a period. Return False if another process is doing that, or has done it."""
        opened = opened_as(state)
        try:
            if not await self._catalog.index.take_lease(opened, self._token, LEASE_MS):
                await asyncio.sleep(WAIT_SECONDS)
                await self._catalog.closings.load(state)
                return False
            while not await self._catalog.index.feed(opened, self._catalog.time_of(state)):
                pass
            seal = await self._write(state, period, ledger)
            return await self._record(state, period, seal, ledger)
        except FinalOvertaken:  # this process was paused for longer than its lease
            return False
        finally:  # the server may have given a lease even if this task was ended before the answer
            with suppress(LaurelsError), ends_in(RELEASE_SECONDS, anew=True):
                await self._catalog.index.take_lease(opened, self._token, 0)

    async def _write(self, state: BoardState, period: PeriodToSeal, ledger: Ledger) -> SealedPeriod:
        """Write the standings of a period to the ledger, and return the seal. If the ledger has the
        complete period already, write nothing and return the stored seal."""
        prizes = prizes_in(period.board, period.window)
        draft = SealedPeriod(
            self._catalog.time_of(state),
            0,
            b"",
            0,
            period.closed.hide_zero,
            period.closed.hidden,
            "" if prizes is None else prizes.text,
        )
        revision = SealedRevision(state.uid, period.window, period.instance, 0, draft)
        write = _LedgerWrite(ledger, revision, period)
        if prizes is not None and not self._catalog.event_time:
            await self.payouts.register(period.board)
            store = await self.payouts.store()
            write.payouts = partial(self.payouts.writer, ledger, store)
        if (seal := await ledger.write(write.begin)) is not None:
            return seal
        digest = DigestOfPieces()
        pieces: list[SealedRanking | SealedRows] = []
        size = 0
        async for piece in RankingsToSeal(self._catalog, state, period, self._secret).pieces():
            digest.add(piece)
            pieces.append(piece)
            size += piece.size if isinstance(piece, SealedRows) else 1
            if size >= ROWS:
                await ledger.write(write.adding(pieces))
                await self._catalog.index.take_lease(opened_as(state), self._token, LEASE_MS)
                pieces, size = [], 0
        seal = replace(
            draft,
            sealed_ms=self._catalog.time_of(state),
            entries=digest.entries,
            digest=digest.digest(),
        )
        await ledger.write(write.completing(pieces, seal))
        return seal

    async def _record(
        self, state: BoardState, period: PeriodToSeal, seal: SealedPeriod, ledger: Ledger
    ) -> bool:
        """Record the seal of a period that is complete in the ledger."""
        window = state.rules.windows[period.window]
        final_ms = final_ms_of(window, window.period_of(period.instance))
        record = Seal(
            state.number,
            state.version,
            seal.sealed_ms,
            period.window,
            period.instance,
            final_ms,
            seal.revision,
            seal.entries,
            seal.digest,
            new_tag(),
        )
        trimmed = _trimmed(state, period)
        done = await self._catalog.index.record_seal(
            opened_as(state),
            period.window,
            period.instance,
            period.closed,
            seal,
            seal_block(state.rules, record),
            trimmed,
        )
        await self._catalog.closings.load(state)
        await self._expire(state, period.window, period.instance)
        if trimmed:
            await ledger.write(_removing(ledger, state.uid, period.window, max(trimmed)))
        return done

    async def _expire(self, state: BoardState, window: str, instance: int) -> None:
        """Let the keys of a sealed period expire when the window no longer keeps it. If the board
        has ended and this was its last period, also let the other keys of the board expire when the
        board is removed. If the window stopped keeping the period before it was sealed, mark all
        scopes as stale, since some may be empty now. The last step records that all this is done.
        If the process is killed before that, another process does everything again."""
        now_ms = self._catalog.time_of(state)
        opened = opened_as(state)
        await self._catalog.index.expire_sealed(opened, window, instance, now_ms)
        oldest = oldest_stored(state.rules, state.floors, now_ms)
        rule = state.rules.windows[window]
        if rule.steps:  # the ranking kept from a boundary is dropped as soon as it is sealed
            oldest[window] = rule.instance_of(rule.period_at(now_ms))
        if instance < oldest.get(window, instance):
            if rule.steps:
                key = RankingKey(state.number, window, instance, ALL)
                await self._catalog.index.drop(opened, [key])
            await self._catalog.set_scopes_stale(state, now_ms)
        await self._catalog.expire_ended(state, now_ms)
        await self._catalog.closings.record_expiry(state, window, instance)


def _archived_as(board: Board) -> tuple[object, ...]:
    """Return the parts of a definition that decide whether and where periods are archived."""
    return board.windows, board.scopes, board.rank_by, board.ledger


class _LedgerWrite:
    """The transactions that write a period to a ledger. They may block."""

    def __init__(self, ledger: Ledger, revision: SealedRevision, period: PeriodToSeal) -> None:
        self._ledger = ledger
        self._revision = revision
        self._period = period
        self._writer: PeriodWriter | None = None
        self.payouts: Callable[[Any], PayoutWriter] | None = None
        """A function that returns, for a connection, the writer of the period's payouts. None if
        the period has no payouts."""

    def begin(self, connection: Any) -> SealedPeriod | None:
        """Begin to write the period, and return None. If the ledger has the complete period
        already, write nothing and return its seal."""
        writer = self._ledger.locked_writer(connection)
        revision = self._revision
        reader = self._ledger.reader(connection)
        found = reader.period(revision.uid, revision.window, revision.instance)
        if found is not None:
            return found.revision.seal
        period = self._period
        self._writer = writer.begin(
            revision,
            period.board.name,
            period.closed.definition,
            period.rules,
            period.closed.closed_ms,
        )
        return None

    def adding(self, pieces: Sequence[SealedRanking | SealedRows]) -> Callable[[Any], None]:
        """Return the transaction that writes the next pieces."""

        def add(connection: Any) -> None:
            self._ledger.locked_writer(connection)
            writer = self._bound(connection)
            writer.hold()
            writer.add(pieces)

        return add

    def completing(
        self, pieces: Sequence[SealedRanking | SealedRows], seal: SealedPeriod
    ) -> Callable[[Any], None]:
        """Return the transaction that writes the last pieces, and makes the period visible together
        with its payouts."""

        def complete(connection: Any) -> None:
            self._ledger.locked_writer(connection)
            payouts = None if self.payouts is None else self.payouts(connection)
            if payouts is not None:
                payouts.lock()
            writer = self._bound(connection)
            writer.hold()
            writer.add(pieces)
            writer.complete(seal)
            if payouts is not None:
                payouts.make(self._standings(connection, seal), seal.sealed_ms)

        return complete

    def _standings(self, connection: Any, seal: SealedPeriod) -> SealedStandings:
        """Return the standings of the complete period from the ledger."""
        revision, period = self._revision, self._period
        prizes = prizes_of(seal.prizes) if seal.prizes else None
        return ledger_standings(
            self._ledger.reader(connection),
            SealedPlace(revision.uid, period.window, period.instance, revision.revision),
            period.board.name,
            period.rules,
            prizes,
            seal.sealed_ms,
        )

    def _bound(self, connection: Any) -> PeriodWriter:
        assert self._writer is not None, "a period is begun before it is written"
        self._writer.use(self._ledger.writer(connection))
        return self._writer


def _removing(ledger: Ledger, uid: str, window: str, newest: int) -> Callable[[Any], None]:
    """Return the transaction that removes from a ledger the periods of a window up to the instance
    `newest`."""

    def remove(connection: Any) -> None:
        writer = ledger.locked_writer(connection)
        reader = ledger.reader(connection)
        for period in reader.periods(uid, window):
            if period.revision.instance <= newest:
                writer.remove(uid, window, period.revision.instance)

    return remove


def _next_closed(state: BoardState) -> tuple[str, int, Any] | None:
    """Return the closed period whose end is the earliest; None if there is none."""
    closed = [
        (state.rules.windows[name].period_of(instance).end_ms, name, instance)
        for name, closing in state.closing.items()
        for instance in closing.closed
    ]
    if not closed:
        return None
    _, name, instance = min(closed)
    return name, instance, state.closing[name].closed[instance]


def _trimmed(state: BoardState, period: PeriodToSeal) -> list[int]:
    """Return the instances that leave the archive when a period is sealed."""
    rule = state.rules.closing.get(period.window)
    if rule is None or not rule.archive:
        return []
    sealed = sorted([*state.closing[period.window].sealed, period.instance])
    return [each for each in sealed[: -rule.archive] if each != period.instance]
