"""The runner of a sink: reads the changes of boards in order and sends them to a target.

Each board has a task of its own. The task reads a page of changes after the sink's position, sends
it, and only then moves the position: in the target, together with the page, if the target keeps
positions; otherwise in the store, after the target has confirmed. So after a kill at any moment a
page may be sent again, and none is left out.

The changes of a deleted board end with a change of the kind `delete`. The store keeps them for a
while, so a sink that was stopped sends them later. Then it continues with the changes of the board
that has the name now, if there is one.

At the end of a board's changes the task waits until the store reports new changes of the board. One
small query asks for all boards with new changes, however many boards the store has. The answer may
lack some boards with changes, so each board is also read once in a round over all boards.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import ChangedBoards
from laurels.errors import ChangesNotKept, LaurelsError, UnknownBoard
from laurels.errors.sinks import SinkBehind, TargetRefused, TargetUnavailable
from laurels.flows.retries import Sleep
from laurels.model.board_patterns import reaches

from .board_reader import BoardReader
from .context import SinkContext
from .options import SinkOptions
from .parking import Parking
from .payout_reader import PayoutReader
from .retention import retention_of
from .round import BoardRound
from .target import SinkTarget

POLL_SECONDS = 0.05
MAX_POLL_SECONDS = 1.0

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
        self.target, self.options = target, options
        self._context = SinkContext(
            *(boards, target, options),
            now_ms=now_ms,
            parking=parking,
            report=report,
            sleep=sleep,
        )
        self.metrics = self._context.metrics
        self._readers: dict[str, BoardReader] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._error: BaseException | None = None
        """The error of a board's task, which ends the sink; then `_stopped` is set."""
        self._round = BoardRound()
        self._unmeasured: dict[str, None] = {}
        """Boards with new changes that are not yet included in the number of waiting changes, since
        a page of the board may be in delivery."""
        self._seconds_unmeasured = 0.0

    @property
    def failed(self) -> Mapping[str, LaurelsError]:
        """The boards on which the sink has stopped, each with the error. They are tried again once
        in each round."""
        return self._context.failed

    @property
    def payouts_error(self) -> LaurelsError | None:
        """The error that stops payouts from being sent while changes are sent; None if there is
        none."""
        return self._context.payouts_error

    async def run(self) -> None:
        """Send the changes of all boards that keep changes, and the due payouts. Raises
        SinkOvertaken, and the permanent errors of the target and the store; the errors of a single
        board are recorded in `failed` instead."""
        try:
            await self._context.retry(self._open, self.metrics)
            if self.options.sends_payouts:
                self._start_payouts()
            if self.options.until_end:
                if self.options.sends_changes:
                    self._start_readers(await self._board_names())
                await asyncio.gather(*self._tasks)
            elif self.options.sends_changes:
                await self._wake_readers()
            else:
                await self._stopped.wait()
                assert self._error is not None, "only an error ends the task that sends payouts"
                raise self._error
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.target.close()

    async def _open(self) -> None:
        """Connect to the target. If it is down, measure how far the sink is behind."""
        try:
            await self.target.open()
        except TargetUnavailable:
            with suppress(LaurelsError):
                names = await self._context.boards.boards() if self.options.sends_changes else ()
                selected = [
                    each.name
                    for each in names
                    if each.changes and reaches(self.options.boards, each.name)
                ]
                for name in selected[:MEASURED_AT_ONCE]:
                    await self._context.measure_in_store(name)
            if self.options.sends_payouts:
                await PayoutReader(self._context).measure_in_store()
            raise

    def _start_payouts(self) -> None:
        """Start the task that sends due payouts."""
        task = asyncio.create_task(PayoutReader(self._context).run())
        self._tasks.add(task)
        task.add_done_callback(self._note_error)

    def _note_error(self, task: asyncio.Task[None]) -> None:
        """Let the error of a task end the sink."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._stopped.set()

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
            elif not self._readers.keys() >= set(names):
                await self._read_deleted()  # a new board may be deleted already
            self._wake(names)
            self._unmeasured |= dict.fromkeys(names)
            await self._measure(seconds)
            for name in list(self._context.delivering):
                self._readers[name].warn()
            seconds = POLL_SECONDS if names else min(MAX_POLL_SECONDS, seconds * 2)
            self._wake(self._round.after(seconds))
            self._wake_unreported()
            await self._wait(seconds)
            changed = await self._changed_boards(changed.cursor)

    async def _changed_boards(self, cursor: str | None) -> ChangedBoards:
        return await self._context.retry(
            lambda: self._context.boards.changed_boards(cursor), self.metrics
        )

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
        await self._context.sleep(seconds)

    def _start_readers(self, names: Iterable[str], *, retry_failed: bool = False) -> None:
        """Start a reader for each board that has none. With `retry_failed` this includes boards on
        which the sink has stopped, since an operator may have removed the cause, such as a missing
        permission or a lost position."""
        for name in names:
            if name not in self._readers and (retry_failed or name not in self.failed):
                reader = self._readers[name] = BoardReader(self._context, name)
                task = asyncio.create_task(self._run_reader(reader))
                self._tasks.add(task)
                task.add_done_callback(partial(self._handle_end, reader))

    def _forget_missing(self, names: Iterable[str]) -> None:
        """Forget the errors of boards that are not in `names`, since the sink no longer reads these
        boards."""
        for name in self.failed.keys() - set(names):
            del self._context.failed[name]
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
        now_ms = self._context.now_ms()
        for name in list(self._context.unreported):
            reader = self._readers[name]
            if reader.is_report_due(now_ms):
                self._context.unreported.discard(name)
                reader.has_changes.set()

    async def _measure(self, seconds: float) -> None:
        """Once a second, count the waiting changes again of each board that got new changes while
        a page of it is being delivered. `seconds` have passed since the last call."""
        self._seconds_unmeasured += seconds
        if self._seconds_unmeasured < MAX_POLL_SECONDS:
            return
        self._seconds_unmeasured = 0.0
        for name in list(self._unmeasured)[:MEASURED_AT_ONCE]:
            del self._unmeasured[name]
            if name in self._readers:
                await self._readers[name].measure()

    def _handle_end(self, reader: BoardReader, task: asyncio.Task[None]) -> None:
        self._context.unreported.discard(reader.board)
        del self._readers[reader.board]
        self._note_error(task)

    async def _board_names(self) -> list[str]:
        """Return the names of all boards that the sink reads, also of deleted boards with changes
        that the sink has not sent."""
        boards = await self._context.retry(self._context.boards.boards, self.metrics)
        await self._read_deleted()
        selected = [
            each for each in boards if each.changes and reaches(self.options.boards, each.name)
        ]
        self._context.retentions = {each.name: retention_of(each) for each in selected}
        names = [*self._context.retentions, *self._context.deleted.names()]
        return [*dict.fromkeys(names)]

    async def _read_deleted(self) -> None:
        """Read which deleted boards have changes that the sink may not have sent."""
        source = self.options.source
        deleted = await self._context.retry(
            lambda: self._context.boards.deleted_boards(source), self.metrics
        )
        self._context.deleted.note(deleted)

    def _matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if reaches(self.options.boards, name)]

    async def _run_reader(self, reader: BoardReader) -> None:
        """Run the reader of a board; record the error if the board's changes cannot be sent."""
        board, metrics = reader.board, self.metrics.of(reader.board)
        last_wait = metrics.wait
        try:
            await reader.run()
        except (UnknownBoard, ChangesNotKept):
            self._context.failed.pop(board, None)
            metrics.leave()
        except (SinkBehind, TargetRefused) as error:
            if str(self.failed.get(board)) != str(error):
                self._context.report(f"{board}: {error}")
            self._context.failed[board] = error
            metrics.has_lost = isinstance(error, SinkBehind)
            if not reader.has_progressed:  # still failing: keep the time of the first failure
                metrics.wait = last_wait
            seconds = None if metrics.has_lost else self._round.seconds_left
            metrics.fail(error, self._context.now_ms(), seconds)
        finally:
            self._context.delivering.discard(board)
