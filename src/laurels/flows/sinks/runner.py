"""The runner of a sink: reads the changes of boards in order and sends them to a target.

Each board has a task of its own. The task reads a page of changes after the sink's position, sends
it, and only then moves the position: in the target, together with the page, if the target keeps
positions; otherwise in the store, after the target has confirmed. So after a kill at any moment a
page may be sent again, and none is left out.

At the end of a board's changes the task waits until the store reports new changes of the board. One
small query asks for all boards with new changes, however many boards the store has. The answer may
lack some boards with changes, so each board is also read once in a round over all boards.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change, ChangedBoards, ChangePage, is_own
from laurels.core.changes.beginning import is_initial
from laurels.errors import (
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    LaurelsError,
    UnknownBoard,
)
from laurels.errors.sinks import SinkBehind, TargetRefused
from laurels.flows.attempts import FlowAttempts
from laurels.flows.retries import Backoff, FlowRetryPolicy, Sleep
from laurels.model.board_patterns import reaches

from .metrics import SinkMetrics
from .options import SinkOptions
from .parking import Parking
from .positions import move_position, position_of
from .retention import WARNED_AT, Retention, retention_of
from .round import BoardRound
from .target import START_OVER, SinkPage, SinkTarget

T = TypeVar("T")

POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0
REPORT_SECONDS = 10.0
"""The time between two reports of the position to the store, if the target stores the position."""

MEASURED_AT_ONCE = 100
"""While pages are being delivered, the waiting changes of their boards are counted again. This is
the maximum number of boards for which this is done in one second."""


class SinkRunner:
    """Runs one sink until it is cancelled or, with `until_end`, has sent all changes."""

    def __init__(
        self,
        boards: AsyncLeaderboards,
        target: SinkTarget,
        options: SinkOptions,
        *,
        now_ms: Callable[[], int],
        parking: Parking | None = None,
        report: Callable[[str], None] = lambda _: None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._boards = boards
        self._target = target
        self._options = options
        self._now_ms = now_ms
        self._parking = parking
        self._report = report
        self._sleep = sleep
        self._target_lock = asyncio.Lock()
        self._readers: dict[str, _BoardReader] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._error: BaseException | None = None
        """The error of a board's task, which ends the sink; then `_stopped` is set."""
        self._round = BoardRound()
        self._unreported: set[_BoardReader] = set()
        """Readers whose position is not yet reported to the store."""
        self._delivering: set[_BoardReader] = set()
        """Readers with a page that is not yet delivered."""
        self._retentions: dict[str, Retention] = {}
        self._unmeasured: dict[str, None] = {}
        """Boards with new changes that are not yet included in the number of waiting changes, since
        a page of the board may be in delivery."""
        self._seconds_unmeasured = 0.0
        self.metrics = SinkMetrics({})
        self.failed: dict[str, LaurelsError] = {}
        """The boards on which the sink has stopped, each with the error. They are tried again once
        in each round."""

    async def run(self) -> None:
        """Send the changes of all boards that keep changes. Raises SinkOvertaken, and the
        permanent errors of the target and the store; the errors of a single board are recorded in
        `failed` instead."""
        try:
            await self._retry(self._target.open, self.metrics)
            if self._options.until_end:
                self._start_readers(await self._board_names())
                await asyncio.gather(*self._tasks)
            else:
                await self._wake_readers()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._target.close()

    async def _wake_readers(self) -> None:
        """Wake the readers of boards with new changes, until the sink is cancelled or one of its
        tasks fails."""
        seconds, changed = POLL_SECONDS, await self._changed_boards(None)
        while True:
            names = self._matching(changed.boards or ())
            if changed.boards is None or self._round.is_over:
                all_names = await self._board_names()
                self._forget_missing(all_names)
                self._start_readers(all_names, retry_failed=True)
                self._round.begin(all_names)
                names = all_names if changed.boards is None else names
            self._wake(names)
            self._unmeasured |= dict.fromkeys(names)
            await self._measure(seconds)
            for reader in list(self._delivering):
                reader.warn()
            seconds = POLL_SECONDS if names else min(MAX_POLL_SECONDS, seconds * 2)
            self._wake(self._round.after(seconds))
            self._wake_unreported()
            await self._wait(seconds)
            changed = await self._changed_boards(changed.cursor)

    async def _changed_boards(self, cursor: str | None) -> ChangedBoards:
        return await self._retry(lambda: self._boards.changed_boards(cursor), self.metrics)

    async def _wait(self, seconds: float) -> None:
        """Wait for some seconds. Raises the error of a reader that fails meanwhile."""
        waits = [
            asyncio.create_task(self._pause(seconds)),
            asyncio.create_task(self._stopped.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
        if self._error is not None:
            raise self._error

    async def _pause(self, seconds: float) -> None:
        await self._sleep(seconds)

    def _start_readers(self, names: Iterable[str], *, retry_failed: bool = False) -> None:
        """Start a reader for each board that has none. With `retry_failed` this includes boards on
        which the sink has stopped, since an operator may have removed the cause, such as a missing
        permission or a lost position."""
        for name in names:
            if name not in self._readers and (retry_failed or name not in self.failed):
                reader = self._readers[name] = _BoardReader(self, name)
                task = asyncio.create_task(self._run_reader(reader))
                self._tasks.add(task)
                task.add_done_callback(partial(self._handle_end, reader))

    def _forget_missing(self, names: Iterable[str]) -> None:
        """Forget the errors of boards that are not in `names`, since the sink no longer reads these
        boards."""
        for name in self.failed.keys() - set(names):
            del self.failed[name]
            self.metrics.of(name).leave()

    def _wake(self, names: Iterable[str]) -> None:
        """Make the readers of boards read again; start those that do not exist yet."""
        for name in names:
            if name in self._readers:
                self._readers[name].has_changes.set()
            else:
                self._start_readers([name])

    def _wake_unreported(self) -> None:
        """Wake the readers that have to report their position to the store."""
        now_ms = self._now_ms()
        for reader in list(self._unreported):
            if reader.is_report_due(now_ms):
                self._unreported.discard(reader)
                reader.has_changes.set()

    async def _measure(self, seconds: float) -> None:
        """Once a second, count the waiting changes of boards that got new changes during the
        delivery of a page. `seconds` have passed since the last call."""
        self._seconds_unmeasured += seconds
        if self._seconds_unmeasured < MAX_POLL_SECONDS:
            return
        self._seconds_unmeasured = 0.0
        for name in list(self._unmeasured)[:MEASURED_AT_ONCE]:
            del self._unmeasured[name]
            if name in self._readers:
                await self._readers[name].measure()

    def _handle_end(self, reader: "_BoardReader", task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._unreported.discard(reader)
        del self._readers[reader.board]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._stopped.set()

    async def _board_names(self) -> list[str]:
        """Return the names of all boards that the sink reads."""
        boards = await self._retry(self._boards.boards, self.metrics)
        selected = [
            each for each in boards if each.changes and reaches(self._options.boards, each.name)
        ]
        self._retentions = {each.name: retention_of(each) for each in selected}
        return [each.name for each in selected]

    async def _retention(self, board: str) -> Retention:
        """Return the retention of a board, as it was when the boards were last listed."""
        if (retention := self._retentions.get(board)) is None:
            retention = retention_of(await self._boards.get(board))
            self._retentions[board] = retention
        return retention

    def _matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if reaches(self._options.boards, name)]

    async def _run_reader(self, reader: "_BoardReader") -> None:
        """Run the reader of a board; record the error if the board's changes cannot be sent."""
        board, metrics = reader.board, self.metrics.of(reader.board)
        last_wait = metrics.wait
        try:
            await reader.run()
        except (UnknownBoard, ChangesNotKept):
            self.failed.pop(board, None)
            metrics.leave()
        except (SinkBehind, TargetRefused) as error:
            if str(self.failed.get(board)) != str(error):
                self._report(f"{board}: {error}")
            self.failed[board] = error
            metrics.has_lost = isinstance(error, SinkBehind)
            if not reader.has_progressed:  # `last_wait` has the time of the first failure
                metrics.wait = last_wait
            seconds = None if metrics.has_lost else self._round.seconds_left
            metrics.fail(error, self._now_ms(), seconds)
        finally:
            self._delivering.discard(reader)

    async def _retry(self, call: Callable[[], Awaitable[T]], attempts: FlowAttempts) -> T:
        """Return the result of a call; repeat it while its error may be temporary."""
        has_failed = False

        def record(error: LaurelsError, seconds: float) -> None:
            nonlocal has_failed
            attempts.fail(error, self._now_ms(), seconds)
            if not has_failed:
                self._report(str(error))
            has_failed = True

        result = await FlowRetryPolicy(self._sleep, record).call(call)
        attempts.succeed()
        return result


class _BoardReader:
    """Reads the changes of one board and sends them to the target."""

    def __init__(self, sink: SinkRunner, board: str) -> None:
        self._sink = sink
        self.board = board
        self.has_changes = asyncio.Event()
        """Set if the board may have changes after those that were read last."""
        self.has_progressed = False
        """Whether this reader has read a page of changes and delivered it."""
        self._options = sink._options
        self._target = sink._target
        self._metrics = sink.metrics.of(board)
        self._stored: str | None = None
        """The position that is stored in the target or in the store."""
        self._after: str | None = None
        self._restarts = False
        self._reported_ms = 0
        self._reported: str | None = None
        self._delivering: SinkPage | None = None
        """The page that is not yet delivered."""
        self._is_warned = False
        self._prefetched: tuple[str, asyncio.Task[ChangePage]] | None = None
        """A cursor and the task that reads the page after it, while the previous page is
        delivered."""

    async def run(self) -> None:
        """Send changes until cancelled; with `until_end`, until all changes have been sent."""
        try:
            await self._send_changes()
        finally:
            if self._prefetched is not None:
                self._prefetched[1].cancel()
                await asyncio.gather(self._prefetched[1], return_exceptions=True)

    async def _send_changes(self) -> None:
        self._stored = self._after = await self._call(self._position)
        if self._stored == START_OVER:
            self._after, self._restarts = None, True
        elif self._stored is None:
            self._restarts = self._target.holds_state or self._options.initial
        while True:
            page = await self._call(self._read)
            if page is None:
                continue
            if page.more:
                self._prefetched = page.cursor, asyncio.create_task(self._read_page(page.cursor))
            changes = [change for change in page if not is_own(change)]
            if changes:
                await self._deliver(changes, page)
            self._after = page.cursor
            self._record_progress()
            await self._report_position(at_end=not page.more)
            if page.more:
                continue
            if self._options.until_end:
                return
            await self.has_changes.wait()

    def _record_progress(self) -> None:
        self.has_progressed, self._metrics.has_lost = True, False
        self._sink.failed.pop(self.board, None)

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._sink._retry(call, self._metrics)

    async def _position(self) -> str | None:
        async with self._sink._target_lock:
            return await position_of(self._sink._boards, self._target, self.board, self._options)

    async def _read(self) -> ChangePage | None:
        """Return the changes after the position; None if the sink has to start over."""
        beginning = self._restarts and self._after is None
        prefetched, self._prefetched = self._prefetched, None
        try:
            if prefetched is not None and prefetched[0] == self._after:
                return await prefetched[1]
            return await self._read_page(self._after, initial=beginning)
        except (ChangesExpired, CursorDiverged) as error:
            if not self._target.holds_state:
                raise SinkBehind(f"the sink {self._options.name!r}: {error.what}") from error
            self._sink._report(f"{self.board}: {error.what}; sending all current entries again")
            self._after, self._restarts = None, True
            self._metrics.restarts += 1
            return None

    async def _read_page(self, after: str | None, *, initial: bool = False) -> ChangePage:
        self.has_changes.clear()  # before the read, since changes during the read set the event
        return await self._sink._boards.changes(
            self.board, after=after, limit=self._target.limit, initial=initial
        )

    async def _deliver(self, changes: Sequence[Change], read: ChangePage) -> None:
        cursor = read.cursor
        page = SinkPage(self.board, changes, self._stored, cursor, self._restarts)
        metrics = self._metrics
        metrics.waiting = len(changes) + read.waiting
        if changes[-1].kind not in ("initial", "initial_end"):
            metrics.waiting_since_ms = changes[0].at_ms
        metrics.retention = await self._call(lambda: self._sink._retention(self.board))
        position = self._reported if self._target.keeps_positions else self._stored
        metrics.is_registered = position is not None
        self._delivering = page
        self._sink._delivering.add(self)
        self.warn()
        if await self._send_or_park(page):
            metrics.delivered += len(changes)
        else:
            metrics.parked += len(changes)
        if not self._target.keeps_positions:
            before = self._stored
            await self._call(lambda: self._move_position(before, cursor))
        self._stored, self._restarts, self._delivering = cursor, False, None
        self._sink._delivering.discard(self)
        metrics.waiting = read.waiting
        if not read.waiting:
            metrics.waiting_since_ms = None

    def warn(self) -> None:
        """Report that the board will soon remove unsent changes, as soon as they take up the
        fraction `WARNED_AT` of the retention. Report it again only after the fraction was lower in
        between."""
        retention = self._sink._retentions.get(self.board)
        self._metrics.retention = retention or self._metrics.retention
        used = self._metrics.used(self._sink._now_ms())
        if used >= WARNED_AT and not self._is_warned:
            self._sink._report(
                f"{self.board}: {self._metrics.waiting:,} changes are not sent, {used:.0%} of what "
                "the board keeps: at 100% changes are lost; raise changes_max, or find out what "
                "holds up the sink"
            )
        self._is_warned = used >= WARNED_AT

    async def measure(self) -> None:
        """Count the waiting changes again if a page is being delivered, because the board may have
        got more changes since that page was read."""
        page = self._delivering
        if page is None or is_initial(page.after):
            return
        try:
            read = await self._sink._boards.changes(self.board, after=page.after, limit=1)
        except LaurelsError:  # the board's own task gets the same error and handles it
            return
        if self._delivering is page:
            unsent = sum(not is_own(change) for change in read)
            self._metrics.waiting = len(page.changes) + unsent + read.waiting

    async def _send_or_park(self, page: SinkPage) -> bool:
        """Send a page; return False if it was parked."""
        backoff = Backoff(self._sink._sleep)
        while True:
            try:
                await self._call(lambda: self._send(page))
            except TargetRefused as error:
                parking = self._sink._parking
                if self._target.keeps_positions or parking is None:
                    raise
                if backoff.failures + 1 < self._options.tries:
                    await backoff.wait(on_wait=partial(self._record_refusal, error))
                    continue
                await parking.park(page, error)
                self._sink._report(f"{page.board}: parked {len(page.changes)} changes: {error}")
                return False
            return True

    def _record_refusal(self, error: TargetRefused, seconds: float) -> None:
        self._metrics.fail(error, self._sink._now_ms(), seconds)

    async def _send(self, page: SinkPage) -> None:
        async with self._sink._target_lock:
            await self._target.deliver(page)

    async def _move_position(self, before: str | None, cursor: str) -> None:
        """Move the position in the store."""
        await move_position(self._sink._boards, self.board, self._options.source, before, cursor)

    async def _report_position(self, *, at_end: bool) -> None:
        """If the target stores the position, report the position to the store from time to time.
        The store can then show the position, and keep the changes that follow."""
        if not self._target.keeps_positions or self._stored is None:
            return
        now_ms = self._sink._now_ms()
        if self.is_report_due(now_ms) or (at_end and self._options.until_end):
            self._reported_ms = now_ms
            stored = self._reported = self._stored
            try:
                current = await self._sink._boards.position(self.board, self._options.source)
                if current != stored:
                    await self._move_position(current, stored)
            except LaurelsError as error:
                self._reported = None
                self._sink._report(
                    f"{self.board}: the position was not reported to the store: {error}"
                )
        if self._reported != self._stored:
            self._sink._unreported.add(self)

    def is_report_due(self, now_ms: int) -> bool:
        """Return whether the position may be reported to the store again."""
        return now_ms - self._reported_ms >= REPORT_SECONDS * 1_000
