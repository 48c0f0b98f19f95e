"""The service: accept → log → fold, and the moment a question is answered in.

Writes are gathered into commits (`commit`). A commit gives each write its `now`, appends all
their records as one entry of the log, and only when that is durable folds them, under the lock
that readers share. So no answer shows half a commit, none waits for a disk, and
a failed append leaves the index untouched. `Leaderboards` and `AsyncLeaderboards` are the verbs
on top of this.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

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
    InvalidClock,
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
from .queries import View, period_infos
from .receipt import Receipt, Receipts
from .standing import PeriodInfo
from .stats import BoardStats, CheckReport, Stats, board_stats, store_stats
from .verify import compare
from .windows import MAX_MS, MIN_MS
from .writes import FoldedWrite, Submission, Task

MAX_DATA_BYTES = 1_024
MAX_POSITION = 4_096


class Service:
    """A log, an index folded from it, and a clock, whose name the log notes when it is written."""

    def __init__(
        self,
        log: Log,
        new_index: Callable[[], Index],
        clock: Clock,
        clock_name: str | None = None,
    ) -> None:
        self._log = log
        self._new_index = new_index
        self._clock = clock
        self._clock_to_note = None if log.note("clock") == clock_name else clock_name
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._ended: str | None = None
        self._closing = threading.Lock()
        self._on_close: list[Callable[[], None]] = [log.close]
        self._fold = self._folded_log()
        if isinstance(clock, EventClock):
            clock.observe(self._fold.now_ms)
        self._now()
        self._committer = Committer(self._commit)

    @property
    def begun(self) -> bool:
        """Whether anything was recorded besides the creation of boards."""
        return self._fold.now_ms > MIN_MS

    def on_close(self, action: Callable[[], None]) -> None:
        """Has `action` called when this is closed, after the log is."""
        self._on_close.append(action)

    def close(self) -> None:
        """Commits what is queued and closes; another close does nothing."""
        if self._pid != os.getpid() or not self._closing.acquire(blocking=False):
            return
        self._committer.close()
        self._ended = self._ended or "the store is closed"
        for action in self._on_close:
            action()

    # Reading

    def reading(self) -> threading.RLock:
        """The lock under which a question is asked: a commit holds it while it counts, and never
        over a disk write. Raises when the service cannot be used."""
        self.ensure_usable()
        return self._lock

    def ensure_usable(self) -> None:
        """Raises Forked in a child of the process that opened this, Closed after the end."""
        if self._pid != os.getpid():
            raise Forked(f"the store was opened by process {self._pid}")
        if self._ended is not None:
            raise Closed(self._ended)

    def named(self, board: str) -> BoardState:
        """The board of that name, as of the newest commit; needs no lock."""
        self.ensure_usable()
        return self._fold.named(board)

    def boards(self) -> list[BoardState]:
        """All boards, in the order of their names; asked under the lock."""
        return [self._fold.boards[name] for name in sorted(self._fold.boards)]

    def view(
        self, board: str, window: str | None, period: str | None, after: str | None = None
    ) -> View:
        """One ranking at this moment; asked under the lock."""
        return View(self._fold, self.named(board), self._now(), window, period, after)

    def period_infos(self, board: str, window: str | None) -> list[PeriodInfo]:
        """The periods of a window that can be read; asked under the lock."""
        return period_infos(self._fold, self.named(board), self._now(), window)

    def board_stats(self, board: str) -> BoardStats:
        """The figures of a board; asked under the lock."""
        return board_stats(self._fold, self.named(board), self._now())

    def stats(self) -> Stats:
        """The figures of the whole store; asked under the lock."""
        return store_stats(self._fold, self._log.nbytes(), self._now())

    def _now(self) -> int:
        """The time by the clock, never less than the newest record's."""
        now_ms = self._clock.now_ms()
        if type(now_ms) is not int or not MIN_MS <= now_ms < MAX_MS:
            raise InvalidClock(f"the clock says {shown(now_ms)}")
        return max(now_ms, self._fold.now_ms)

    # Writing

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
        given = batch_list(events)
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

    def write(self, write: Write) -> Any:
        """Commits a write and answers its result; raises what refused it."""
        self.ensure_usable()
        return self._committer.submit(write)

    async def write_async(self, write: Write) -> Any:
        """The same, awaited."""
        self.ensure_usable()
        return await self._committer.submit_async(write)

    def _commit(self, tickets: list[Ticket]) -> None:
        """Makes a group of writes one entry of the log and folds it."""
        if self._ended is not None:
            raise Closed(self._ended)
        now_ms = self._now()
        accepted: list[tuple[Ticket, FoldedWrite]] = []
        logged: list[msgspec.Raw] = []
        for ticket in tickets:
            write: FoldedWrite = ticket.write
            try:
                drafted = write.records(self._fold, now_ms)
                coded = [records.encode_one(record) for record in drafted]
                write.before(self._fold)
            except Exception as error:  # its own, whatever it is: the others go on
                ticket.fail(error)
                continue
            logged += coded
            now_ms = drafted[-1].now_ms if drafted else now_ms
            accepted.append((ticket, write))
        body = records.encode(logged) if logged else None
        if body is not None and self._clock_to_note is not None:
            self._log.set_note("clock", self._clock_to_note)
            self._clock_to_note = None
        with self._sound():
            offset = self._fold.offset if body is None else self._log.append(body)
            with self._lock:
                self._fold_all(accepted, offset)
        if isinstance(self._clock, EventClock):
            self._clock.observe(now_ms)

    def _fold_all(self, accepted: list[tuple[Ticket, FoldedWrite]], offset: int) -> None:
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
        """Ends the service when an entry may be in the log and not in the index (no memory, say):
        from then on it would answer something else than the log says."""
        try:
            yield
        except StorageFailed:
            raise
        except BaseException as error:
            self._ended = f"a commit was broken off ({error!r})"
            raise Closed(self._ended) from error

    # Recovery

    def _folded_log(self) -> Fold:
        """A fold of the whole log into a fresh index."""
        fold = Fold(self._new_index())
        for offset, body in self._log.read():
            for record in records.decode(body):
                fold.apply(record)
            fold.offset = offset
        return fold

    def check(self) -> CheckReport:
        """Checks every structure, and the index against a fold of the log."""

        def compared() -> CheckReport:
            self._fold.index.check()
            return compare(self._fold, self._folded_log())

        report: CheckReport = self.write(Task(compared))
        return report

    def rebuild(self) -> None:
        """Puts a fold of the log in the place of the index."""

        def exchange() -> None:
            rebuilt = self._folded_log()
            with self._lock:
                self._fold = rebuilt

        self.write(Task(exchange))


def batch_list(events: Iterable[Any]) -> list[Any]:
    """The events of a batch; refused when it is none or too large."""
    if not isinstance(events, Iterable):
        raise InvalidEvent(f"{shown(events)} is no batch of events")
    given = list(islice(events, MAX_BATCH + 1))
    if len(given) > MAX_BATCH:
        raise BatchTooLarge(f"more than {MAX_BATCH:,} events")
    return given


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
        if type(part) is not str or not is_unicode(part) or len(part) > MAX_POSITION:
            raise InvalidPosition(f"{shown(part)} is no text of up to {MAX_POSITION:,} characters")


def _give_ids(columns: Columns, key: str) -> None:
    """Gives every event without an id the one its batch key stands for."""
    id_bytes(key)
    origin = range(columns.n) if columns.kept is None else columns.kept
    own = columns.ids or [None] * columns.n
    columns.ids = [
        id if id is not None else id_bytes(f"{key}#{i}") for i, id in zip(origin, own, strict=True)
    ]
