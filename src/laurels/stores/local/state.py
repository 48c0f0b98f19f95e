"""The state of the store of one process: its log, the fold of that log, its clock, and the lock
that readers and commits share."""

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from laurels.core.board_state import BoardState, unknown_board
from laurels.core.clock_status import ClockStatus, accept_clock, clock_status
from laurels.core.hot_report import NOTHING_COUNTED, HotReport
from laurels.core.index import Index
from laurels.errors import (
    Closed,
    Forked,
    InvalidClock,
    StorageFailed,
)
from laurels.model.validation import safe_repr
from laurels.stores.intake import forks
from laurels.stores.intake.pacing import Paced
from laurels.stores.intake.tags import new_secret, new_tag
from laurels.stores.local.changes.base import ChangeRows
from laurels.stores.local.changes.log import ChangeLog
from laurels.stores.local.changes.memory import MemoryChanges
from laurels.stores.local.log.base import Log
from laurels.stores.local.recovery.recover import recover
from laurels.stores.local.snapshot.files import SnapshotFile, SnapshotFiles
from laurels.stores.local.snapshot.scheduler import SnapshotScheduler
from laurels.timeline.clock import Clock, EventClock
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.wire.audit_entry import ErasableAudit, MemoryAudit
from laurels.wire.audit_page import AuditPage, about, page_of

from .archive.archive import Archive
from .archive.folder import MemorySegments
from .archive.receiving import ReceivedPeriods
from .archive.unwanted import newest_revision, unwanted
from .payouts.table import PayoutTable
from .seal_draft import SealDraft
from .sealing_thread import SealingThread
from .write_failures import WriteFailures

PAST_READS = 2
"""The maximum number of queries about past periods that tasks of an event loop run at once."""

T = TypeVar("T")

PAYOUTS_MADE = "payouts_made"
"""The note in the log that payouts were made, so that the loss of their file is noticed."""

_log = logging.getLogger("laurels")


class LocalState(Paced):
    """A log, a fold of it, and a clock. The name of the clock is stored as a note in the log.

    `rest` lets other threads run; `stopwatch` is a clock in seconds that measures commits.
    """

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
        self._log = log
        self._new_index = new_index
        self._files = snapshots
        self._rest = rest
        self._clock = clock
        self._event_time = isinstance(clock, EventClock)
        self._clock_to_note = None if log.note("clock") == clock_name else clock_name
        self._lock = threading.RLock()
        self._forks = forks.count
        self._unusable_reason: str | None = None
        self._committing_ms: int | None = None
        self._paused = False
        self.is_exact = True
        self.risks: Sequence[str] = ()
        self.outages: Sequence[str] = ()
        self._past_threads = ThreadPoolExecutor(PAST_READS, "laurels-past")
        self._closing = threading.Lock()
        self._on_close: list[Callable[[], None]] = [log.close]
        self.write_failures = WriteFailures(stopwatch)
        self._observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        self._changes = ChangeLog(MemoryChanges() if changes is None else changes)
        self._on_close.append(partial(self._past_threads.shutdown, wait=False))
        self._on_close.append(self._changes.close)
        self.audit_log: ErasableAudit = MemoryAudit() if audit_log is None else audit_log
        self._on_close.append(self.audit_log.close)
        self.archive = Archive(MemorySegments(), new_secret) if archive is None else archive
        self._on_close.append(self.archive.close)
        self.received = ReceivedPeriods(self.archive)
        self.before_seal: list[Callable[[Sequence[SealDraft], Callable[[], None]], None]] = []
        self._sealing = SealingThread(stopwatch, rest)
        self._blocked_erasures: set[bytes] = set()
        """Members whose erasure waits for the next call, since the archive is damaged."""
        self.payouts = PayoutTable(None) if payouts is None else payouts
        self._on_close.append(self.payouts.close)
        self.payouts.file.is_expected = log.note(PAYOUTS_MADE) is not None
        recovered = recover(log, self._snapshots(), new_index, self._changes, self.payouts)
        self._fold = recovered.fold
        boards = self._fold.boards.values()
        self.archive.drop(unwanted(self.archive.periods(), boards))
        self.payouts.undo_after(newest_revision(boards), self._fold.now_ms, new_tag)
        self.payouts.restore_names(self._fold.names_by_uid)
        self._snapshot_scheduler = SnapshotScheduler(recovered)
        for snapshot in recovered.damaged:
            snapshot.set_aside()
        self._fold.event_time = self._event_time
        if isinstance(clock, EventClock):
            clock.observe(self._fold.now_ms)
        self._now()
        if (problem := self.clock_status().problem) is not None:
            _log.warning(problem)

    @property
    def has_records(self) -> bool:
        """Whether the log has any record that is not the creation of a board."""
        return self._fold.now_ms > MIN_MS

    def on_close(self, action: Callable[[], None]) -> None:
        """Call `action` when this store is closed. It is called after the log was closed."""
        self._on_close.append(action)

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each commit, in the committing thread. Its arguments are the number
        of events in the commit and the seconds it took by `clock`."""
        self._observed = observer, clock

    def note(self, key: str) -> str | None:
        """Return a note: a small text that is stored in the log beside the entries, and in
        backups."""
        return self._log.note(key)

    def reading(self) -> threading.RLock:
        """Return the lock for reads. A commit holds it while it counts, but never during a disk
        write. Raises an error if the store is unusable."""
        self.ensure_usable()
        return self._lock

    def try_lock(self) -> "threading.RLock | None":
        """Acquire the lock for reads and return it. Return None at once if another thread has
        it."""
        self.ensure_usable()
        return self._lock if self._lock.acquire(blocking=False) else None

    def ensure_usable(self) -> None:
        """Raise Forked in a child of the process that opened this store, and Closed after
        `close`."""
        if self._forks != forks.count:
            raise Forked("the store was opened by the process that this one was forked from")
        if self._unusable_reason is not None:
            raise Closed(self._unusable_reason)

    def named(self, board: str) -> BoardState:
        """Return the state of the board of that name, as of the newest commit. Raises UnknownBoard
        if there is no such board, or if it is no longer retained. Takes no lock."""
        self.ensure_usable()
        state = self._fold.named(board)
        if state.rules.gone_ms < MAX_MS and self._is_gone(state):
            raise unknown_board(board)
        return state

    def _is_gone(self, state: BoardState) -> bool:
        """Return whether a board is no longer retained. A board with payouts that are not confirmed
        stays. Takes no lock, except when the fold has not advanced past the end of `retain` yet."""
        if self._event_time or not state.rules.is_gone(self._now()):
            return False
        if state.closing and self._fold.clock_ms < state.rules.gone_ms:
            with self._lock:
                self._advance_clock()
        return not self._fold.outlives_retain(state)

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return a page of the audit log."""
        self.ensure_usable()
        return page_of(self.audit_log, about(board), before, limit)

    def hot(self) -> HotReport:
        """Return an empty report: only a service counts queries."""
        self.ensure_usable()
        return NOTHING_COUNTED

    def clock_status(self) -> ClockStatus:
        """Return the store's time, and by how much it differs from the clock."""
        return clock_status(self._clock, self._fold.now_ms)

    def accept_clock(self) -> ClockStatus:
        """Accept the current time of the clock, even after a large leap. Raises InvalidClock for a
        clock without a guard."""
        accept_clock(self._clock)
        return self.clock_status()

    def _now(self) -> int:
        """Return the later of the clock's time and the time of the newest record.

        During a commit this is the commit's time, also for reads, so that no step ends between the
        commit's plan and its fold.
        """
        if self._committing_ms is not None:
            return self._committing_ms
        if self._event_time:
            return self._fold.now_ms
        now_ms = self._clock.now_ms()
        if now_ms == self._fold.now_ms:
            return self._fold.now_ms
        if type(now_ms) is not int or not MIN_MS <= now_ms < MAX_MS:
            raise InvalidClock(
                f"expected integer milliseconds from the clock, got {safe_repr(now_ms)}"
            )
        latest_ms = self._fold.now_ms
        return now_ms if now_ms > latest_ms else latest_ms

    def _advance_clock(self) -> None:
        """Advance the fold's clock to now. In event time do nothing, since the time of a board is
        then the time of its newest record."""
        if not self._event_time:
            self._fold.advance_clock(self._now())

    def _time_of(self, state: BoardState) -> int:
        """Return the current time of a board."""
        return state.now_ms if self._event_time else self._now()

    def _snapshots(self) -> list[SnapshotFile]:
        return [] if self._files is None else self._files.newest_first()

    def _run_or_disable(self, action: Callable[[], T]) -> T:
        """Run an action that folds records, and return its result. If it raises an error other than
        StorageFailed, such as a lack of memory, the index may differ from the log. The store then
        becomes unusable, and Closed is raised."""
        try:
            return action()
        except StorageFailed:
            raise
        except BaseException as error:
            self._unusable_reason = f"a commit was aborted ({error!r})"
            raise Closed(self._unusable_reason) from error
