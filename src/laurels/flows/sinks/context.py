"""The context of a sink: what its runner and the readers of its boards share."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from laurels.api.aio import AsyncLeaderboards
from laurels.errors import LaurelsError
from laurels.flows.attempts import FlowAttempts
from laurels.flows.retries import FlowRetryPolicy, Sleep

from .deleted import DeletedBoards
from .metrics import SinkMetrics
from .options import SinkOptions
from .parking import Parking
from .positions import position_of
from .retention import Retention, retention_of
from .target import SinkPage, SinkTarget

T = TypeVar("T")


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
        self.delivering: set[str] = set()
        """The boards with a page that is not yet delivered."""
        self.unreported: set[str] = set()
        """The boards whose position in the target is not yet reported to the store."""
        self.retentions: dict[str, Retention] = {}
        """The retentions of boards, as they were when the boards were last listed."""
        self.deleted = DeletedBoards(options.boards)
        self._target_lock = asyncio.Lock()

    async def retry(self, call: Callable[[], Awaitable[T]], attempts: FlowAttempts) -> T:
        """Return the result of a call; repeat it while its error may be temporary."""
        has_failed = False

        def record(error: LaurelsError, seconds: float) -> None:
            nonlocal has_failed
            attempts.fail(error, self.now_ms(), seconds)
            if not has_failed:
                self.report(str(error))
            has_failed = True

        result = await FlowRetryPolicy(self.sleep, record).call(call)
        attempts.succeed()
        return result

    async def position(self, board: str) -> str | None:
        """Return the position of the sink in the changes of a board, None if it has none yet."""
        async with self._target_lock:
            return await position_of(self.boards, self.target, board, self.options)

    async def deliver(self, page: SinkPage) -> None:
        """Send a page to the target."""
        async with self._target_lock:
            await self.target.deliver(page)

    async def retention(self, board: str) -> Retention:
        """Return the retention of a board, as it was when the boards were last listed."""
        if (retention := self.retentions.get(board)) is None:
            retention = retention_of(await self.boards.get(board))
            self.retentions[board] = retention
        return retention
