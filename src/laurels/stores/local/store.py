"""The store of one process. It accepts writes, logs them and folds them into an index, which
answers queries.

Writes are gathered into commits (`intake.commit`). A commit determines the time `now`, and appends
the records of all its writes to the log as one entry. Once the entry is durable, the commit folds
the records under the lock that readers take as well. So no answer shows half a commit, no read
waits for a disk, and a failed append leaves the index unchanged.
"""

import asyncio
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, Unpack

from laurels.core.commands import (
    ClearBoard,
    Command,
    ConfirmPayout,
    CreateBoard,
    DefinitionCommand,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HidingCommand,
    Submit,
    SubmitMany,
    UndeleteBoard,
    board_of,
)
from laurels.core.due_payouts import UnerasedPayouts
from laurels.core.index import Index
from laurels.core.named_windows import spec_named
from laurels.core.receipt import Receipts
from laurels.errors import PeriodsUnsealed, StorageFailed
from laurels.stores.intake import forks
from laurels.stores.intake.accept import (
    SubmitOptions,
    is_plain,
    submission,
)
from laurels.stores.intake.commands import (
    copy_event,
    is_long,
    result_of,
    to_write,
)
from laurels.stores.intake.commit import Committer
from laurels.stores.intake.deleted_positions import DeletedMove, sink_move
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite
from laurels.stores.local.changes.base import ChangeRows
from laurels.stores.local.log.base import Log
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.timeline.clock import Clock
from laurels.wire.audit_entry import ErasableAudit

from .archive.archive import Archive
from .copies import LocalCopies
from .erasing import LocalErasing
from .payouts.making import stage_drafts
from .payouts.table import PayoutTable

MIN_SHARE = 256
SETTLING_ATTEMPTS = 3
"""How often the periods of a board that is deleted are sealed, until none is closed meanwhile."""

BoardCommand = CreateBoard | ClearBoard | DeleteBoard | UndeleteBoard
SettledCommand = BoardCommand | HidingCommand
"""A write before which periods that are due are closed or sealed."""

T = TypeVar("T")


class Service(LocalErasing):
    """The store of one process. The state, reads, commits and upkeep are in its base classes, each
    in a module of its own."""

    def __init__(
        self,
        log: Log,
        new_index: Callable[[], Index],
        clock: Clock,
        clock_name: str | None = None,
        snapshots: SnapshotFiles | None = None,
        rest: Callable[[], None] = lambda: None,
        stopwatch: Callable[[], float] = lambda: 0.0,
        changes: ChangeRows | None = None,
        audit_log: ErasableAudit | None = None,
        archive: Archive | None = None,
        payouts: PayoutTable | None = None,
    ) -> None:
        super().__init__(
            log,
            new_index,
            clock,
            clock_name,
            snapshots,
            rest,
            stopwatch,
            changes,
            audit_log,
            archive,
            payouts,
        )
        if not self._event_time:  # in event time a history is replayed, so no payouts are made
            self.before_seal.append(partial(stage_drafts, self.payouts, self.archive))
        self._committer = Committer(self._commit, self._after_commit, stopwatch)
        if self._fold.erasing:
            self.start_sealing()

    @property
    def due_payouts(self) -> UnerasedPayouts:
        """The list of due payouts. If no task of an event loop does the due work, the payouts that
        are due are emitted first."""
        self.ensure_usable()
        if not self.paced:
            with suppress(StorageFailed):  # the payouts stay due
                self.emit_due()
        return UnerasedPayouts(self.payouts.due, self.settle_erasures_of)

    @property
    def copies(self) -> LocalCopies:
        """Access to whole boards, for copies. Each call makes a new object. A stored object and the
        store would form a reference cycle: a store that is no longer used would then not be freed
        at once, and its folder would stay locked."""
        return LocalCopies(self)

    def close(self) -> None:
        """Commit all queued writes, and close the store. A second call does nothing."""
        if self._forks != forks.count or not self._closing.acquire(blocking=False):
            return
        self._sealing.wait()
        self._committer.close()
        self._snapshot_on_close()
        self._unusable_reason = self._unusable_reason or "the store is closed"
        self._snapshot_scheduler.wait()
        for action in self._on_close:
            action()

    def submission(
        self,
        board: str,
        events: Iterable[Any],
        window: str | None,
        **options: Unpack[SubmitOptions],
    ) -> Submission:
        """Accept events: validate their form and turn them into columns."""
        return submission(self.named(board), events, window, event_time=self._event_time, **options)

    def write(self, command: Command[T]) -> T:
        """Carry out a command and return its result. Raise an error if it is refused."""
        if isinstance(command, SettledCommand):
            committed = self._write_settled(command)
        elif isinstance(command, DisqualifyMember):
            committed = self.disqualify(command)
        elif isinstance(command, EraseMember):
            committed = self.erase(command)
        else:
            committed = self.commit(self._to_write(command))
        if isinstance(command, DefinitionCommand):
            committed = self.definition(command.defines)
        elif isinstance(command, ConfirmPayout):
            committed = self.payout(command.payout)
        return result_of(command, committed)

    async def write_async(self, command: Command[T]) -> T:
        """Carry out a command for a task of an event loop, without blocking the loop on a disk."""
        self.ensure_usable()
        committed: Any
        place = 0
        if isinstance(command, Submit) and not command.absolute:
            committed, place = await self.submit_one(
                command.board, copy_event(command.event), command.window, command.scope
            )
        elif isinstance(command, SettledCommand):
            committed = await asyncio.to_thread(self._write_settled, command)
        elif isinstance(command, DisqualifyMember):
            committed = await asyncio.to_thread(self.disqualify, command)
        elif isinstance(command, EraseMember):
            committed = await asyncio.to_thread(self.erase, command)
        else:
            accept = partial(self._to_write, command)
            write = await asyncio.to_thread(accept) if is_long(command) else accept()
            committed = await self.commit_async(write)
        if isinstance(command, DefinitionCommand):
            committed = self.definition(command.defines)
        elif isinstance(command, ConfirmPayout):
            committed = self.payout(command.payout)
        return result_of(command, committed, place)

    def _write_settled(self, command: SettledCommand) -> Any:
        """Carry out a command that needs closed or sealed periods. Before a board is deleted or
        cleared, its closed periods are sealed. Before a board is created or restored, the closed
        periods of a board that still has the name, but is past its `retain`, are sealed. Before a
        member is hidden or shown on all boards, the due periods of all boards are closed; this call
        then returns once all boards have recorded the change."""
        if isinstance(command, HidingCommand):
            self.close_due()
            committed = self.commit(to_write(self, command))
            self.take_up()
            return committed
        name = board_of(command)
        if isinstance(command, DeleteBoard) and command.is_moved:
            return self._remove_moved(command)
        if isinstance(command, DeleteBoard) and self._fold.erasing:
            # erasures come first: after the deletion, the board's periods are not known any more
            with self._sealing.exclusive():
                self.complete_erasures()
        if isinstance(command, UndeleteBoard) and command.name != name:
            # a board past its `retain` is removed, and can be restored, once its periods are sealed
            self.settle_board(command.name)
        if isinstance(command, CreateBoard | UndeleteBoard) and not self.is_gone(name):
            return self._commit_settled(command)
        for _ in range(SETTLING_ATTEMPTS):
            self.settle_board(name)
            with suppress(PeriodsUnsealed):  # another period was closed meanwhile
                return self._commit_settled(command)
        return self._commit_settled(command)

    def _remove_moved(self, command: DeleteBoard) -> Any:
        """Remove a board that continues in another store, which has its periods and payouts."""
        uid = self.named(command.name).uid
        committed = self.commit(to_write(self, command))
        self.archive.drop(self.archive.of_board(uid))
        return committed

    def _commit_settled(self, command: BoardCommand) -> Any:
        """Carry out a command on a board whose closed periods are sealed. No board is cleared or
        restored while a snapshot is taken, since the snapshot may already have earlier members of
        the board."""
        if not isinstance(command, ClearBoard | UndeleteBoard):
            return self.commit(to_write(self, command))
        with self._snapshot_scheduler.exclusive():
            return self.commit(to_write(self, command))

    def _to_write(self, command: Command[Any]) -> FoldedWrite:
        """Return the write that carries out a command."""
        if isinstance(command, SubmitMany) and (move := sink_move(command)) is not None:
            with self.reading():
                state, deletion = self._followed(move.board, move.text)
            if deletion is not None:
                return DeletedMove(move, state)
        return to_write(self, command)

    async def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> tuple[Receipts, int]:
        """Submit an event, if possible in one write with similar events. Return the receipts of all
        events of the write, and this event's position among them."""
        shared = self.submit_shared_async(board, event, window, scope)
        if shared is not None:
            return await shared
        write = self.submission(board, [event], window, ranks=True, scope=scope)
        return await self.commit_async(write), 0

    def submit_shared_async(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> Future[tuple[Receipts, int]] | None:
        """Commit an event in one write with similar events. Return a future of two values: the
        receipts of all events of the write, and this event's position among them. Do nothing and
        return None if the event needs a write of its own, as in event time."""
        if self._event_time or not is_plain(event):
            return None
        state = self.named(board)
        watched = spec_named(state.rules, window, scope)

        def accept(events: list[Any]) -> Submission:
            return submission(state, events, window, event_time=False, ranks=True, watched=watched)

        return self._committer.submit_shared_async((state.number, watched), accept, event)

    def _after_commit(self, weight: int) -> None:
        """Start a snapshot, and the writing of changes to their file, if these are due. Do a share
        of the due work, unless a task of an event loop does this work. Called after a commit, once
        its writers are awake."""
        if self._unusable_reason is not None:
            return
        if self._files is not None and self._snapshot_scheduler.is_due():
            self._snapshot_scheduler.start(self._snapshot_and_trim)
        if self._changes.is_due():
            self._changes.start(self._lock, self._times, self._rest)
        if not self.paced:
            self.work_share(MIN_SHARE + 2 * weight)
            closings = self._fold.closings
            if closings.is_used and closings.may_be_due(self._fold.clock_ms):
                self._close_share()
        if self._fold.closings.unsealed or (self._fold.erasing and self.has_erasures()):
            self.start_sealing()
