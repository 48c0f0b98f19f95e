"""The runner of a sink: reads the changes of boards in order and sends them to a target.

Each board has a task of its own. The task reads a page of changes after the sink's position, sends
it, and only then moves the position: in the target, together with the page, if the target keeps
positions; otherwise in the store, after the target has confirmed. So after a kill at any moment a
page may be sent again, and none is left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import Change, ChangePage
from laurels.errors import (
    ChangesExpired,
    ChangesNotKept,
    CursorDiverged,
    LaurelsError,
    UnknownBoard,
)
from laurels.errors.sinks import SinkBehind, TargetRefused
from laurels.flows.retries import Backoff, FlowRetryPolicy, Sleep
from laurels.model.board_patterns import reaches

from .figures import BoardFigures, SinkFigures
from .positions import move_position
from .target import BEGIN_AGAIN, POSITION_PREFIX, SinkPage, SinkTarget, is_own

T = TypeVar("T")

POLL_SECONDS = 0.05
MOST_POLL_SECONDS = 1.0
BOARDS_A_SECOND = 1_000
"""The number of idle boards that are checked in a second, in total."""
NEW_BOARDS_SECONDS = 5.0
"""The time between two searches for new boards."""
REPORT_SECONDS = 10.0
"""The time between two reports to the store by a sink whose target keeps its position."""


class Parking(Protocol):
    """Storage for changes that a target refuses permanently."""

    async def park(self, page: SinkPage, error: TargetRefused) -> None:
        """Store the changes of a page; they are on the disk when this returns."""


class SinkOptions(Struct, frozen=True):
    """The boards that a sink reads, and when it ends."""

    name: str
    boards: Sequence[str] | None = None
    """Patterns of board names; None stands for all boards."""
    initial: bool = False
    """Begin a board that has no position yet with every present entry."""
    until_end: bool = False
    """End when every board has been read to its end."""
    tries: int = 5
    """How many times a page that the target refuses is sent before it is parked."""

    @property
    def source(self) -> str:
        """The name of the sink's positions in the store."""
        return POSITION_PREFIX + self.name


async def position_of(
    boards: AsyncLeaderboards, target: SinkTarget, board: str, options: SinkOptions
) -> str | None:
    """Return the position of a sink in the changes of a board, None if it has none yet."""
    if target.keeps_positions:
        return await target.position(board)
    return await boards.position(board, options.source) or None


class SinkRunner:
    """Runs one sink until it is cancelled, or until the end of all boards."""

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
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.figures = SinkFigures({})
        self.failed: dict[str, LaurelsError] = {}
        """Boards that the sink could not go on with, and why."""

    async def run(self) -> None:
        """Send the changes of all boards that keep changes. Raises SinkOvertaken, and the permanent
        errors of the target and the store; those of a single board are recorded in `failed`
        instead."""
        try:
            await self._patiently(self._target.open, None)
            while True:
                for name in await self._found():
                    if name not in self._tasks and name not in self.failed:
                        self._tasks[name] = asyncio.create_task(self._follow(name))
                if self._options.until_end:
                    await self._ended(list(self._tasks.values()))
                    return
                await self._ended([asyncio.create_task(self._wait())], *self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._target.close()

    async def _wait(self) -> None:
        await self._sleep(NEW_BOARDS_SECONDS)

    async def _ended(
        self, awaited: Sequence[asyncio.Task[None]], *beside: asyncio.Task[None]
    ) -> None:
        """Wait until all of `awaited` have ended; raise the first error of any task meanwhile."""
        pending = {*awaited, *beside}
        try:
            while not all(task.done() for task in awaited):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in awaited:
                task.cancel()
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}

    async def _found(self) -> list[str]:
        boards = await self._patiently(self._boards.boards, None)
        wanted = self._options.boards
        return [each.name for each in boards if each.changes and reaches(wanted, each.name)]

    async def _follow(self, board: str) -> None:
        """Send the changes of a board from the sink's position on."""
        try:
            await _BoardReader(self, board).run()
        except (UnknownBoard, ChangesNotKept):
            return
        except (SinkBehind, TargetRefused) as error:
            self.failed[board] = error
            self.figures.of(board).error = str(error)
            self._report(f"{board}: {error}")

    async def _patiently(self, call: Callable[[], Awaitable[T]], figures: BoardFigures | None) -> T:
        """Return the result of a call; repeat it while its error may be temporary."""
        has_failed = False

        def waiting(error: LaurelsError, _seconds: float) -> None:
            nonlocal has_failed
            if figures is not None:
                figures.error = str(error)
            if not has_failed:
                self._report(str(error))
            has_failed = True

        result = await FlowRetryPolicy(self._sleep, waiting).call(call)
        if figures is not None:
            figures.error = None
        return result


class _BoardReader:
    """Reads the changes of one board and sends them to the target."""

    def __init__(self, sink: SinkRunner, board: str) -> None:
        self._sink = sink
        self._board = board
        self._options = sink._options
        self._target = sink._target
        self._figures = sink.figures.of(board)
        self._stored: str | None = None
        """The position that the target or the store has."""
        self._after: str | None = None
        self._restarts = False
        self._reported_ms = 0
        self._ahead: tuple[str, asyncio.Task[ChangePage]] | None = None
        """The page behind a cursor, read while the one before it is delivered."""

    async def run(self) -> None:
        """Send changes until cancelled, or to the end if the sink ends there."""
        try:
            await self._go_on()
        finally:
            if self._ahead is not None:
                self._ahead[1].cancel()
                await asyncio.gather(self._ahead[1], return_exceptions=True)

    async def _go_on(self) -> None:
        self._stored = self._after = await self._call(self._position)
        if self._stored == BEGIN_AGAIN:
            self._after, self._restarts = None, True
        elif self._stored is None:
            self._restarts = self._target.takes_state or self._options.initial
        wait_seconds = POLL_SECONDS
        while True:
            page = await self._call(self._read)
            if page is None:
                continue
            if page.more:
                self._ahead = page.cursor, asyncio.create_task(self._page(page.cursor))
            changes = [change for change in page if not is_own(change)]
            if changes:
                await self._deliver(changes, page.cursor)
                wait_seconds = POLL_SECONDS
            self._after = page.cursor
            await self._tell_store(at_end=not page.more)
            if page.more:
                continue
            if self._options.until_end:
                return
            if not changes:
                await self._sink._sleep(wait_seconds)
                most = max(MOST_POLL_SECONDS, len(self._sink._tasks) / BOARDS_A_SECOND)
                wait_seconds = min(most, wait_seconds * 2)

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._sink._patiently(call, self._figures)

    async def _position(self) -> str | None:
        async with self._sink._turn:
            return await position_of(self._sink._boards, self._target, self._board, self._options)

    async def _read(self) -> ChangePage | None:
        """Return the changes after the position; None if the sink has to start over."""
        beginning = self._restarts and self._after is None
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None and ahead[0] == self._after:
                return await ahead[1]
            return await self._page(self._after, initial=beginning)
        except (ChangesExpired, CursorDiverged) as error:
            if not self._target.takes_state:
                raise SinkBehind(f"the sink {self._options.name!r}: {error.what}") from error
            self._sink._report(f"{self._board}: {error.what}; sending all present entries again")
            self._after, self._restarts = None, True
            self._figures.restarts += 1
            return None

    async def _page(self, after: str | None, *, initial: bool = False) -> ChangePage:
        return await self._sink._boards.changes(
            self._board, after=after, limit=self._target.limit, initial=initial
        )

    async def _deliver(self, changes: Sequence[Change], cursor: str) -> None:
        page = SinkPage(self._board, changes, self._stored, cursor, self._restarts)
        figures = self._figures
        figures.waiting = len(changes)
        if changes[-1].kind not in ("initial", "initial_end"):
            figures.waiting_since_ms = changes[0].at_ms
        if await self._sent(page):
            figures.delivered += len(changes)
        else:
            figures.parked += len(changes)
        if not self._target.keeps_positions:
            before = self._stored
            await self._call(lambda: self._store(before, cursor))
        self._stored, self._restarts = cursor, False
        figures.waiting, figures.waiting_since_ms = 0, None

    async def _sent(self, page: SinkPage) -> bool:
        """Send a page; return False if it was parked."""
        backoff = Backoff(self._sink._sleep)
        while True:
            try:
                await self._call(lambda: self._once(page))
            except TargetRefused as error:
                self._figures.error = str(error)
                parking = self._sink._parking
                if self._target.keeps_positions or parking is None:
                    raise
                if backoff.failures + 1 < self._options.tries:
                    await backoff.wait()
                    continue
                await parking.park(page, error)
                self._sink._report(f"{page.board}: parked {len(page.changes)} changes: {error}")
                return False
            return True

    async def _once(self, page: SinkPage) -> None:
        async with self._sink._turn:
            await self._target.deliver(page)

    async def _store(self, before: str | None, cursor: str) -> None:
        """Save the position in the store."""
        await move_position(self._sink._boards, self._board, self._options.source, before, cursor)

    async def _tell_store(self, *, at_end: bool) -> None:
        """Report the position to the store from time to time, if the target keeps it, so that the
        store can show it."""
        if not self._target.keeps_positions or self._stored is None:
            return
        now_ms = self._sink._now_ms()
        due = now_ms - self._reported_ms >= REPORT_SECONDS * 1_000
        if due or (at_end and self._options.until_end):
            self._reported_ms = now_ms
            stored = self._stored
            try:
                current = await self._sink._boards.position(self._board, self._options.source)
                if current != stored:
                    await self._store(current, stored)
            except LaurelsError as error:
                self._sink._report(f"{self._board}: the position was not noted: {error}")
