"""A stream of the changes of a board.

One subject can open many streams, and reading pages of changes takes time. So the queue of the live
feed decides when pages are read, and their cost is charged to the subject of the stream. A stream
that has read all changes waits until the board's change token changes.
"""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

from laurels.core.changes.answers import without_reasons
from laurels.errors import LaurelsError, Unavailable, UnknownBoard
from laurels.stores.base import Servable
from laurels.wire.answers import problem
from laurels.wire.live import RETRY_MS

from .channel import HEARTBEAT_SECONDS, LIST_COST
from .frames import END, HEARTBEAT, frame
from .hub import STREAM_COST, Hub

STREAM_PAGE = 500
CHANGE_COST = 3
"""The cost of reading one change, as a number of entries of a list."""
PAUSE_SECONDS = 0.05
"""The pause after a page, in seconds. In this time, several changes can gather for the next
page."""
POLL_SECONDS = 1.0
"""How often an index server is asked for changes, in seconds, even if the board's change token is
unchanged."""


class ChangeStream:
    """The changes of one board for one client. Reading them is charged to `payer`. Unless
    `shows_reasons` is set, `without_reasons` removes data from them."""

    def __init__(
        self, hub: Hub, store: Servable, board: str, payer: str, *, shows_reasons: bool
    ) -> None:
        self._hub = hub
        self._store = store
        self._board = board
        self._payer = payer
        self._shows_reasons = shows_reasons
        self._cursor = ""
        self._content = b""
        self._has_more = False
        self._is_end = False
        self._seen: object = None
        self._expected = STREAM_PAGE

    async def begin(self, after: str | None, *, initial: bool) -> None:
        """Read the first page. Raises UnknownBoard, InvalidCursor and other errors of reading
        changes, and Stopping."""
        cost = STREAM_COST + CHANGE_COST * self._expected
        await self._hub.work(self._payer, cost, partial(self._read, after, initial=initial))

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield each page of changes as a frame, and a heartbeat whenever there was no page for a
        while."""
        yield b"retry: %d\n\n" % RETRY_MS
        silent_seconds = 0.0
        while not self._hub.stopping:
            if self._content:
                silent_seconds = 0.0
                content, self._content = self._content, b""
                yield content
                if self._is_end:
                    break
                if not self._has_more:
                    await asyncio.sleep(PAUSE_SECONDS)
            elif not self._has_more:
                if silent_seconds >= HEARTBEAT_SECONDS:
                    silent_seconds = 0.0
                    yield HEARTBEAT
                silent_seconds += await self._wait()
            try:
                await self._read_next()
            except Unavailable:
                await asyncio.sleep(PAUSE_SECONDS)
            except LaurelsError as error:
                yield frame("problem", self._cursor, problem(error, error.status, ""))
                return
        yield END

    async def _wait(self) -> float:
        """Wait until the board may have changed, but no longer than a maximum number of seconds.
        Return this maximum, even if the wait was shorter. The caller adds it to the silent time, so
        a heartbeat may come early, but not late."""
        seconds = HEARTBEAT_SECONDS if self._store.is_exact else POLL_SECONDS
        await self._hub.changed(self._board, self._seen, seconds)
        return seconds

    async def _read_next(self) -> None:
        """Read the next page. After the end of the changes, do nothing as long as the board's
        change token is the same and the store's change tokens are exact."""
        is_unchanged = self._store.is_exact and self._token() == self._seen
        if self._has_more or not is_unchanged:
            cost = LIST_COST + CHANGE_COST * self._expected
            await self._hub.work(self._payer, cost, partial(self._read, self._cursor))

    async def _read(self, after: str | None, *, initial: bool = False) -> None:
        self._seen = self._token()
        page = await self._store.changes_async(self._board, after, STREAM_PAGE, initial=initial)
        page = page if self._shows_reasons else without_reasons(page)
        self._content = frame("changes", page.cursor, page) if page.changes else b""
        self._cursor, self._has_more, self._is_end = page.cursor, page.more, page.is_end
        count, expected = len(page.changes), self._expected
        self._expected = STREAM_PAGE if page.more else count
        if count > expected:
            self._hub.charge(self._payer, CHANGE_COST * (count - expected))

    def _token(self) -> object:
        """Return the board's change token. Return None if the board is gone, or if this process
        does not know it yet."""
        try:
            return self._store.change_token(self._board)
        except UnknownBoard:
            return None
