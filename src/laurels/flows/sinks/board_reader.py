"""The reader of one board of a sink: reads the board's changes in order and sends them to the
target."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from laurels.core.changes.answers import Change, ChangePage, DeletedBoard, is_left_out
from laurels.core.changes.beginning import is_initial, uid_of
from laurels.core.changes.cursor import is_end
from laurels.errors import BoardDeleted, ChangesExpired, CursorDiverged, LaurelsError
from laurels.errors.sinks import SinkBehind

from .context import SinkContext
from .deleted import definition_of, position_in
from .positions import move_position, set_position
from .retention import WARNED_AT, retention_of
from .sending import send_or_park
from .target import START_OVER, SinkPage

T = TypeVar("T")

REPORT_SECONDS = 10.0
"""The time between two reports of the position to the store, if the target stores the position."""


class BoardReader:
    """Reads the changes of one board and sends them to the target."""

    def __init__(self, context: SinkContext, board: str) -> None:
        self._context = context
        self.board = board
        self.has_changes = asyncio.Event()
        """Set if the board may have changes after those that were read last."""
        self.has_progressed = False
        """Whether this reader has read a page of changes and delivered it."""
        self._options = context.options
        self._target = context.target
        self._metrics = context.metrics.of(board)
        self._stored: str | None = None
        """The position that is stored in the target or in the store."""
        self._after: str | None = None
        self._restarts = False
        self._reported_ms = 0
        self._reported: str | None = None
        self._delivering: SinkPage | None = None
        """The page that is not yet delivered."""
        self._is_warned = False
        self._deleted: DeletedBoard | None = None
        """The deleted board whose changes are sent; None for the board that has the name now."""
        self._prefetched: tuple[str, asyncio.Task[ChangePage]] | None = None
        """A cursor and the task that reads the page after it, while the previous page is
        delivered."""

    async def run(self) -> None:
        """Send changes until cancelled; with `until_end`, until all changes have been sent. Send
        those of deleted boards of this name first."""
        try:
            for deleted in self._context.deleted.named(self.board):
                if await self._begin_deleted(deleted):
                    await self._send_changes()
                self._context.deleted.finish(deleted.uid)
            self._deleted = None
            is_deleted = True
            while is_deleted:
                await self._begin()
                is_deleted = await self._send_changes()
        finally:
            if self._prefetched is not None:
                self._prefetched[1].cancel()
                await asyncio.gather(self._prefetched[1], return_exceptions=True)

    async def _begin(self) -> None:
        """Find the position from which the changes of the board are sent."""
        self._stored = self._after = await self._call(lambda: self._context.position(self.board))
        self._restarts = False
        if self._stored == START_OVER:
            self._after, self._restarts = None, True
        elif self._stored is None or not await self._call(self._goes_on):
            self._after = None
            self._restarts = self._target.holds_state or self._options.initial

    async def _goes_on(self) -> bool:
        """Return whether changes may follow the stored position. None follow the end of a deleted
        board, unless the board was restored."""
        if not is_end(self._stored):
            return True
        with suppress(BoardDeleted):
            await self._context.boards.changes(self.board, after=self._stored, limit=1)
            return True
        return False

    async def _begin_deleted(self, deleted: DeletedBoard) -> bool:
        """Find the position from which the changes of a deleted board are sent. Return whether
        changes may follow it."""
        self._deleted, self._restarts = deleted, False
        self._stored = deleted.position
        if self._target.keeps_positions:
            self._stored = await self._call(lambda: self._context.position(self.board))
        later = self._context.deleted.later(deleted)
        holds_state = self._target.holds_state
        self._after = position_in(deleted, self._stored, later, holds_state=holds_state)
        return self._after is not None

    async def _send_changes(self) -> bool:
        """Send the changes after the position, and wait for further ones. Return True once the
        deletion of the board was sent, so that no change follows. With `until_end` return at the
        newest change: False if it is not the deletion."""
        while True:
            page = await self._call(self._read)
            if page is None:
                continue
            if page.more:
                self._prefetched = page.cursor, asyncio.create_task(self._read_page(page.cursor))
            changes = [change for change in page if not is_left_out(change)]
            if changes:
                await self._deliver(changes, page)
            self._after = page.cursor
            self._record_progress()
            if page.is_end:
                await self._report_end(page.cursor)
                return True
            await self._report_position(at_end=not page.more)
            if page.more:
                continue
            if self._options.until_end or is_end(page.cursor):
                return is_end(page.cursor)
            await self.has_changes.wait()

    def _record_progress(self) -> None:
        self.has_progressed, self._metrics.has_lost = True, False
        self._context.failed.pop(self.board, None)

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._context.retry(call, self._metrics)

    async def _read(self) -> ChangePage | None:
        """Return the changes after the position; None if the sink has to start over."""
        beginning = self._restarts and self._after is None
        prefetched, self._prefetched = self._prefetched, None
        try:
            if prefetched is not None and prefetched[0] == self._after:
                return await prefetched[1]
            return await self._read_page(self._after, initial=beginning)
        except (ChangesExpired, CursorDiverged) as error:
            deleted = self._deleted
            if deleted is not None and self._after != deleted.last_cursor:
                self._context.report(f"{self.board}: {error.what}; sending only the deletion")
                self._after = deleted.last_cursor
                return None
            if not self._target.holds_state:
                raise SinkBehind(f"the sink {self._options.name!r}: {error.what}") from error
            self._context.report(f"{self.board}: {error.what}; sending all current entries again")
            self._after, self._restarts = None, True
            self._metrics.restarts += 1
            return None

    async def _read_page(self, after: str | None, *, initial: bool = False) -> ChangePage:
        # cleared before the read, since changes during the read set the event
        self.has_changes.clear()
        return await self._context.boards.changes(
            self.board, after=after, limit=self._target.limit, initial=initial
        )

    async def _deliver(self, changes: Sequence[Change], read: ChangePage) -> None:
        cursor = read.cursor
        definition = None if self._deleted is None else definition_of(self._deleted)
        page = SinkPage(self.board, changes, self._stored, cursor, self._restarts, definition)
        metrics = self._metrics
        metrics.waiting = len(changes) + read.waiting
        if changes[-1].kind not in ("initial", "initial_end"):
            metrics.waiting_since_ms = changes[0].at_ms
        if definition is not None:
            metrics.retention = retention_of(definition)
        else:
            metrics.retention = await self._call(lambda: self._context.retention(self.board))
        position = self._reported if self._target.keeps_positions else self._stored
        metrics.is_registered = position is not None
        self._delivering = page
        self._context.delivering.add(self.board)
        self.warn()
        if await send_or_park(self._context, page, metrics):
            metrics.delivered += len(changes)
        else:
            metrics.parked += len(changes)
        if not self._target.keeps_positions:
            before = self._stored
            await self._call(lambda: self._move_position(before, cursor))
        self._stored, self._restarts, self._delivering = cursor, False, None
        self._context.delivering.discard(self.board)
        metrics.waiting = read.waiting
        if not read.waiting:
            metrics.waiting_since_ms = None

    def warn(self) -> None:
        """Report that the board will soon remove unsent changes, once these take up the fraction
        `WARNED_AT` of the retention. The next report follows only after they took up less in
        between."""
        retention = None if self._deleted else self._context.retentions.get(self.board)
        self._metrics.retention = retention or self._metrics.retention
        used = self._metrics.used(self._context.now_ms())
        if used >= WARNED_AT and not self._is_warned:
            self._context.report(
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
            read = await self._context.boards.changes(self.board, after=page.after, limit=1)
        except LaurelsError:  # the board's own task gets the same error and handles it
            return
        if self._delivering is page:
            unsent = sum(not is_left_out(change) for change in read)
            self._metrics.waiting = len(page.changes) + unsent + read.waiting

    async def _move_position(self, before: str | None, cursor: str) -> None:
        """Move the position in the store."""
        await move_position(self._context.boards, self.board, self._options.source, before, cursor)

    async def _report_position(self, *, at_end: bool) -> None:
        """If the target stores the position, report the position to the store from time to time.
        The store can then show the position, and keep the changes that follow."""
        if not self._target.keeps_positions or self._stored is None or self._deleted:
            return
        now_ms = self._context.now_ms()
        if self.is_report_due(now_ms) or (at_end and self._options.until_end):
            self._reported_ms = now_ms
            stored = self._reported = self._stored
            try:
                current = await self._context.boards.position(self.board, self._options.source)
                if current != stored:
                    await self._move_position(current, stored)
            except LaurelsError as error:
                self._reported = None
                self._context.report(
                    f"{self.board}: the position was not reported to the store: {error}"
                )
        if self._reported != self._stored:
            self._context.unreported.add(self.board)

    async def _report_end(self, cursor: str) -> None:
        """Report to the store that all changes of a deleted board have been sent, if the target
        stores the position."""
        self._context.deleted.finish(uid_of(cursor))
        self._context.unreported.discard(self.board)
        if not self._target.keeps_positions:
            return
        try:
            await set_position(self._context.boards, self.board, self._options.source, cursor)
        except LaurelsError as error:
            self._context.report(
                f"{self.board}: the position was not reported to the store: {error}"
            )

    def is_report_due(self, now_ms: int) -> bool:
        """Return whether the position may be reported to the store again."""
        return now_ms - self._reported_ms >= REPORT_SECONDS * 1_000
