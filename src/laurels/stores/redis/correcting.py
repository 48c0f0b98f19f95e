"""Corrections of sealed periods in a ledger: a disqualification makes a new revision of a period.

The standings of the revision are written in several transactions, in which they are invisible. The
last transaction makes the revision valid and corrects the payouts. It also writes a note for the
index server, which has to record the valid revision and the change of the board. If the process
dies before the last transaction, the period is unchanged. If it dies after that, another process
records the note.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.board_state import BoardState
from laurels.core.changes.record_blocks import disqualify_block, seal_block
from laurels.core.closing import SealedPeriod, final_ms_of
from laurels.core.commands import DisqualifyMember
from laurels.core.correcting import CorrectedPeriod, corrected_period
from laurels.core.payouts import Revision
from laurels.core.period_awards import SealedPlace
from laurels.core.sealed_contents import (
    DigestOfPieces,
    SealedRanking,
    SealedRevision,
    SealedRows,
    sealed_rows,
)
from laurels.errors import ArchiveDamaged, LaurelsError, NotReady
from laurels.errors.ledger import FinalOvertaken
from laurels.errors.service import MemberNotRanked
from laurels.model.board import Board
from laurels.model.event import member_bytes
from laurels.model.labels import is_by
from laurels.model.prizes import prizes_of
from laurels.model.validation import quoted
from laurels.sql.final_periods import FinalPeriod
from laurels.sql.final_reading import CHUNK, FinalReader
from laurels.sql.final_writing import PeriodWriter
from laurels.sql.payout_writing import PayoutWriter
from laurels.stores.intake.confirming import ensure_short_text
from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.deadline import ends_in

from . import sealing
from .catalog import ATTEMPTS, BoardCatalog
from .ledgers import ArchiveSettings, Ledger, Ledgers
from .payouts import ServerPayouts
from .remote import opened_as
from .sealed_index import ledger_standings


class ServerCorrections:
    """Corrects sealed periods of boards."""

    def __init__(
        self,
        catalog: BoardCatalog,
        ledgers: Ledgers,
        payouts: ServerPayouts,
        settings: ArchiveSettings,
    ) -> None:
        self._catalog = catalog
        self._ledgers = ledgers
        self._payouts = payouts
        self._secret = settings.secret

    async def disqualify(self, command: DisqualifyMember) -> Revision:
        """Make a new revision of a sealed period without a member. O(members of the period). Raises
        NotSealed, MemberNotRanked, UnknownBoard, LedgerUnavailable, and the errors of a period that
        cannot be read."""
        ensure_short_text(command.reason, "reason")
        member = member_bytes(command.member)
        await self._catalog.load()
        attempt = partial(self._attempt, command, member)
        for _ in range(ATTEMPTS):
            revision: Revision | None = await self._catalog.retry_outdated(command.board, attempt)
            if revision is not None:
                return revision
            await asyncio.sleep(sealing.WAIT_SECONDS)
        raise NotReady(
            f"another process is sealing or correcting periods of the board {quoted(command.board)}"
        )

    async def _attempt(
        self, command: DisqualifyMember, member: bytes, state: BoardState
    ) -> Revision | None:
        """Correct a period. Return None if another call or process is working on the sealed periods
        of the board."""
        if state.closing:
            await self._catalog.closings.load(state)
        corrected_period(state, command, self._catalog.time_of(state))
        await self._payouts.ensure_named(state)
        ledger = self._ledgers.named(state.board.ledger)
        # This also records the notes that an interrupted correction has left.
        await self._payouts.settle_ledger(ledger)
        opened, token = opened_as(state), self._secret(8).hex()
        try:
            if not await self._catalog.index.take_lease(opened, token, sealing.LEASE_MS):
                return None
            await self._catalog.closings.load(state)
            chosen = corrected_period(state, command, self._catalog.time_of(state))
            if await self._adopt_newer(state, chosen, ledger):
                return None
            return await self._correct(command, member, state, chosen, ledger, token)
        except FinalOvertaken:  # this process was paused for longer than its lease
            return None
        finally:
            with suppress(LaurelsError), ends_in(sealing.RELEASE_SECONDS, anew=True):
                await self._catalog.index.take_lease(opened_as(state), token, 0)

    async def _adopt_newer(
        self, state: BoardState, chosen: CorrectedPeriod, ledger: Ledger
    ) -> bool:
        """If the ledger has a newer revision of the period than the index server, which may have
        lost its newest records, record this revision on the index server and return True."""
        place = state.uid, chosen.window, chosen.instance

        def read(connection: Any) -> FinalPeriod | None:
            return ledger.reader(connection).period(*place)

        found = await ledger.read(read)
        if found is None:
            raise ArchiveDamaged(
                f"the ledger has no standings of the period {chosen.period.label} of the window "
                f"{quoted(chosen.window)}"
            )
        if found.revision.revision <= chosen.sealed.revision:
            return False
        seal = found.revision.seal
        window = state.rules.windows[chosen.window]
        record = records.Seal(
            state.number,
            state.version,
            seal.sealed_ms,
            chosen.window,
            chosen.instance,
            final_ms_of(window, chosen.period),
            seal.revision,
            seal.entries,
            seal.digest,
            new_tag(),
        )
        await self._catalog.index.record_seal(
            opened_as(state),
            chosen.window,
            chosen.instance,
            chosen.sealed,
            seal,
            seal_block(state.rules, record),
        )
        await self._catalog.closings.load(state)
        return True

    async def _correct(
        self,
        command: DisqualifyMember,
        member: bytes,
        state: BoardState,
        chosen: CorrectedPeriod,
        ledger: Ledger,
        token: str,
    ) -> Revision:
        """Write the new revision of a period, and make it valid."""
        write = _RevisionWrite(ledger, state, chosen, member, self._secret)
        await ledger.write(write.begin)
        while not await ledger.write(write.copy):
            await self._catalog.index.take_lease(opened_as(state), token, sealing.LEASE_MS)
        if chosen.sealed.prizes and not self._catalog.event_time:
            await self._payouts.register(write.board)
        store, now_ms = await self._payouts.store(), self._catalog.time_of(state)
        payouts = partial(self._payouts.writer, ledger, store)
        makes_payouts = not self._catalog.event_time
        await ledger.write(
            partial(
                write.complete,
                command=command,
                now_ms=now_ms,
                payouts=payouts,
                makes_payouts=makes_payouts,
            )
        )
        await self._payouts.record_notes(ledger)
        seal = write.seal()
        return Revision(
            command.board,
            chosen.window,
            chosen.period.label or None,
            seal.revision,
            seal.entries,
            seal.digest.hex(),
        )


class _RevisionWrite:
    """The transactions that write a new revision of a period. They may block."""

    def __init__(
        self,
        ledger: Ledger,
        state: BoardState,
        chosen: CorrectedPeriod,
        member: bytes,
        secret: Callable[[int], bytes],
    ) -> None:
        self._ledger = ledger
        self._state = state
        self._chosen = chosen
        self._member = member
        self._secret = secret
        self._digest = DigestOfPieces()
        self._left: list[str] = []
        """The scopes whose rankings are not copied completely. Of the ranking of the first one,
        `_position` entries are copied."""
        self._position = 0
        self._affected: frozenset[str] = frozenset()
        self._before: FinalPeriod | None = None
        self._writer: PeriodWriter | None = None

    @property
    def board(self) -> Board:
        """The board as it was defined when the period was closed."""
        return Board.from_json(self._source.definition)

    def begin(self, connection: Any) -> None:
        """Begin to write the revision. Raises MemberNotRanked if the member is in none of the
        rankings to be corrected."""
        writer, reader = self._ledger.locked_writer(connection), self._ledger.reader(connection)
        chosen, uid = self._chosen, self._state.uid
        revision = chosen.sealed.revision
        self._before = reader.period(uid, chosen.window, chosen.instance, revision)
        rankings = reader.rankings(self._source)
        self._left = [ranking.form.scope for ranking in rankings]
        self._affected = frozenset(
            [
                ranking.form.scope
                for ranking in rankings
                if chosen.scope in (None, ranking.form.scope)
                and not is_by(ranking.form.scope)
                and ranking.position(self._member) >= 0
            ]
        )
        if not self._affected:
            raise MemberNotRanked(f"{quoted(self._member.decode())} is not ranked in the period")
        draft = replace(chosen.sealed, revision=revision + 1)
        new = SealedRevision(uid, chosen.window, chosen.instance, revision + 1, draft)
        source = self._source
        self._writer = writer.begin(new, source.board, source.definition, source.rules())

    def copy(self, connection: Any) -> bool:
        """Copy the next entries. Return whether all are copied."""
        writer = self._bound(connection)
        writer.hold()
        reader, room = self._ledger.reader(connection), sealing.ROWS
        pieces: list[SealedRanking | SealedRows] = []
        while room > 0 and self._left:
            room -= self._copy_some(reader, pieces, min(room, CHUNK))
        for piece in pieces:
            self._digest.add(piece)
        writer.add(pieces)
        return not self._left

    def complete(
        self,
        connection: Any,
        *,
        command: DisqualifyMember,
        now_ms: int,
        payouts: Callable[[Any], PayoutWriter],
        makes_payouts: bool,
    ) -> None:
        """Make the revision valid, correct the payouts, and write the note for the index server."""
        self._ledger.locked_writer(connection)
        changed = payouts(connection)
        changed.lock()
        writer, seal = self._bound(connection), self.seal()
        state, chosen = self._state, self._chosen
        writer.hold()
        writer.complete(seal)
        place = SealedPlace(state.uid, chosen.window, chosen.instance, seal.revision)
        prizes = prizes_of(seal.prizes) if seal.prizes and makes_payouts else None
        source = self._source
        standings = ledger_standings(
            self._ledger.reader(connection),
            place,
            source.board,
            source.rules(),
            prizes,
            seal.sealed_ms,
        )
        changed.correct(standings, now_ms)
        record = records.Disqualify(
            state.number,
            state.version,
            now_ms,
            chosen.window,
            chosen.instance,
            seal.revision,
            seal.entries,
            seal.digest,
            chosen.scope,
            self._member,
            command.reason,
            new_tag(),
        )
        block = disqualify_block(state.rules, record)
        changed.note(state.uid, block, (chosen.window, chosen.instance, seal.revision))

    def seal(self) -> SealedPeriod:
        """Return the seal of the revision, once all entries are copied."""
        before = self._chosen.sealed
        return replace(
            before,
            revision=before.revision + 1,
            entries=self._digest.entries,
            digest=self._digest.digest(),
        )

    def _copy_some(
        self, reader: FinalReader, pieces: list[SealedRanking | SealedRows], limit: int
    ) -> int:
        """Add about `limit` entries of the next ranking to `pieces`. Return how many were read."""
        scope = self._left[0]
        ranking = reader.ranking(self._source, scope)
        assert ranking is not None, "a scope in the list of a period has a ranking"
        left_out = self._member.decode() if scope in self._affected else None
        total = len(ranking) - (left_out is not None)
        if not self._position and total:
            secrets = [(0, 0, self._secret(16))]
            ranked = ranking.form.members
            if ranked is not None:
                ranked -= left_out is not None
            form = replace(ranking.form, total=total, secrets=secrets, erased=[], members=ranked)
            pieces.append(form)
        part = ranking.slice(self._position, self._position + limit)
        self._position += len(part.members)
        if rows := _without(part.members, part.words, left_out):
            pieces.append(rows)
        if self._position >= len(ranking):
            del self._left[0]
            self._position = 0
        return len(part.members) + 1

    @property
    def _source(self) -> FinalPeriod:
        """The revision before the one that is written. Raises ArchiveDamaged if the ledger does not
        have it."""
        if self._before is None:
            raise ArchiveDamaged(
                f"the ledger has no standings of the period {self._chosen.period.label} of the "
                f"window {quoted(self._chosen.window)}"
            )
        return self._before

    def _bound(self, connection: Any) -> PeriodWriter:
        assert self._writer is not None, "a revision is begun before it is written"
        self._writer.use(self._ledger.writer(connection))
        return self._writer


def _without(
    members: Sequence[str], words: Sequence[Sequence[int]], left_out: str | None
) -> SealedRows | None:
    """Return entries without those of one member; None if there are none left."""
    kept = [i for i, member in enumerate(members) if member != left_out]
    if not kept:
        return None
    names = [members[i].encode() for i in kept]
    return sealed_rows(names, [[column[i] for i in kept] for column in words])
