"""The context of a sink, which its runner and the readers of its boards share."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from laurels.api.aio import AsyncLeaderboards
from laurels.errors import LaurelsError
from laurels.flows.attempts import FlowAttempts
from laurels.flows.retries import FlowRetryPolicy, Sleep

from .deleted import DeletedBoards
from .lag import lag_in_store
from .metrics import SinkMetrics
from .options import SinkOptions
from .parking import Parking
from .positions import position_of
from .retention import Retention, retention_of
from .target import SinkPage, SinkTarget

T = TypeVar("T")

Verification = Callable[[SinkPage], Awaitable[None]]
"""Raises an error if a page must no longer be sent as it was read."""


class SinkContext:
    """The boards, the target and the options of one sink, and the state of its boards. Only one
    call of the target is in progress at a time."""

    def __init__(
        self,
        boards: AsyncLeaderboards,
        target: SinkTarget,
        options: SinkOptions,
        *,
        now_ms: Callable[[], int],
        parking: Parking | None,
        report: Callable[[str], None],
        sleep: Sleep,
    ) -> None:
        self.boards = boards
        self.target = target
        self.options = options
        self.now_ms = now_ms
        self.parking = parking
        self.report = report
        self.sleep = sleep
        self.metrics = SinkMetrics({})
        self.failed: dict[str, LaurelsError] = {}
        """The boards on which the sink has stopped, each with the error."""
        self.payouts_error: LaurelsError | None = None
        """Why no payouts are sent although changes are; None if they are sent."""
        self.delivering: set[str] = set()
        """The boards with a page that is not yet delivered."""
        self.unreported: set[str] = set()
        """The boards whose position in the target is not yet reported to the store."""
        self.retentions: dict[str, Retention] = {}
        """The retentions of boards, as they were when the boards were last listed."""
        self.deleted = DeletedBoards(options.boards)
        self._repeated = 0
        """The number of calls that have failed and are being repeated."""
        self._target_lock = asyncio.Lock()

    async def retry(self, call: Callable[[], Awaitable[T]], attempts: FlowAttempts) -> T:
        """Return the result of a call; repeat it while its error may be temporary. Its first error
        is reported, unless another call is being repeated already: if the target is down, all calls
        fail, and one report is enough."""
        has_failed = False

        def record(error: LaurelsError, seconds: float) -> None:
            nonlocal has_failed
            attempts.fail(error, self.now_ms(), seconds)
            if has_failed:
                return
            if not self._repeated:
                self.report(str(error))
            self._repeated += 1
            has_failed = True

        try:
            result = await FlowRetryPolicy(self.sleep, record).call(call)
        finally:
            self._repeated -= has_failed
        attempts.succeed()
        return result

    async def position(self, board: str) -> str | None:
        """Return the position of the sink in the changes of a board, None if it has none yet. If
        the target cannot be asked, measure the lag by the position that the store has, and raise
        the error."""
        try:
            async with self._target_lock:
                return await position_of(self.boards, self.target, board, self.options)
        except LaurelsError:
            await self.measure_in_store(board)
            raise

    async def measure_in_store(self, board: str) -> None:
        """Measure the lag on a board by the position that the store has."""
        with suppress(LaurelsError):  # the store cannot be asked either, or has lost the changes
            lag = await lag_in_store(self.boards, board, self.options.source)
            metrics = self.metrics.of(board)
            metrics.waiting, metrics.waiting_since_ms = lag.changes, lag.since_ms

    async def position_in_target(self, name: str) -> str | None:
        """Return the position that the target has for a board, or for the due payouts; None if it
        has none."""
        async with self._target_lock:
            return await self.target.position(name)

    async def deliver(self, page: SinkPage, verify: Verification) -> None:
        """Send a page to the target. `verify` is called right before, while no other page can be
        sent."""
        async with self._target_lock:
            await verify(page)
            await self.target.deliver(page)

    async def retention(self, board: str) -> Retention:
        """Return the retention of a board, as it was when the boards were last listed."""
        if (retention := self.retentions.get(board)) is None:
            retention = retention_of(await self.boards.get(board))
            self.retentions[board] = retention
        return retention
