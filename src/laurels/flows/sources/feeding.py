"""Count a batch on its boards, each event once, in commits that also move the position.

If only some shards of a board have counted a batch, exactly the same batch is sent again, before
any other. The error `PositionDiffers` has the position at which this batch ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from laurels.api.aio import AsyncLeaderboards
from laurels.core.receipt import Receipts
from laurels.errors import BatchRefused, PositionDiffers, TooLarge, UnknownBoard
from laurels.flows.retries import FlowRetryPolicy

from .arrivals import EndingWindows, refusals_between
from .batches import EventRows, Row
from .commits import Commits
from .dedupe_capacity import DedupeCapacity
from .mapping import MappedEvent
from .outcomes import MessageOutcomes
from .progress import Progress, TimedPosition
from .read_ahead import ReadAhead
from .reader import StreamPosition, decode_position
from .rows import RowReader


class BoardFeed:
    """The boards of a run: their positions and windows, and the commits to them. `key` is the name
    under which boards store the source's position."""

    def __init__(
        self,
        lb: AsyncLeaderboards,
        key: str,
        retries: FlowRetryPolicy,
        now_ms: Callable[[], int],
        *,
        reader: RowReader,
        ahead: ReadAhead,
        progress: Progress,
        outcomes: MessageOutcomes,
    ) -> None:
        self.positions: dict[str, StreamPosition] = {}
        self.commits = Commits(lb, key, retries)
        self.windows = EndingWindows(lb, now_ms)
        self._capacity = DedupeCapacity(lb)
        self._retries = retries
        self._reader = reader
        self._ahead = ahead
        self._progress = progress
        self._outcomes = outcomes
        self._reread_lock = asyncio.Lock()

    async def feed(self, board: str, rows: EventRows, end: TimedPosition) -> None:
        """Submit the events of a board, with the end of the batch as the new position. The events
        are divided into commits by `refusals_between`."""
        try:
            windows = await self._retries.call(partial(self.windows.of, board))
        except UnknownBoard:
            windows = ()  # the commit will raise the error, too, and it is handled there
        first = 0
        for until in refusals_between(windows, rows.arrived_ms):
            part = rows[first:until]
            await self._submit_part(board, part, _end_of(part[-1]))
            first = until
        await self._submit_part(board, rows[first:] if first else rows, end)

    async def _submit_part(self, board: str, rows: EventRows, end: TimedPosition) -> None:
        """Submit events of a board in one commit, or in several if they are too large for one."""
        can_remember = partial(self._capacity.can_remember, board, rows.events)
        if rows and not await self._retries.call(can_remember):
            for row in rows:
                await self._submit_one(board, row)
            return
        while rows:
            try:
                receipts = await self._commit(
                    board, rows.events, rows.arrived_ms, self._encoded(board, end)
                )
            except TooLarge:
                if len(rows) == 1:
                    raise
                half = len(rows) // 2
                await self._submit_part(board, rows[:half], _end_of(rows[half - 1]))
                rows = rows[half:]
            except PositionDiffers as error:
                rows = self._outcomes.rows_after(rows, await self._complete_batch(board, error))
            except UnknownBoard:  # the board was deleted meanwhile
                self.forget(board)
                self._outcomes.metrics.skip_unknown(board, len(rows))
                return
            else:
                self.positions[board] = end.position
                await self._count(board, rows, receipts)
                return

    async def _submit_one(self, board: str, row: Row) -> None:
        """Submit one event to a board that may be unable to remember its id. If the board refuses
        it for that reason, submit it again until the board has forgotten other ids."""
        end = _end_of(row)

        async def attempt() -> None:
            try:
                receipts = await self._commit(
                    board,
                    [row.event],
                    [row.arrived_ms],
                    self._encoded(board, end),
                    all_or_nothing=True,
                )
            except BatchRefused as refused:
                error = refused.receipts.error(0) or refused
                if error.retryable:
                    raise error from refused
                self._outcomes.reject([(row.message, board, error)])
                await self.deliver_rejects()
                await self.move(board, end)
            else:
                self.positions[board] = end.position
                await self._count(board, [row], receipts)

        await self._retries.call(attempt)

    async def _count(self, board: str, rows: Sequence[Row], receipts: Receipts | None) -> None:
        """Count the outcomes of events, and wait until those that the board refused are stored."""
        self._outcomes.count(board, rows, receipts)
        await self.deliver_rejects()

    async def deliver_rejects(self) -> None:
        """Wait until all rejects are stored. Raises RejectsRefused."""
        await self._retries.call(self._outcomes.deliver)

    async def _commit(
        self,
        board: str,
        events: Sequence[MappedEvent],
        arrived_ms: Sequence[int | None],
        text: str,
        *,
        all_or_nothing: bool = False,
    ) -> Receipts | None:
        """Submit events with their times of arrival in one commit; see `Commits.submit`."""
        first_ms = arrived_ms[0] if arrived_ms else None
        return await self.commits.submit(
            board, events, text, arrived_ms=first_ms, all_or_nothing=all_or_nothing
        )

    def forget(self, board: str) -> None:
        """Forget a board that was deleted."""
        self.positions.pop(board, None)
        self.commits.forget(board)
        self.windows.forget(board)

    async def _complete_batch(self, board: str, error: PositionDiffers) -> StreamPosition:
        """Send again a batch that only some shards of a board have counted. The batch is read again
        up to the position at which the first attempt ended (`error.ends_at`); return this
        position."""
        if error.ends_at is None:
            raise error
        await self._ahead.drop()
        end = decode_position(error.ends_at).position
        rows: list[Row] = []
        at = self.positions[board]
        async with self._reread_lock:
            while at < end:
                messages = await self._retries.call(partial(self._ahead.read, at, wait=False))
                messages = [message for message in messages if message.position <= end]
                if not messages:
                    break
                at = messages[-1].position
                rows += self._reader.rows_of(board, messages, self.positions)
        events, arrived_ms = [row.event for row in rows], [row.arrived_ms for row in rows]
        receipts = await self._commit(board, events, arrived_ms, error.ends_at)
        self.positions[board] = end
        await self._count(board, rows, receipts)
        return end

    async def move(self, board: str, end: TimedPosition) -> None:
        """Move the position of a board without counting anything."""
        try:
            await self._commit(board, (), (), self._encoded(board, end))
        except UnknownBoard:
            self.forget(board)
        except PositionDiffers as error:
            await self._complete_batch(board, error)
        else:
            self.positions[board] = end.position

    async def reset(self, board: str, position: StreamPosition) -> None:
        """Replace the position of a board; the old position may be in another stream. If only some
        shards have counted the last batch, its events remain counted in these shards."""
        text = self._encoded(board, TimedPosition(position, None))
        try:
            await self._commit(board, (), (), text)
        except PositionDiffers as error:
            if error.ends_at is None:
                raise
            await self._commit(board, (), (), error.ends_at)
            await self._commit(board, (), (), text)

    async def set(self, board: str, position: StreamPosition) -> None:
        """Store a position in all shards of a board, whatever is stored there now."""
        await self.commits.set(board, self._encoded(board, TimedPosition(position, None)))

    async def feed_again(self, board: str, after: StreamPosition, rows: EventRows) -> None:
        """Submit events that follow a position which only some shards of a board have;
        `Commits.begin_leveling` has to be called first."""
        self.positions[board] = after
        if rows:
            await self.feed(board, rows, _end_of(rows[-1]))

    def _encoded(self, board: str, end: TimedPosition) -> str:
        return self._progress.encode(end, self.commits.passed_ms(board))


def _end_of(row: Row) -> TimedPosition:
    return TimedPosition(row.message.position, row.arrived_ms)
