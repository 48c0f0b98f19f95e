"""Erasing a member from a local store: first from memory, by a record, and then from the files.

The record removes the member from all boards, and notes that its erasure is not complete. Then the
archive, the payouts and the audit log are rewritten durably; doing this again has no effect. At
last another record says that the erasure is complete. If the process is killed before that, the
store completes the erasure when it is opened.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial

from laurels.core.changes.answers import SINK_PREFIX
from laurels.core.commands import EraseMember
from laurels.core.erasing import Erasure, Remaining
from laurels.core.pending_erasure import PendingErasure
from laurels.errors import ArchiveDamaged, PeriodsUnsealed, StorageFailed
from laurels.model.event import member_bytes
from laurels.stores.intake.confirming import ensure_short_text
from laurels.stores.intake.erasing import ErasingWrite, completion, ensure_paid
from laurels.stores.intake.writes import Task

from .correcting import LocalCorrections
from .log.base import ERASED_UNTIL

ATTEMPTS = 10
"""How often all closed periods are sealed before an erasure, until none is closed meanwhile."""
_log = logging.getLogger("laurels")


class LocalErasing(LocalCorrections):
    """The part of the store of one process that erases members."""

    def erase(self, command: EraseMember) -> Erasure:
        """Erase a member. A call that fails after the member was removed from the boards is
        completed by the next one, or when the store is opened. The next one first completes it
        with the token that it had, since some places have this token already."""
        ensure_short_text(command.reason, "reason")
        member = member_bytes(command.member)
        self.take_up()
        with self._sealing.exclusive():
            if member in self._fold.erasing:
                self._carry_out(member)
            numbers = self._erase_from_boards(command, member)
            periods, payouts, entries = self._carry_out(member)
        with self.reading():
            remains = list(self._remaining(numbers, payouts))
            at_ms = self._fold.now_ms
        return Erasure(command.token, at_ms, len(numbers), periods, payouts, entries, remains)

    def ensure_erasable(self, command: EraseMember) -> None:
        """Seal all periods that are due. Raise the errors with which `erase` fails before it
        changes anything: PayoutsOpen, ArchiveDamaged, PayoutsMissing, StorageFailed."""
        ensure_short_text(command.reason, "reason")
        member = member_bytes(command.member)
        self.ensure_usable()
        if self.write_failures.reason is not None:
            self.ensure_writable()
        self.payouts.file.ensure_not_missing()
        with self._sealing.exclusive():
            self._settle_all()
            self._archived_boards(member)
            with self.reading():
                ensure_paid(self._fold, command.member)

    def resume_erasures(self, pause: Callable[[], None]) -> None:
        """Complete the erasures that a failure or a kill has interrupted. If that fails, they stay
        incomplete; a disk that is full is tried again after the next commits. `pause` is called
        between pieces of the work."""
        for pending in list(self._fold.erasing.values()):
            try:
                self._erase_from_files(pending, pause)
                self._complete(pending.member)
            except (ArchiveDamaged, StorageFailed) as error:
                _log.warning("the erasure of %s is not complete: %s", pending.token, error)
                if isinstance(error, ArchiveDamaged):
                    self._blocked_erasures.add(pending.member)

    def complete_erasures(self) -> None:
        """Complete the erasures that were interrupted. Raises ArchiveDamaged, StorageFailed if one
        stays incomplete."""
        for member in list(self._fold.erasing):
            self._carry_out(member)

    def settle_erasures(self) -> None:
        """Wait until no erasure is in progress, and complete those that were interrupted. Raises
        ArchiveDamaged, StorageFailed if one stays incomplete."""
        if self._fold.erasing:
            with self._sealing.exclusive():
                self.complete_erasures()

    def settle_erasures_of(self, members: Collection[str]) -> bool:
        """Do what `settle_erasures` does if one of the members is being erased, and return whether
        one was. If the archive is damaged, only the payouts have the token afterwards."""
        if self._fold.erasing.keys().isdisjoint([member.encode() for member in members]):
            return False
        with suppress(ArchiveDamaged):
            self.settle_erasures()
        return True

    def has_erasures(self) -> bool:
        """Return whether erasures wait for their completion. O(1) if there are none."""
        return bool(self._fold.erasing) and not self._blocked_erasures.issuperset(
            self._fold.erasing
        )

    def _erase_from_boards(self, command: EraseMember, member: bytes) -> list[int]:
        """Remove a member from all boards, and return the numbers of those that had it. Its closed
        periods are sealed first. No snapshot is taken meanwhile, since a copy in progress may have
        event ids of the member already."""
        for attempt in range(ATTEMPTS):
            self._settle_all()
            archived = self._archived_boards(member)
            try:
                with self._snapshot_scheduler.exclusive():
                    numbers: list[int] = self.commit(ErasingWrite(command, archived))
            except PeriodsUnsealed:  # another period was closed meanwhile
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                return numbers
        raise AssertionError("the last attempt returns or raises")

    def _settle_all(self) -> None:
        """Close all periods that are due, and seal all that are closed."""
        with self.reading():
            fold = self.advanced_fold()
            unsettled = [each.number for each in fold.closings.unsettled(fold.boards.values())]
        if unsettled:
            self.commit(Task(partial(self._close_boards, unsettled)))
        while self._seal_some():
            pass

    def _archived_boards(self, member: bytes) -> list[int]:
        """Return the numbers of the boards with sealed periods that have a member."""
        uids = {key.uid for key in self.archive.find(member)}
        with self.reading():
            return [state.number for state in self._fold.boards.values() if state.uid in uids]

    def _carry_out(self, member: bytes) -> tuple[int, int, int]:
        """Complete the erasure of a member. Return what `_erase_from_files` returns."""
        erased = self._erase_from_files(self._fold.erasing[member], self._rest)
        self._complete(member)
        return erased

    def _erase_from_files(
        self, pending: PendingErasure, pause: Callable[[], None]
    ) -> tuple[int, int, int]:
        """Erase a member from the audit log, and from those sealed periods and payouts that existed
        when the erasure began. Return how many periods, payouts and entries had it."""
        name, token = pending.member.decode(), pending.token
        with self.reading():
            erased_from = pending.periods([*self._fold.boards.values()])
        payouts = self.payouts.erase(name, token, erased_from)
        entries = self.audit_log.erase(name, token)
        return self.archive.erase(pending.member, token, pause, erased_from), payouts, entries

    def _complete(self, member: bytes) -> None:
        """Record that the erasure of a member is complete. Also store up to which entry the log may
        name erased members."""
        self.commit(Task(self._note_erased))
        self.commit(completion(member))
        self._blocked_erasures.discard(member)

    def _note_erased(self) -> None:
        """Store in a note up to which entry the log may name erased members: up to the next entry,
        which will record that the erasure is complete."""
        self._log.set_note(ERASED_UNTIL, str(self._log.offset + 1))

    def _remaining(self, numbers: Iterable[int], payouts: int) -> Iterator[Remaining]:
        """Yield the places that may still name a member who was erased from these boards and had
        this number of payouts."""
        states = [state for each in numbers if (state := self._fold.find_by_number(each))]
        if self._files is None:
            yield Remaining("memory", "the store is closed")
        else:
            is_kept = self._log.note("log_keep") == "all"
            trimmed = "two more snapshots have been taken, such as by `laurels snapshot`"
            yield Remaining("log", "the log is no longer kept (log_keep)" if is_kept else trimmed)
            yield Remaining("snapshots", trimmed)
            if aside := self._files.set_aside():
                yield Remaining("snapshots", "these files are removed", None, aside)
            yield Remaining("memory", "the process ends")
        keeping = [*states, *[each.state for each in self._fold.deletions]]
        keeping = [state for state in keeping if state.rules.changes_ms]
        if keeping:
            until_ms = self._fold.now_ms + max([state.rules.changes_ms for state in keeping])
            names = sorted({state.board.name for state in keeping})
            yield Remaining("changes", "the boards no longer keep them", until_ms, names)
        sources = {source for state in states for source in state.positions}
        if payouts:
            # A reader of due payouts stores its position under the name of its source, followed by
            # the patterns of its boards.
            sources.update(name.partition(" ")[0] for name in self.payouts.due.positions())
        sinks = sorted(
            source.removeprefix(SINK_PREFIX) for source in sources if source.startswith(SINK_PREFIX)
        )
        if sinks:
            yield Remaining(
                "sinks", "their targets have carried out the change `erase`", None, sinks
            )
        if self._files is not None:
            yield Remaining("backups", "they are removed")
