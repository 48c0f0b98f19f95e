"""The commits of the local store. Each is one entry of the log, which is folded once it is
durable."""

import asyncio
from abc import abstractmethod
from asyncio import Future
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from laurels.core import record as records
from laurels.errors import (
    Closed,
    LaurelsError,
    StorageFailed,
)
from laurels.stores.intake.accept import (
    join_writes,
    successive,
)
from laurels.stores.intake.closing import (
    ClosingShare,
    ClosingWrite,
    DueClosings,
    close_records,
)
from laurels.stores.intake.commit import Committer, Write
from laurels.stores.intake.emission import emission_record
from laurels.stores.intake.hiding import end_of_hiding
from laurels.stores.intake.shares import SHARE
from laurels.stores.intake.tickets import Ticket, build_writes
from laurels.stores.intake.writes import FoldedWrite, Task
from laurels.timeline.clock import EventClock

from .reading import LocalReads

CLOSED_BOARDS = 25
"""The maximum number of boards whose periods are closed in one commit without a write to them, so
that other writes take about a millisecond longer."""
CLOSINGS = 4
"""The maximum number of such commits in one share of the due work."""
EMITTED = 500
"""The maximum number of payouts that are emitted in one commit, so that readers and other writes
wait for about two milliseconds."""
Accepted = list[tuple[list[Ticket], FoldedWrite]]
"""The accepted writes of a commit, each with the tickets from which it was made."""


class LocalCommits(LocalReads):
    """The part of the store of one process that commits writes."""

    _committer: Committer

    def commit(self, write: Write, *, background: bool = False) -> Any:
        """Commit a write. Return its result, or raise an error if it is refused. A `background`
        write waits a moment for other writes to be committed with."""
        self.ensure_usable()
        return self._committer.submit(write, background=background)

    def commit_async(self, write: Write) -> Future[Any]:
        """Commit a write for a caller on an event loop. Return a future of its result."""
        self.ensure_usable()
        return self._committer.submit_async(write)

    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work as `work` does. Then write the refreshes that are due and
        ready, and the ends of hidings that are due, and emit payouts that are due. Must not be
        called under the lock or in the committing thread."""
        left, until_ms = self.work(limit)
        with self.reading():
            ready = not self._paused and bool(self._fold.refreshes.ready(self._fold.now_ms))
            closes = not self._paused and self._fold.closings.has_ready(self._fold.clock_ms)
            until_ms = min(until_ms, self._fold.refreshes.interval_ms)
            has_ended = bool(self._fold.ended_hidings())
        if ready or has_ended:  # every commit writes the ends of hidings that are due
            self.commit(Task(self._refresh))
        for _ in range(CLOSINGS if closes else 0):
            if not self.commit(ClosingShare(CLOSED_BOARDS), background=True):
                break
        if (
            self._fold.closings.unsealed
            or self.payouts.is_publishing
            or (self._fold.erasing and self.has_erasures())
        ):
            self.start_sealing()
        if emits := self._has_due_payouts():
            self.commit(Task(self._emit_share))
        return max(left, int(ready or closes or emits)), until_ms

    def take_up(self) -> None:
        """Let all boards record which members are hidden on all boards. This is done in shares, and
        other threads run between them."""
        while self._fold.has_untaken:
            self.work_share(SHARE)
            self._rest()

    @abstractmethod
    def has_erasures(self) -> bool:
        """Return whether erasures wait for their completion."""

    @abstractmethod
    def start_sealing(self) -> None:
        """Start a thread that seals the closed periods. Do nothing while such a thread runs."""

    def _commit(self, tickets: list[Ticket]) -> None:
        """Append the writes of tickets to the log, and fold them. They become one entry of the log,
        or several, as `successive` divides them."""
        if self._unusable_reason is not None:
            raise Closed(self._unusable_reason)
        began = 0.0 if self._observed is None else self._observed[1]()
        with self._lock:
            self._committing_ms = self._now()
            self._advance_clock()
        try:
            if self._fold.hiding_ends.next_ms <= self._fold.now_ms:
                with suppress(StorageFailed):  # if this fails, the ends of hidings stay due
                    self._end_hidings()
            if self.payouts.emission.next_ms <= self._committing_ms:
                with suppress(StorageFailed):  # if this fails, the payouts stay due
                    self._emit_share()
            for group in successive(tickets):
                accepted, logged = self._draft(self._committing_ms, group)
                self._run_or_disable(partial(self._log_and_fold, accepted, logged))
                if logged and self._fold.refreshes.pending:
                    with suppress(StorageFailed):  # if this fails, the refreshes stay due
                        self._refresh()
        finally:
            self._committing_ms = None
        if self._observed is not None:
            observer, clock = self._observed
            observer(sum([ticket.weight for ticket in tickets]), clock() - began)

    def _refresh(self) -> None:
        """Write the refreshes that are due and ready, as a separate entry of the log.

        A commit calls this after it has appended its own entry and before it answers its writers,
        so that their next reads show the refreshed rankings. It must be called in the committing
        thread, while the time of the store is the time of the commit.
        """
        with self._lock:
            self._advance_clock()
            drafted = [
                records.Refresh(state.number, state.version, self._fold.time_of(state), window)
                for state, window in self._fold.refreshes.ready(self._fold.now_ms)
            ]
        if drafted:
            self._run_or_disable(partial(self._log_records, drafted))

    def _close_share(self, limit: int | None = None) -> int:
        """Close the due periods of up to `limit` boards. Return the number of closed periods."""
        with self._lock:
            self._advance_clock()
            ready = self._fold.closings.ready(self._fold.clock_ms, limit or CLOSED_BOARDS)
        return self._close_boards([state.number for state in ready])

    def _close_boards(self, numbers: Sequence[int]) -> int:
        """Close the due periods of boards, as a separate entry of the log. Return the number of
        these periods. It must be called in the committing thread."""
        fold = self._fold
        drafted: list[records.Record] = []
        with self._lock:
            self._advance_clock()
            for state in map(fold.find_by_number, numbers):
                if state is not None:
                    now_ms = fold.time_of(state)
                    drafted += close_records(state, fold.closings.due(state, now_ms), now_ms)
        if drafted:
            self._run_or_disable(partial(self._log_records, drafted))
        return len(drafted)

    def _has_due_payouts(self) -> bool:
        """Return whether payouts are due that are not emitted yet. O(1)."""
        return not self._event_time and self.payouts.emission.next_ms <= self._now()

    def emit_due(self) -> None:
        """Emit all payouts that are due."""
        while self._has_due_payouts():
            self.commit(Task(self._emit_share))

    def _emit_share(self) -> int:
        """Emit some of the payouts that are due, as a separate entry of the log. Return their
        number. It must be called in the committing thread."""
        with self._lock:
            self._advance_clock()
            now_ms = self._now()
            share = self.payouts.emission.share(now_ms, EMITTED)
            if share is None or self._event_time:
                return 0
            drafted = emission_record(self._fold, share, now_ms)
        self._run_or_disable(partial(self._log_records, [drafted]))
        return sum(share.counts.values())

    def _end_hidings(self) -> None:
        """Write the ends of hidings that are due, as a separate entry of the log. It comes before
        the entry of the commit that follows. Periods that are due are closed first, so that members
        who were hidden at the end of a period stay hidden in it. The end of a hiding on all boards
        waits until the due periods of all boards are closed."""
        with self._lock:
            waits = self._fold.closings.has_ready(self._fold.clock_ms)
            ended = [each for each in self._fold.ended_hidings() if each[0] or not waits]
            drafted = [end_of_hiding(state, member, self._fold) for state, member in ended]
        self._close_boards([state.number for state, _ in ended if state is not None])
        if drafted:
            self._run_or_disable(partial(self._log_records, drafted))

    def _log_records(self, drafted: Sequence[records.Record]) -> None:
        """Append records to the log as one entry, and fold them; see `_log_and_fold`."""
        self._append([records.encode_one(record) for record in drafted])
        try:
            with self._lock:
                for record in drafted:
                    self._fold.apply(record)
                self._fold.offset = self._fold.entry
        except StorageFailed as error:
            raise RuntimeError(f"a logged entry could not be folded: {error}") from error

    def _append(self, encoded: list[msgspec.Raw]) -> int:
        """Append encoded records to the log as one entry. Return the entry's offset."""
        body = records.encode(encoded, own_times=self._event_time)
        try:
            if self._clock_to_note is not None:
                self._note_clock(self._clock_to_note)
            self._fold.entry = offset = self._log.append(body)
        except StorageFailed as error:
            self.write_failures.failed(error)
            raise
        if self.write_failures.reason is not None:
            self.write_failures.succeeded()
        self._snapshot_scheduler.log_bytes += len(body)
        return offset

    def _note_clock(self, name: str) -> None:
        """Store the name of the clock in the log, before the first entry with a time of this
        clock."""
        self._log.set_note("clock", name)
        self._clock_to_note = None

    def set_note(self, key: str, value: str) -> None:
        """Store a note in the log, beside the entries. On return the note is durable."""
        self.commit(Task(partial(self._log.set_note, key, value)))

    def ensure_writable(self) -> None:
        """Raise StorageFailed if the disk refused the last write and still refuses writes."""
        if self.write_failures.reason is not None:
            self.commit(Task(self._try_to_write))
        self.write_failures.ensure_none()

    def _try_to_write(self) -> None:
        """Write a note without effect, to test the disk. Called by the committing thread."""
        try:
            self._log.set_note("writable", "yes")
        except StorageFailed as error:
            self.write_failures.failed(error)
        else:
            self.write_failures.succeeded()

    async def ensure_healthy(self) -> None:
        """Raise StorageFailed if the disk refused the last write and still refuses writes."""
        if self.write_failures.reason is not None:
            await asyncio.to_thread(self.ensure_writable)

    def _draft(self, now_ms: int, tickets: list[Ticket]) -> tuple[Accepted, list[msgspec.Raw]]:
        """Validate the writes of a group of tickets at `now_ms`. Return the accepted writes, and
        their records for the log. If the boards of the writes have due periods, writes that close
        these periods come before all others. In event time, where each write may make periods due,
        each of them comes right before the next write to its board."""
        accepted: Accepted = []
        logged: list[msgspec.Raw] = []
        closings: DueClosings | None = None
        first: list[ClosingWrite] = []
        closes = self._fold.closings.is_used
        self._fold.drafted_ms.clear()
        waiting = deque(join_writes(build_writes(tickets)))
        while waiting:
            gathered, write = waiting.popleft()
            found: list[ClosingWrite] = []
            try:
                drafted = write.records(self._fold, now_ms)
                encoded = list(map(records.encode_one, drafted))
            except Exception as error:  # the error of one write must not affect the others
                parts = [each for ticket in gathered for each in ticket.split()]
                if len(parts) == 1:
                    parts[0].fail(error)
                else:
                    waiting.extendleft([([each], each.write) for each in build_writes(parts)][::-1])
                continue
            if isinstance(write, ClosingShare):
                closings = closings or DueClosings(self._fold)
                with self._lock:
                    found = closings.share(write, now_ms)
            elif closes and drafted and self._may_be_due(drafted[0].board, now_ms):
                closings = closings or DueClosings(self._fold)
                with self._lock:
                    closing = closings.before(drafted[0].board, now_ms)
                found = [] if closing is None else [closing]
            if self._event_time:
                accepted += [([], closing) for closing in found]
                logged += [each for closing in found for each in closing.encoded()]
            else:
                first += found
            logged += encoded
            if drafted and self._event_time:
                self._fold.drafted_ms[drafted[-1].board] = drafted[-1].now_ms
            accepted.append((gathered, write))
        if first:
            accepted = [([], closing) for closing in first] + accepted
            logged = [each for closing in first for each in closing.encoded()] + logged
        return accepted, logged

    def _may_be_due(self, number: int, now_ms: int) -> bool:
        """Return whether a period of a board may have to be closed before a write to it. O(1)."""
        board = self._fold.find_by_number(number)
        return board is not None and self._fold.accepts_at(board, now_ms) >= board.final_ms

    def _log_and_fold(self, accepted: Accepted, logged: list[msgspec.Raw]) -> None:
        """Append records to the log as one entry, and fold their writes. Before they are folded, as
        much of the work as possible is done in shares, so that readers can run between the
        shares.

        If the fold cannot write one of its files, such as the file of payouts, RuntimeError is
        raised, which makes the store unusable: its state stays wrong until the log is folded
        again."""
        offset = self._append(logged) if logged else self._fold.offset
        try:
            for _, write in accepted:
                prepared = False
                while not prepared:
                    with self._lock:
                        self._advance_clock()
                        prepared = write.prepare(self._fold, SHARE)
            with self._lock:
                self._fold_all(accepted, offset)
        except StorageFailed as error:
            raise RuntimeError(f"a logged entry could not be folded: {error}") from error
        if isinstance(self._clock, EventClock):
            self._clock.observe(self._fold.now_ms)

    def _fold_all(self, accepted: Accepted, offset: int) -> None:
        """Fold the pieces of all writes of a commit. Pieces with the same `now` are folded
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
