"""Corrections of sealed periods: a disqualification makes a new revision of a period.

The new standings and the changed payouts are written first; then one record of the log puts both
into effect. If the process dies in between, the period is unchanged, and the next correction
replaces what was written.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.board_state import Boards, BoardState
from laurels.core.closing import SealedPeriod
from laurels.core.commands import DisqualifyMember
from laurels.core.correcting import corrected_period
from laurels.core.entry_columns import EntryColumns
from laurels.core.payouts import Revision
from laurels.errors.service import MemberNotRanked
from laurels.model.event import member_bytes
from laurels.model.labels import is_by
from laurels.model.prizes import prizes_of
from laurels.model.validation import quoted
from laurels.stores.intake.confirming import ensure_short_text
from laurels.stores.intake.tags import new_tag
from laurels.stores.intake.writes import Single
from laurels.timeline.calendar import Period

from .archive.ranking import ArchivedRanking
from .archive.ranking_form import FrozenRanking
from .archive.segment import ArchivedPeriod, PeriodKey, WrittenPeriod
from .payouts.making import archived_standings, stage_correction
from .verifying import LocalVerifying


class _Chosen(Struct, frozen=True):
    """The sealed period that a command names: its board, and the scope to be corrected; None stands
    for all scopes."""

    state: BoardState
    period: Period
    sealed: SealedPeriod
    key: PeriodKey
    scope: str | None


class _OutdatedError(Exception):
    """The prepared correction is outdated: a payout has become due, or the period has left the
    archive."""


class LocalCorrections(LocalVerifying):
    """The part of the store of one process that corrects sealed periods."""

    def disqualify(self, command: DisqualifyMember) -> Revision:
        """Make a new revision of a sealed period without a member. O(members of the period)."""
        ensure_short_text(command.reason, "reason")
        member = member_bytes(command.member)
        with self._sealing.exclusive():
            self.ensure_erased()
            while True:
                chosen = self._sealed_period(command)
                new = replace(chosen.key, revision=chosen.key.revision + 1)
                written = self._write_without(chosen, new, member)
                self._stage(chosen, new)
                propose = partial(self._revise, chosen, new, written, command, member)
                try:
                    self.commit(Single(propose, exclusive=True))
                except _OutdatedError:
                    continue
                self._publish_rest(self._rest)
                return Revision(
                    command.board,
                    new.window,
                    chosen.period.label or None,
                    new.revision,
                    written.entries,
                    written.digest.hex(),
                )

    def ensure_erased(self) -> None:
        """Complete the erasures that were interrupted. Raises ArchiveDamaged, StorageFailed if one
        stays incomplete. In that case the payouts may name the token while the archive still names
        the member. Then a correction would pay the member twice, and a copy would contain the
        member."""
        if self._fold.erasing:
            self.complete_erasures()

    @abstractmethod
    def complete_erasures(self) -> None:
        """Complete the erasures that were interrupted. Raises ArchiveDamaged, StorageFailed."""

    def _sealed_period(self, command: DisqualifyMember) -> _Chosen:
        """Return the period that a command names. Raises NotSealed."""
        with self.reading():
            state = self._advanced(command.board)
            found = corrected_period(state, command, self._fold.time_of(state))
            key = PeriodKey(state.uid, found.window, found.instance, found.sealed.revision)
            return _Chosen(state, found.period, found.sealed, key, found.scope)

    def _write_without(self, chosen: _Chosen, new: PeriodKey, member: bytes) -> WrittenPeriod:
        """Write the standings of a period without a member to the archive. Raises MemberNotRanked
        if the member is in none of the rankings to be corrected."""
        period = self._opened(chosen.key)
        scopes = [each.scope for each in period.rankings()]
        affected = {
            scope
            for scope in scopes
            if chosen.scope in (None, scope)
            and not is_by(scope)
            and _ranking(period, scope).position(member) >= 0
        }
        if not affected:
            raise MemberNotRanked(f"{quoted(member.decode())} is not ranked in the period")
        rules, window = chosen.state.rules, new.window

        def rankings() -> Iterator[FrozenRanking]:
            for scope in scopes:
                ranking = _ranking(period, scope)
                left_out = member if scope in affected else None
                if total := len(ranking) - (scope in affected):
                    yield FrozenRanking(
                        scope,
                        rules.rank,
                        rules.score_words(window),
                        rules.order_words(window),
                        total,
                        _chunks(ranking, left_out),
                    )

        [written] = self.archive.write([(new, rankings())])
        return written

    def _stage(self, chosen: _Chosen, new: PeriodKey) -> None:
        """Write the changes of the payouts that the new standings require. They are invisible until
        the record is folded."""
        with self.reading():
            now_ms = self._fold.time_of(chosen.state)
        standings = archived_standings(
            self._opened(new),
            chosen.state.board.name,
            chosen.state.rules,
            prizes_of(chosen.sealed.prizes) if chosen.sealed.prizes else None,
            chosen.period.label,
            chosen.sealed.sealed_ms,
        )
        stage_correction(self.payouts, standings, now_ms)

    def _revise(
        self,
        chosen: _Chosen,
        new: PeriodKey,
        written: WrittenPeriod,
        command: DisqualifyMember,
        member: bytes,
        boards: Boards,
        now_ms: int,
    ) -> records.Record:
        """Return the record that puts the new revision into effect."""
        state = boards.current(chosen.state)
        at_ms = boards.accepts_at(state, now_ms)
        due_ms = self.payouts.next_due_of_replaced(new.uid, new.window, new.instance, new.revision)
        is_due = due_ms is not None and due_ms <= at_ms
        if is_due or state.closing[new.window].sealed.get(new.instance) != chosen.sealed:
            raise _OutdatedError
        return records.Disqualify(
            state.number,
            state.version,
            at_ms,
            new.window,
            new.instance,
            new.revision,
            written.entries,
            written.digest,
            chosen.scope,
            member,
            command.reason,
            new_tag(),
        )


def _ranking(period: ArchivedPeriod, scope: str) -> ArchivedRanking:
    ranking = period.ranking(scope)
    assert ranking is not None, "a scope in the list of a period has a ranking"
    return ranking


def _chunks(ranking: ArchivedRanking, left_out: bytes | None) -> Iterator[EntryColumns]:
    """Yield the entries of a ranking without those of one member."""
    for block in ranking.blocks():
        if left_out in block.members:
            at = block.members.index(left_out)
            members = [*block.members[:at], *block.members[at + 1 :]]
            words = [[*column[:at], *column[at + 1 :]] for column in block.words]
            yield EntryColumns.of(members, words)
        else:
            yield EntryColumns.of(block.members, block.words)
