"""The store of one process: accept → log → fold, and queries from the index.

Writes are gathered into commits (`commit`). A commit gives each write its `now`, appends the
records of all writes as one entry of the log, and folds them once that is durable, under the lock
that readers take, too. So no answer shows half a commit, no read waits for a disk, and a failed
append leaves the index unchanged. `Leaderboards` and `AsyncLeaderboards` are the verbs on top of
this.
"""

import asyncio
import logging
import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from laurels.core import record as records
from laurels.core.board_state import BoardState, time_token
from laurels.core.changes import beginning
from laurels.core.changes.answers import ChangePage
from laurels.core.changes.cursor import NOW
from laurels.core.clock_status import ClockStatus, accept_clock, clock_status
from laurels.core.commands import Command, Submit
from laurels.core.fold import Fold
from laurels.core.index import Index
from laurels.core.plan import place_named
from laurels.core.queries import Query
from laurels.core.query_context import QueryContext
from laurels.core.ranking_key import RankingKey
from laurels.core.reads import cached_view
from laurels.core.receipt import Receipts
from laurels.core.requests import ReadRequest
from laurels.core.stats import (
    BoardStats,
    CheckReport,
    Stats,
    StoreFigures,
    board_stats,
    figures_of,
    store_stats,
)
from laurels.errors import (
    Closed,
    Forked,
    InvalidClock,
    LaurelsError,
    NothingToBackUp,
    NotReady,
    StorageFailed,
)
from laurels.model.board import Board
from laurels.model.validation import safe_repr
from laurels.stores.intake.accept import (
    SubmitOptions,
    is_plain,
    join_writes,
    submission,
    successive,
)
from laurels.stores.intake.commands import (
    ON_LOOP,
    copy_event,
    defined_by,
    is_long,
    result_of,
    to_write,
)
from laurels.stores.intake.commit import Committer, Ticket, Write, build_writes
from laurels.stores.intake.forks import forks
from laurels.stores.intake.pacing import Paced
from laurels.stores.intake.shares import MOST, SHARE
from laurels.stores.intake.submission import Submission
from laurels.stores.intake.writes import FoldedWrite, Task
from laurels.stores.local.changes.base import ChangeRows
from laurels.stores.local.changes.log import ChangeLog
from laurels.stores.local.changes.memory import MemoryChanges
from laurels.stores.local.log.base import Log
from laurels.stores.local.snapshot.files import SnapshotFile, SnapshotFiles
from laurels.stores.local.snapshot.form import verify
from laurels.stores.local.snapshot.taking import take
from laurels.timeline.clock import Clock, EventClock
from laurels.timeline.instants import MAX_MS, MIN_MS

from .copies import LocalCopies
from .recovery import recover, refold
from .snapshot_scheduler import SnapshotScheduler
from .verify import compare
from .write_failures import WriteFailures

SHARE_LEAST = 256
BOARDS_SHOWN = 1_000
"""The most boards with metrics of their own: more label values would overload a metrics
collector."""

T = TypeVar("T")
_log = logging.getLogger("laurels")


class Service(Paced):
    """A log, an index folded from it, and a clock, whose name is noted in the log.

    `rest` lets other threads run; `stopwatch` returns seconds, for measuring commits.
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
    ) -> None:
        self._log = log
        self._new_index = new_index
        self._files = snapshots
        self._rest = rest
        self._clock = clock
        self._event_time = isinstance(clock, EventClock)
        self._clock_to_note = None if log.note("clock") == clock_name else clock_name
        self._lock = threading.RLock()
        self._forks = forks()
        self._unusable_reason: str | None = None
        self._committing_ms: int | None = None
        self._paused = False
        self.is_exact = True
        self.risks: Sequence[str] = ()
        self._closing = threading.Lock()
        self._on_close: list[Callable[[], None]] = [log.close]
        self.write_failures = WriteFailures(stopwatch)
        self._observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        self._changes = ChangeLog(MemoryChanges() if changes is None else changes)
        self._on_close.append(self._changes.close)
        found = recover(log, self._snapshots(), new_index, self._changes)
        self._fold = found.fold
        self._snapshot_scheduler = SnapshotScheduler(found)
        for snapshot in found.damaged:
            snapshot.set_aside()
        self._fold.event_time = self._event_time
        if isinstance(clock, EventClock):
            clock.observe(self._fold.now_ms)
        self._now()
        if (problem := self.clock_status().problem) is not None:
            _log.warning(problem)
        self._committer = Committer(self._commit, self._after_commit, stopwatch)
        self.copies = LocalCopies(self)

    @property
    def has_records(self) -> bool:
        """Whether the log has any record other than the creation of boards."""
        return self._fold.now_ms > MIN_MS

    def on_close(self, action: Callable[[], None]) -> None:
        """Call `action` when this store is closed, after the log is."""
        self._on_close.append(action)

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each commit, in the committing thread, with its number of events
        and the seconds it took by `clock`."""
        self._observed = observer, clock

    def note(self, key: str) -> str | None:
        """Return a note, a small text that is stored in the log beside its entries and in
        backups."""
        return self._log.note(key)

    def set_note(self, key: str, value: str) -> None:
        """Store a note in the log beside its entries; it is durable when this returns."""
        self.commit(Task(partial(self._log.set_note, key, value)))

    def close(self) -> None:
        """Commit all queued writes and close; idempotent."""
        if self._forks != forks() or not self._closing.acquire(blocking=False):
            return
        self._committer.close()
        self._snapshot_on_close()
        self._unusable_reason = self._unusable_reason or "the store is closed"
        self._snapshot_scheduler.wait()
        for action in self._on_close:
            action()

    # Reading

    def reading(self) -> threading.RLock:
        """Return the lock for reads: a commit holds it while it counts, but never during a disk
        write. Raises an error if the store is unusable."""
        self.ensure_usable()
        return self._lock

    def try_lock(self) -> "threading.RLock | None":
        """Return the same lock, acquired, or None if another thread holds it."""
        self.ensure_usable()
        return self._lock if self._lock.acquire(blocking=False) else None

    def ensure_usable(self) -> None:
        """Raise Forked in a child of the process that opened this store, Closed after `close`."""
        if self._forks != forks():
            raise Forked("the store was opened by the process that this one was forked from")
        if self._unusable_reason is not None:
            raise Closed(self._unusable_reason)

    def named(self, board: str) -> BoardState:
        """Return the board of that name, as of the newest commit. Takes no lock."""
        self.ensure_usable()
        return self._fold.named(board)

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source, None if there is none."""
        return self.named(board).positions.get(source)

    async def follow(self, boards: Collection[str]) -> None:
        """Do nothing: change tokens are exact."""

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        """Return a token that changes whenever the board's lists may have changed.

        It consists of the board's number, its number of changes, the next end of a period or step,
        and whether that has passed. On a board with decay it changes every second. Takes no lock;
        O(1).
        """
        state = self.named(board)
        return (state.number, state.changes, *time_token(state, self._time_of(state)))

    def definition(self, name: str) -> Board:
        """Return the definition of a board."""
        return self.named(name).board

    def definitions(self) -> list[Board]:
        """Return all definitions, in the order of their names."""
        with self.reading():
            return [self._fold.boards[name].board for name in sorted(self._fold.boards)]

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, made from a single state of it.

        If much of a pass is left to do after a boundary, that is done first, in shares, so that
        other callers are not blocked. Raises NotReady after MOST members: another call continues.
        """
        try:
            return self.try_ask(board, query)
        except NotReady:
            pass
        for _ in range(0, MOST, SHARE):
            with suppress(NotReady):
                return self.try_ask(board, query)
        return self.try_ask(board, query)

    def try_ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query, or raise NotReady if much of a pass has to be done
        first."""
        self.ensure_usable()
        with self._lock:
            state = self._advanced(board)
            plan = query.plan(QueryContext(state, self._fold.time_of(state)))
            if state.rules.scoped and not self._are_scopes_advanced(state, plan.requests):
                raise NotReady(f"a step of the board {board!r} has begun that is being prepared")
            return plan.run_local(self._fold.index, self._fold.offset)

    async def ask_async(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query: on the loop if it is short and nothing blocks it, else from
        a thread."""
        if query.size > ON_LOOP:
            return await asyncio.to_thread(self.ask, board, query)
        return await self.read_async(
            lambda may_wait: (self.ask if may_wait else self.try_ask)(board, query)
        )

    async def read_async(self, read: Callable[[bool], T]) -> T:
        """Return the result of a short read: `read(False)` on the loop if no commit is being
        counted and no step prepared, else `read(True)` in a thread."""
        lock = self.try_lock()
        if lock is not None:
            try:
                return read(False)
            except NotReady:
                pass  # the thread does the rest
            finally:
                lock.release()
        return await asyncio.to_thread(read, True)

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return the result of `read` for the ranking of the running period over all events, if its
        view is cached and no work is due; else None, and `ask` has to answer."""
        self.ensure_usable()
        with self._lock:
            fold = self._fold
            state = fold.boards.get(board)
            if state is None or (now_ms := self._time_of(state)) >= state.due_ms:
                return None
            view = cached_view(state, window, now_ms)
            return None if view is None else read(fold.index, view.key)

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes after a cursor; with `initial` first of all current entries,
        then of the changes after these. Blocks that are no longer in memory are read from the disk,
        without a lock."""
        if initial or beginning.is_initial(after):
            cursor = beginning.cursor_of(after, partial(self._end_of_changes, board))
            state = self.named(board)
            steps = beginning.page(board, state.uid, state.rules, cursor, limit)
            page = beginning.run(steps, partial(self.ask, board))
            if not beginning.is_last(page):
                return page
            with self.reading():
                return beginning.with_positions(page, self._fold.named(board).positions)
        with self.reading():
            read = self._changes.read(self._fold.named(board), after, limit)
        return read.page()

    def _end_of_changes(self, board: str) -> str:
        return self.changes(board, NOW, 1).cursor

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes, read in a thread; see `changes`."""
        return await asyncio.to_thread(self.changes, board, after, limit, initial=initial)

    def _times(self) -> list[tuple[BoardState, int]]:
        """Return all boards with their current times. Called under the lock."""
        return [(state, self._fold.time_of(state)) for state in self._fold.boards.values()]

    def _are_scopes_advanced(self, state: BoardState, requests: Iterable[ReadRequest]) -> bool:
        """Advance the scopes that are read by a share of work; return whether that was enough."""
        return self._fold.advance_scopes(
            state, {request.key.scope for request in requests}, SHARE
        ) and all(
            self._fold.advance_listed(state, request.scopes, SHARE)
            for request in requests
            if request.scopes is not None
        )

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board. Unless `may_wait`, raise NotReady if much work is to be
        done first."""
        for _ in range(0, MOST if may_wait else 0, SHARE):
            with suppress(NotReady):
                return self.board_stats(board, may_wait=False)
        with self.reading():
            state = self._advanced(board)
            return board_stats(self._fold, state, self._fold.time_of(state))

    def stats(self) -> Stats:
        """Return the statistics of the whole store."""
        with self.reading():
            kept = self._snapshot_scheduler.recovery_start(self._log.first, self._log.doubt)
            return store_stats(self._fold, self._log.nbytes(), self.clock_status(), kept)

    def _advanced(self, board: str) -> BoardState:
        """Return a board, advanced to its current time by a share of work. Raises NotReady if more
        is needed."""
        state = self._fold.named(board)
        self._advance_clock()
        if not self._fold.advance(state, SHARE):
            raise NotReady(f"a step of the board {board!r} has begun that is being prepared")
        return state

    def advanced_fold(self) -> Fold:
        """Return the fold, with its clock moved to now. Called under the lock of `reading`."""
        self._advance_clock()
        return self._fold

    def work(self, limit: int) -> tuple[int, int]:
        """Do about `limit` members of the work that is due; return what is left and the
        milliseconds until the next boundary."""
        with self.reading():
            self._advance_clock()
            with self._unusable_on_failure():
                left = 0 if self._paused else self._fold.work(limit)
                dropped = self._fold.index.take_dropped()
            until_ms = MAX_MS if self._event_time else self._fold.next_due_ms - self._fold.clock_ms
        del dropped
        return left, max(0, until_ms)

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work, like `work`, and write the refreshes that are due. Must not
        be called under the lock or in the committing thread."""
        left, until_ms = self.work(limit)
        with self.reading():
            ready = not self._paused and bool(self._fold.refreshes.ready(self._fold.now_ms))
            until_ms = min(until_ms, self._fold.refreshes.interval_ms)
        if ready:
            self.commit(Task(self._refresh))
        return max(left, int(ready)), until_ms

    def clock_status(self) -> ClockStatus:
        """Return how the store's time relates to its clock."""
        return clock_status(self._clock, self._fold.now_ms)

    def accept_clock(self) -> ClockStatus:
        """Follow the clock from now on, however far it has leapt. Raises InvalidClock for a clock
        without a guard."""
        accept_clock(self._clock)
        return self.clock_status()

    def _now(self) -> int:
        """Return the time of the clock, never before that of the newest record.

        While a commit is being written to the disk, this is the commit's time, also for reads, so
        that no step ends between the commit's plan and its fold.
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
        """Move the fold's clock to now. In event time do nothing: a board's time is that of its
        newest record."""
        if not self._event_time:
            self._fold.advance_clock(self._now())

    def _time_of(self, state: BoardState) -> int:
        """Return the current time of a board."""
        return state.now_ms if self._event_time else self._now()

    # Writing

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
        """Carry out a command and return its result; raise the error that refused it."""
        committed = self.commit(to_write(self, command))
        if (name := defined_by(command)) is not None:
            committed = self.definition(name)
        return result_of(command, committed)

    def commit(self, write: Write) -> Any:
        """Commit a write and return its result; raise the error that refused it."""
        self.ensure_usable()
        return self._committer.submit(write)

    async def write_async(self, command: Command[T]) -> T:
        """Carry out a command for a task of an event loop, without blocking the loop on a disk."""
        self.ensure_usable()
        committed: Any
        place = 0
        if isinstance(command, Submit) and not command.absolute:
            committed, place = await self.submit_one(
                command.board, copy_event(command.event), command.window, command.scope
            )
        else:
            accept = partial(to_write, self, command)
            write = await asyncio.to_thread(accept) if is_long(command) else accept()
            committed = await self.commit_async(write)
        if (name := defined_by(command)) is not None:
            committed = self.definition(name)
        return result_of(command, committed, place)

    def commit_async(self, write: Write) -> Future[Any]:
        """Commit a write for a caller on an event loop; return a future of its result."""
        self.ensure_usable()
        return self._committer.submit_async(write)

    async def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> tuple[Receipts, int]:
        """Submit an event, if possible in one write with others of its kind; return the receipts of
        all of them and its position there."""
        shared = self.submit_shared_async(board, event, window, scope)
        if shared is not None:
            return await shared
        write = self.submission(board, [event], window, ranks=True, scope=scope)
        return await self.commit_async(write), 0

    def submit_shared_async(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> Future[tuple[Receipts, int]] | None:
        """Commit one event together with others like it. Return a future of two things: the
        receipts of all these events, and this event's position among them. If the event must be
        accepted by itself, as all events in event time must, do nothing and return None."""
        if self._event_time or not is_plain(event):
            return None
        state = self.named(board)
        watched = place_named(state.rules, window, scope)

        def accept(events: list[Any]) -> Submission:
            return submission(state, events, window, event_time=False, ranks=True, watched=watched)

        return self._committer.submit_shared_async((state.number, watched), accept, event)

    def _commit(self, tickets: list[Ticket]) -> None:
        """Append a group of writes to the log as one entry, and fold it."""
        if self._unusable_reason is not None:
            raise Closed(self._unusable_reason)
        began = 0.0 if self._observed is None else self._observed[1]()
        with self._lock:
            self._committing_ms = self._now()
        try:
            for group in successive(tickets):
                if self._commit_at(self._committing_ms, group):
                    with suppress(StorageFailed):  # the refreshes stay due
                        self._refresh()
        finally:
            self._committing_ms = None
        if self._observed is not None:
            observer, clock = self._observed
            observer(sum([ticket.weight for ticket in tickets]), clock() - began)

    def _refresh(self) -> None:
        """Write the refreshes that are due and ready, as an entry of their own.

        A commit does this right after its own entry, before its writers are answered, so that their
        next reads show the result. Called by the committing thread, while time stands still.
        """
        with self._lock:
            self._advance_clock()
            drafted = [
                records.Refresh(state.number, state.version, self._fold.time_of(state), window)
                for state, window in self._fold.refreshes.ready(self._fold.now_ms)
            ]
        if not drafted:
            return
        body = self._encode_entry([records.encode_one(record) for record in drafted])
        with self._unusable_on_failure():
            self._append(body)
            with self._lock:
                for record in drafted:
                    self._fold.apply(record)
                self._fold.offset = self._fold.entry

    def _encode_entry(self, encoded: list[msgspec.Raw]) -> bytes:
        """Return the bytes of a log entry of these records."""
        return records.encode(encoded, own_times=self._event_time)

    def _append(self, body: bytes) -> int:
        """Append an entry to the log; return its offset."""
        try:
            self._note_clock()
            self._fold.entry = offset = self._log.append(body)
        except StorageFailed as error:
            self.write_failures.failed(error)
            raise
        self.write_failures.succeeded()
        self._snapshot_scheduler.add_log_bytes(len(body))
        return offset

    def _note_clock(self) -> None:
        """Note the name of the clock in the log, before the first entry with that clock's time."""
        if self._clock_to_note is not None:
            self._log.set_note("clock", self._clock_to_note)
            self._clock_to_note = None

    def ensure_writable(self) -> None:
        """Raise StorageFailed if the disk refused the last write and still refuses writes."""
        if self.write_failures.reason is not None:
            self.commit(Task(self._try_to_write))
        self.write_failures.ensure_none()

    def _try_to_write(self) -> None:
        """Write an entry without effect, to test the disk. Called by the committing thread."""
        try:
            self._log.set_note("writable", "yes")
        except StorageFailed as error:
            self.write_failures.failed(error)
        else:
            self.write_failures.succeeded()

    def _commit_at(self, now_ms: int, tickets: list[Ticket]) -> bool:
        """Commit a group of writes; return whether there was anything to log."""
        accepted: list[tuple[list[Ticket], FoldedWrite]] = []
        logged: list[msgspec.Raw] = []
        self._fold.drafted_ms.clear()
        waiting = deque(join_writes(build_writes(tickets)))
        while waiting:
            gathered, write = waiting.popleft()
            try:
                drafted = write.records(self._fold, now_ms)
                encoded = [records.encode_one(record) for record in drafted]
                write.plan(self._fold)
            except Exception as error:  # the error of one write must not affect the others
                parts = [each for ticket in gathered for each in ticket.split()]
                if len(parts) == 1:
                    parts[0].fail(error)
                else:
                    waiting.extendleft([([each], each.write) for each in build_writes(parts)][::-1])
                continue
            logged += encoded
            if drafted and self._event_time:
                self._fold.drafted_ms[drafted[-1].board] = drafted[-1].now_ms
            accepted.append((gathered, write))
        body = self._encode_entry(logged) if logged else None
        with self._unusable_on_failure():
            offset = self._fold.offset
            if body is not None:
                offset = self._append(body)
            for _, write in accepted:
                self._prepare(write)
            with self._lock:
                self._fold_all(accepted, offset)
        if isinstance(self._clock, EventClock):
            self._clock.observe(self._fold.now_ms)
        return body is not None

    def _prepare(self, write: FoldedWrite) -> None:
        """Do the part of the work before folding a write that can be done in shares."""
        scanned = False
        while not scanned:
            with self._lock:
                scanned = write.scan(self._fold)
        if write.board is not None:
            self._advance_board(write.board, write.scopes)

    def _advance_board(self, board: BoardState, scopes: Collection[str]) -> None:
        """Advance a board and some of its scopes to the commit's time, in shares, so that readers
        can run in between."""
        advanced = False
        while not advanced:
            with self._lock:
                self._advance_clock()
                state = self._fold.find_by_number(board.number)
                advanced = state is None or (
                    self._fold.advance(state, SHARE)
                    and self._fold.advance_scopes(state, scopes, SHARE)
                )

    def _fold_all(self, accepted: list[tuple[list[Ticket], FoldedWrite]], offset: int) -> None:
        """Fold the writes of a commit, piece by piece; pieces with the same `now` count
        together."""
        pieces = [
            (now_ms, write, piece)
            for _, write in accepted
            for piece, now_ms in enumerate(write.pieces())
        ]
        for _, group in groupby(pieces, key=itemgetter(0)):
            same_time = list(group)
            for _, write, piece in same_time:
                write.before(self._fold, piece)
            for _, write, piece in same_time:
                write.fold(self._fold, piece)
            for _, write, piece in same_time:
                write.after(self._fold, piece)
        self._fold.offset = offset
        for tickets, write in accepted:
            try:
                for ticket, result in zip(tickets, write.results(offset), strict=True):
                    ticket.succeed(result)
            except LaurelsError as error:
                for ticket in tickets:
                    ticket.fail(error)

    def _after_commit(self, weight: int) -> None:
        """Do a share of the due work after a commit, after waking its writers, unless a task of an
        event loop does it."""
        if self._unusable_reason is not None:
            return
        if self._files is not None and self._snapshot_scheduler.is_due():
            self._snapshot_scheduler.start(self._snapshot_and_trim)
        if self._changes.is_due():
            self._changes.start(self._lock, self._times)
        if not self.paced:
            self.work(SHARE_LEAST + 2 * weight)

    @contextmanager
    def _unusable_on_failure(self) -> Iterator[None]:
        """Make the store unusable if folding an entry of the log fails (for lack of memory, for
        example), since answers would differ from the log from then on."""
        try:
            yield
        except StorageFailed:
            raise
        except BaseException as error:
            self._unusable_reason = f"a commit was broken off ({error!r})"
            raise Closed(self._unusable_reason) from error

    # Snapshots and recovery

    def _snapshots(self) -> list[SnapshotFile]:
        return [] if self._files is None else self._files.newest_first()

    async def ensure_healthy(self) -> None:
        """Raise StorageFailed if the disk refused the last write and still refuses writes."""
        if self.write_failures.reason is not None:
            await asyncio.to_thread(self.ensure_writable)

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the statistics of the boards that a caller may see; None sees the whole store."""
        names = [
            board.name
            for board in self.definitions()
            if is_visible is None or is_visible(board.name)
        ]
        of_boards = figures_of(map(self.board_stats, names[:BOARDS_SHOWN]))
        if is_visible is not None:
            return of_boards
        store = self.stats()
        return replace(
            of_boards,
            of_boards_only=False,
            store=store,
            clock=store.clock,
            snapshot_taken=self.snapshot_taken(),
            write_failures=self.write_failures.count,
            writable=self.write_failures.reason is None,
        )

    def snapshot_taken(self) -> float | None:
        """Return the time of the newest snapshot, in seconds since 1970; None without one."""
        return self._snapshot_scheduler.newest_time()

    def snapshot(self) -> int:
        """Take a snapshot while serving, and trim the log to the previous one; return its offset.

        Raises NothingToBackUp for a store without a folder, StorageFailed if the disk refuses a
        write.
        """
        self.ensure_usable()
        with self._snapshot_scheduler.exclusive():
            return self._snapshot_and_trim()

    def _snapshot_and_trim(self) -> int:
        """Take a snapshot, remove all earlier ones but the last, and trim the log to that one."""
        offset, until = self._take_snapshot()
        while until and self.commit(Task(partial(self._log.trim, until))):
            pass
        return offset

    def _take_snapshot(self) -> tuple[int, int]:
        """Take a snapshot and remove all earlier ones but the last; return its offset, and the
        offset up to which the log may be trimmed."""
        if self._files is None:
            raise NothingToBackUp("the store is in memory: it has no snapshots")
        write_changes = partial(self._changes.write, self._lock, self._times)
        snapshot = take(self._files, self._fold, self.reading, self._rest, write_changes)
        self._files.prune()
        self._snapshot_scheduler.record(snapshot)
        kept = self._files.newest_first()
        trims = self._log.note("log_keep") != "all" and len(kept) > 1
        return snapshot.offset, kept[-1].offset if trims else 0

    def _snapshot_on_close(self) -> None:
        """Take a snapshot after the last commit, if the next start would otherwise fold for more
        than about a second. If that fails, the log is unchanged, and the next start takes
        longer."""
        if (
            self._files is None
            or self._unusable_reason is not None
            or not self._snapshot_scheduler.is_due_on_close()
        ):
            return
        try:
            with self._snapshot_scheduler.exclusive():
                if (
                    self._snapshot_scheduler.is_due_on_close()
                ):  # unless the thread took one while we waited for it
                    _, until = self._take_snapshot()
                    while until and self._log.trim(until):
                        pass
        except Exception as error:
            _log.warning("no snapshot was taken at the end, so the next start is slower: %s", error)

    def _refolded(self) -> Fold:
        return refold(self._log, self._snapshots(), self._new_index)

    def check(self) -> CheckReport:
        """Check every structure, and compare the index with a fold of the log, as far as that is
        kept."""

        def compared() -> CheckReport:
            for snapshot in self._snapshots():
                verify(snapshot.path)
            with self._pausing():
                self._fold.index.check(self._fold.unfinished.states)
                return compare(self._fold, self._advance_to_own_time(self._refolded()))

        with self._snapshot_scheduler.exclusive():
            report: CheckReport = self.commit(Task(compared))
        return report

    def rebuild(self) -> None:
        """Replace the index by a fold of the log."""

        def exchange() -> None:
            rebuilt = self._advance_to_own_time(self._refolded())
            with self._lock:
                rebuilt.recorder = self._changes
                self._fold = rebuilt

        with self._snapshot_scheduler.exclusive():
            self.commit(Task(exchange))

    def _advance_to_own_time(self, fold: Fold) -> Fold:
        """Advance another fold of the same log to the same time as this one, and return it."""
        fold.event_time = self._event_time
        fold.advance_clock(self._fold.clock_ms)
        for state in self._fold.boards.values():
            fold.move_time(fold.by_number(state.number), state.now_ms)
        fold.advance_all()
        return fold

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Keep the index unchanged inside, like during a commit: every board is advanced to the
        commit's time, so that reads change nothing, and no pass continues."""
        with self._lock:
            self._advance_clock()
            self._fold.advance_all()
            self._paused = True
        try:
            yield
        finally:
            self._paused = False
