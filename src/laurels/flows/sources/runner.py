"""Reads a stream and counts its messages on boards, each once.

The runner reads a batch of messages, divides it by board, and submits the events of each board
together with the position of the batch, usually in one commit. Messages at or before the position
of a board are skipped when they are read again, so it does not matter where a run ended or how
batches were divided.

Reading begins after the lowest position of all boards that the source may feed. A board without a
position counts as being at the beginning of the stream. The positions of boards that get few
messages are moved forward from time to time, so that a restart need not read from far back.

If a shard of a board has lost its newest writes, the run begins again, and that shard first counts
the lost events again (`leveling`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from laurels.api.aio import AsyncLeaderboards
from laurels.errors import LaurelsError, ShardsDiffer, UnknownBoard
from laurels.errors.sources import SourceDiverged, SourceExpired, SourceShardExpired
from laurels.flows.retries import FlowRetryPolicy, Sleep
from laurels.model.windows.kinds import Window

from .arrivals import next_refusal_ms
from .batches import EventRows, MessageBatch
from .feeding import BoardFeed
from .lag_warnings import LagWarnings
from .leveling import ShardLeveler
from .mapping import EventMapping
from .metrics import SourceMetrics
from .outcomes import MessageOutcomes
from .progress import Progress, TimedPosition
from .read_ahead import ReadAhead
from .reader import (
    ZERO,
    Message,
    StoredPosition,
    StreamPosition,
    StreamReader,
    StreamState,
    decode_position,
)
from .rejects import Rejects
from .rows import RowReader
from .settings import SourceSettings
from .stopping import Stopped, StopSignal

ADVANCE_EVERY = 100
"""The number of batches after which the positions of boards without events are moved forward."""
IDLE_READS = 60
"""The number of reads without messages, about a second each, after which the positions of boards
without events are moved forward, too."""
ADVANCED_AT_ONCE = 64
"""The number of boards whose positions are moved at the same time."""
BOARDS_AT_ONCE = 64
"""The number of boards to which events of a batch are submitted at the same time."""
ON_LOOP = 1_000
"""The maximum number of messages that are converted to events on the event loop; larger batches are
converted in a thread."""
_LOOKED_UP_SINGLY = 16
"""The maximum number of boards new to a run that are looked up one by one. If a batch has more, all
boards are listed instead."""


class SourceRunner:
    """One run of a source, started by `run` and ended by `stop`. It adds to `metrics`, which may
    already have the counts of earlier runs."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        reader: StreamReader,
        mapping: EventMapping,
        settings: SourceSettings,
        *,
        rejects: Rejects,
        sleep: Sleep,
        now_ms: Callable[[], int],
        waiting: Callable[[LaurelsError, float], None] = lambda _error, _seconds: None,
        warn: Callable[[str], None] = lambda _text: None,
        progress: Callable[[SourceMetrics], None] = lambda _metrics: None,
        metrics: SourceMetrics | None = None,
    ) -> None:
        self.metrics = SourceMetrics() if metrics is None else metrics
        self._lb = lb
        self._reader = reader
        self._settings = settings
        self._show_progress = progress
        self._stopping = StopSignal()
        self._now_ms = now_ms
        self._on_wait = waiting
        self._retries = FlowRetryPolicy(
            self._stopping.interruptible_sleep(sleep), self._record_failure
        )
        self._progress = Progress(reader, now_ms)
        self._ahead = ReadAhead(reader, settings.batch)
        self._rows = RowReader(mapping, settings, now_ms)
        self._outcomes = MessageOutcomes(settings.name, self.metrics, rejects)
        self._boards = BoardFeed(
            lb,
            settings.key,
            self._retries,
            now_ms,
            reader=self._rows,
            ahead=self._ahead,
            progress=self._progress,
            outcomes=self._outcomes,
        )
        self._leveling = ShardLeveler(
            self._boards,
            reader,
            self._rows,
            self._outcomes,
            self._retries,
            batch=settings.batch,
            report=lambda error: waiting(error, 0.0),
        )
        self._lag_warnings = LagWarnings(settings.name, warn)
        self._idle_reads = 0
        self._is_restart = False

    def stop(self) -> None:
        """End the run: immediately while it waits, otherwise after the commit in progress."""
        self._stopping.request()

    async def run(self) -> None:
        """Count messages until the source ends or is stopped."""
        try:
            while True:
                try:
                    await self._begin()
                    await self._follow()
                except ShardsDiffer:
                    await self._ahead.drop()
                    self._is_restart = True
                else:
                    break
        except Stopped:
            pass
        finally:
            await self._ahead.drop()

    async def _follow(self) -> None:
        """Count messages as they arrive. Raises ShardsDiffer."""
        is_last = False
        while not self._stopping.is_requested:
            is_due = is_last or self._progress.is_report_due(len(self._boards.positions))
            time_ms = await self._retries.call(self._reader.time_ms) if is_due else None
            messages = await self._read_batch()
            if len(messages) == self._settings.batch and self._reader.resumes:
                self._ahead.begin(messages[-1].position)
            await self._count(messages)
            if not messages:
                self._move(self._progress.timed_position_after(self._progress.at, time_ms))
                if self._reader.ended or is_last:
                    break
                is_last = self._settings.until_end
            if is_due:
                await self._report_progress()
            self.metrics.succeed()
        await self._report_progress()
        await self._advance(most=len(self._boards.positions))

    def _record_failure(self, error: LaurelsError, seconds: float) -> None:
        self.metrics.fail(error, self._now_ms(), seconds)
        self._on_wait(error, seconds)

    # The beginning of a run

    async def _begin(self) -> None:
        state = await self._retries.call(self._reader.open)
        self._outcomes.stream = state.identity
        self._boards.positions.clear()
        boards = await self._retries.call(self._lb.boards)
        self._boards.windows.set_boards(boards)
        names = [board.name for board in boards if self._settings.feeds(board.name)]
        for first in range(0, len(names), BOARDS_AT_ONCE):
            group = names[first : first + BOARDS_AT_ONCE]
            await _await_all(self._read_first_position(board, state) for board in group)
        starts = self._boards.positions.values()
        newest = state.newest if self._settings.begin == "now" else ZERO
        self._move(TimedPosition(min(starts, default=newest), None))

    async def _read_first_position(self, board: str, state: StreamState) -> None:
        self._boards.positions[board] = await self._first_position(board, state)

    async def _first_position(self, board: str, state: StreamState) -> StreamPosition:
        """Return the position after which a board counts messages in this run."""
        begin = self._settings.begin
        may_skip = begin is not None and not self._is_restart
        first = ZERO
        if begin == "now":
            first = self._progress.at if self._is_restart else state.newest
        try:
            stored = await self._stored_position(board)
        except ShardsDiffer as error:
            try:
                allow_gaps = may_skip and begin == "start"
                stored = await self._leveling.run(board, error, allow_gaps=allow_gaps)
            except (SourceDiverged, SourceShardExpired):
                if not may_skip:
                    raise
                await self._boards.set(board, first)
                return first
        position_error: LaurelsError | None = None
        if stored is not None and self._reader.resumes:
            if (mismatch := self._reader.mismatch(stored)) is not None:
                position_error = SourceDiverged(
                    f"{self._reader.name} is not the stream that {board!r} has counted: {mismatch}"
                )
            elif self._reader.is_expired(stored):
                position_error = SourceExpired(
                    f"{self._reader.name} no longer keeps all messages after {stored.at}, "
                    f"the last one that {board!r} has counted"
                )
            else:
                return stored.position
        if position_error is not None and not may_skip:
            raise position_error
        if isinstance(position_error, SourceExpired) and begin == "start" and stored is not None:
            return stored.position
        if stored is not None or begin == "now":
            await self._boards.reset(board, first)
        return first

    async def _stored_position(self, board: str) -> StoredPosition | None:
        text = await self._boards.commits.read_position(board)
        return None if text is None else decode_position(text)

    # Reading

    async def _read_batch(self) -> Sequence[Message]:
        wait = not self._settings.until_end
        read = partial(self._ahead.read, self._progress.at, wait=wait)

        async def attempt() -> Sequence[Message]:
            return await self._stopping.interruptible(read())

        return await self._retries.call(attempt)

    async def _count(self, messages: Sequence[Message]) -> None:
        """Count a batch and move to its end."""
        messages = MessageBatch.of(messages)
        if not messages:
            self._idle_reads += 1
            if self._idle_reads % IDLE_READS == 0:
                await self._advance(most=ADVANCED_AT_ONCE)
            return
        self.metrics.read += len(messages)
        self.metrics.batches += 1
        end = messages[-1].position
        # The latest time at which the stream took any of the messages, None if it has no times.
        latest = max([each for each in messages.times if each is not None], default=None)
        divide = partial(self._rows.rows_by_board, messages, self._boards.positions, self._outcomes)
        boards = await asyncio.to_thread(divide) if len(messages) > ON_LOOP else divide()
        await self._boards.deliver_rejects()
        await self._look_up(boards)
        board_rows = [
            (board, rows) for board, rows in boards.items() if board in self._boards.positions
        ]
        timed_position = self._progress.timed_position_after(end, latest)
        for first in range(0, len(board_rows), BOARDS_AT_ONCE):
            group = board_rows[first : first + BOARDS_AT_ONCE]
            await _await_all(
                self._boards.feed(board, rows, timed_position) for board, rows in group
            )
        self._move(timed_position)
        if self.metrics.batches % ADVANCE_EVERY == 0:
            await self._advance(most=ADVANCED_AT_ONCE)
        self._show_progress(self.metrics)

    async def _look_up(self, boards: dict[str, EventRows]) -> None:
        """Read the positions of boards that are new to this run, and drop their messages up to
        these positions. Count the messages for boards that do not exist as `unknown`."""
        new = [board for board in boards if board not in self._boards.positions]
        if not new:
            return
        if len(new) > _LOOKED_UP_SINGLY:
            existing = {board.name for board in await self._retries.call(self._lb.boards)}
        else:
            existing = {board for board in new if await self._exists(board)}
        for board in new:
            if board in existing:
                stored = await self._stored_position(board)
                is_same_stream = stored is not None and self._reader.mismatch(stored) is None
                self._boards.positions[board] = (
                    stored.position if stored is not None and is_same_stream else ZERO
                )
                boards[board] = self._outcomes.rows_after(
                    boards[board], self._boards.positions[board]
                )
            else:
                self.metrics.skip_unknown(board, len(boards[board]))

    async def _exists(self, board: str) -> bool:
        try:
            await self._retries.call(partial(self._lb.get, board))
        except LaurelsError as error:
            if error.status != UnknownBoard.status and error.status != 400:
                raise
            return False
        return True

    # Moving positions

    async def _advance(self, *, most: int) -> None:
        """Move forward the positions of up to `most` boards whose positions are behind the position
        of the run. The lowest positions are moved first."""
        if not self._reader.resumes:
            return
        lagging = sorted(
            (position, board)
            for board, position in self._boards.positions.items()
            if position < self._progress.at
        )
        for _, board in lagging[:most]:
            await self._boards.move(board, self._progress.timed_position)

    def _move(self, timed_position: TimedPosition) -> None:
        """Move forward to a position in the stream."""
        self._progress.move(timed_position)
        self.metrics.position = str(timed_position.position)
        self.metrics.passed_ms = timed_position.passed_ms

    async def _report_progress(self) -> None:
        """Tell boards how far the run has read the stream. A board gets a report only if it may be
        waiting for the source before it makes a period or step final."""
        self._progress.record_report()
        timed_position = self._progress.timed_position
        if not self._reader.resumes or timed_position.passed_ms is None:
            return
        await self._retries.call(self._boards.windows.refresh)
        due = []
        for board in list(self._boards.positions):
            windows = await self._windows(board)
            self._lag_warnings.check(
                board,
                windows,
                self._boards.windows.close_wait_ms(board),
                timed_position.passed_ms,
                self._now_ms(),
            )
            if self._may_wait_for(board, windows, timed_position.passed_ms):
                due.append(board)
        for first in range(0, len(due), BOARDS_AT_ONCE):
            group = due[first : first + BOARDS_AT_ONCE]
            await _await_all(self._boards.move(board, timed_position) for board in group)

    async def _windows(self, board: str) -> Sequence[Window]:
        """Return those windows of a board whose periods or steps end; none for a deleted board."""
        try:
            return await self._retries.call(partial(self._boards.windows.of, board))
        except UnknownBoard:
            self._boards.forget(board)
            return ()

    def _may_wait_for(self, board: str, windows: Sequence[Window], until_ms: int) -> bool:
        """Return whether a window of a board may wait for a report that the source has read the
        stream up to `until_ms`, before it makes a period or step final."""
        passed_ms = self._boards.commits.passed_ms(board)
        if passed_ms is None:
            return bool(windows)
        return next_refusal_ms(windows, passed_ms) <= until_ms


async def _await_all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all calls; then raise the first error, if any."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
