"""The service: accept → log → fold, and the moment a question is answered in.

Writes are gathered into commits (`commit`). The leader of a commit gives each write its `now`,
appends all their records as one entry of the log, and only when that is durable folds them,
under the lock that readers share. So no answer shows half a commit, none waits for a disk, and
a failed append leaves the index untouched. `Leaderboards` and `AsyncLeaderboards` are the verbs
on top of this.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Self

import msgspec

from . import record as records
from .clock import Clock, EventClock
from .commit import Committer, Ticket, Write
from .engine.intake import Columns
from .errors import (
    BatchTooLarge,
    Closed,
    DataTooLarge,
    Forked,
    InvalidData,
    InvalidEvent,
    InvalidPosition,
    LaurelsError,
    NoAllWindow,
    StorageFailed,
)
from .event import MAX_BATCH, id_bytes, member_of
from .fold import BoardState, Fold
from .given import is_unicode, shown
from .index.base import Index
from .log.base import Log
from .plan import can_set, window_named
from .queries import View
from .receipt import Receipt, Receipts
from .stats import CheckReport
from .verify import compare
from .windows import MIN_MS
from .writes import FoldedWrite, Submission, Task

MAX_DATA_BYTES = 1_024
MAX_POSITION = 4_096


class Service:
    """A log, an index folded from it, and a clock."""

    def __init__(self, log: Log, new_index: Callable[[], Index], clock: Clock) -> None:
        self._log = log
        self._new_index = new_index
        self._clock = clock
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._ended: LaurelsError | None = None
        self._refusing: LaurelsError | None = None
        self._on_close: list[Callable[[], None]] = [log.close]
        self._fold = self._folded_log()
        if isinstance(clock, EventClock):
            clock.observe(self._fold.now_ms)
        self._committer = Committer(self._commit)

    @property
    def begun(self) -> bool:
        """Whether anything was recorded besides the creation of boards."""
        return self._fold.now_ms > MIN_MS

    def on_close(self, action: Callable[[], None]) -> None:
        """Has `action` called when this is closed, after the log is."""
        self._on_close.append(action)

    def close(self) -> None:
        """Commits what is queued and closes; a second close does nothing."""
        if self._pid != os.getpid() or not self._on_close:
            return
        self._ended = self._ended or Closed("the store is closed")
        if self._refusing is None:
            self._committer.submit(Task(self._refuse_from_here))
        self._committer.close()
        while self._on_close:
            self._on_close.pop(0)()

    def _refuse_from_here(self) -> None:
        """Takes its turn among the writes: those before it are committed, those after refused."""
        self._refusing = self._ended

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Reading

    @property
    def reading_lock(self) -> threading.RLock:
        """Held by every question and, while it counts, by a commit; never over a disk write."""
        return self._lock

    def _reading(self) -> threading.RLock:
        self._ensure_usable()
        return self._lock

    def _ensure_usable(self) -> None:
        if self._pid != os.getpid():
            raise Forked(f"the store was opened by process {self._pid}")
        if self._ended is not None:
            raise self._ended

    def _now(self) -> int:
        return max(self._clock.now_ms(), self._fold.now_ms)

    def _state(self, board: str) -> BoardState:
        return self._fold.named(board)

    def _view(
        self, board: str, window: str | None, period: str | None, after: str | None = None
    ) -> View:
        return View(self._fold, self._state(board), self._now(), window, period, after)

    # Writing

    def named(self, board: str) -> BoardState:
        """The board of that name, to write to."""
        with self._reading():
            return self._state(board)

    def submission(
        self,
        board: str,
        events: Iterable[Any],
        window: str | None,
        *,
        ranks: bool,
        absolute: bool = False,
        atomic: bool = False,
        key: str | None = None,
        position: tuple[str, str] | None = None,
    ) -> Submission:
        """Accepts events: judges their form and makes them columns."""
        state = self.named(board)
        if absolute and not can_set(state.rules):
            raise NoAllWindow(f"the board {board!r} has no window `all`")
        if not isinstance(events, Iterable):
            raise InvalidEvent(f"{shown(events)} is no batch of events")
        given = list(islice(events, MAX_BATCH + 1))
        if len(given) > MAX_BATCH:
            raise BatchTooLarge(f"more than {MAX_BATCH:,} events")
        _check_position(position)
        columns = state.reader.gather(given)
        if key is not None:
            _give_ids(columns, key)
        return Submission(
            state,
            columns,
            {
                i: (member_of(given[i]), error)
                for i, error in columns.errors
                if isinstance(error, LaurelsError)
            },
            window=window_named(state.rules, window).name,
            ranks=ranks or len(given) == 1,
            event_time=isinstance(self._clock, EventClock),
            absolute=absolute,
            atomic=atomic,
            position=position,
        )

    def _write(self, write: Write) -> Any:
        self._ensure_usable()
        return self._committer.submit(write)

    async def write_async(self, write: Write) -> Any:
        """Hands a write to the commit thread and awaits its result."""
        self._ensure_usable()
        return await self._committer.submit_async(write)

    def _one(self, submission: Submission) -> Receipt:
        return only_receipt(self._write(submission))

    def _commit(self, tickets: list[Ticket]) -> None:
        """Makes a group of writes one entry of the log and folds it."""
        if self._refusing is not None:
            raise self._refusing
        now_ms = self._now()
        accepted: list[tuple[Ticket, FoldedWrite]] = []
        logged: list[records.Record] = []
        for ticket in tickets:
            try:
                drafted = ticket.write.records(self._fold, now_ms)
            except LaurelsError as error:
                ticket.fail(error)
                continue
            if drafted:
                logged += drafted
                now_ms = drafted[-1].now_ms
            accepted.append((ticket, ticket.write))
        body = records.encode(logged) if logged else None
        with self._sound():
            offset = self._fold.offset if body is None else self._log.append(body)
            with self._lock:
                self._fold_all(accepted, offset)
        if isinstance(self._clock, EventClock):
            self._clock.observe(now_ms)

    def _fold_all(self, accepted: list[tuple[Ticket, FoldedWrite]], offset: int) -> None:
        for _, write in accepted:
            write.before(self._fold)
        for _, write in accepted:
            write.fold(self._fold)
        self._fold.offset = offset
        for ticket, write in accepted:
            try:
                ticket.succeed(write.result(self._fold))
            except LaurelsError as error:
                ticket.fail(error)

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Ends the service when an entry may be in the log and not in the index (an interrupt,
        no memory): from then on it would answer something else than the log says."""
        try:
            yield
        except StorageFailed:
            raise
        except BaseException as error:
            self._refusing = self._ended = Closed(f"a commit was broken off ({error!r})")
            raise

    # Recovery

    def _folded_log(self) -> Fold:
        """A fold of the whole log into a fresh index."""
        fold = Fold(self._new_index())
        for offset, body in self._log.read():
            for record in records.decode(body):
                fold.apply(record)
            fold.offset = offset
        return fold

    def _checked(self) -> CheckReport:
        def compared() -> CheckReport:
            self._fold.index.check()
            return compare(self._fold, self._folded_log())

        report: CheckReport = self._write(Task(compared))
        return report

    def _rebuilt(self) -> None:
        def exchange() -> None:
            rebuilt = self._folded_log()
            with self._lock:
                self._fold = rebuilt

        self._write(Task(exchange))


def only_receipt(receipts: Receipts) -> Receipt:
    """The receipt of a batch of one; raises the error when it was refused."""
    if (error := receipts.error(0)) is not None:
        raise error
    return receipts[0]


def data_bytes(data: Any) -> bytes | None:
    """What a member is to carry as JSON bytes; None for None."""
    if data is None:
        return None
    try:
        coded = msgspec.json.encode(data)
        if msgspec.json.decode(coded) != data:
            raise InvalidData("the data does not come back from JSON as it was")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidData(f"the data cannot be written as JSON ({error})") from error
    if len(coded) > MAX_DATA_BYTES:
        raise DataTooLarge(f"the data takes {len(coded)} bytes, the limit is {MAX_DATA_BYTES}")
    return coded


def _check_position(position: object) -> None:
    """A position is None or a source and a text, each a str of up to 4 KiB."""
    if position is None:
        return
    if not isinstance(position, tuple) or len(position) != 2:
        raise InvalidPosition(f"{shown(position)} is no pair of a source and a text")
    for part in position:
        if not isinstance(part, str) or not is_unicode(part) or len(part) > MAX_POSITION:
            raise InvalidPosition(f"{shown(part)} is no text of up to {MAX_POSITION:,} characters")


def _give_ids(columns: Columns, key: str) -> None:
    """Gives every event without an id the one its batch key stands for."""
    id_bytes(key)
    origin = range(columns.n) if columns.kept is None else columns.kept
    own = columns.ids or [None] * columns.n
    columns.ids = [
        id if id is not None else id_bytes(f"{key}#{i}") for i, id in zip(origin, own, strict=True)
    ]
