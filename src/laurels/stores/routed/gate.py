"""Blocks the writes to a board while the board is switched to another store."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Lock

from laurels.errors.placement import BoardMoving
from laurels.model.validation import quoted

MOST_HOLD_SECONDS = 1.0
"""How long writes wait at most. If a board is blocked for longer, further writes are refused at
once."""
MOST_WAITING = 500
"""The maximum number of writes to a board that wait; further writes are refused at once. The
waiting writes also count towards the limit on the waiting writes of the whole service, so this
number is low enough to leave room for writes to other boards."""


class _BlockedBoard:
    """A board whose writes are blocked: the future that they wait for, how many wait, and whether
    further writes are refused instead of waiting."""

    def __init__(self) -> None:
        self.released = Future[None]()
        self.waiting = 0
        self.refuses = False


class WriteGate:
    """Counts the writes in progress by board, and lets the writes to a board wait while the board
    is being switched."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._writing: dict[str, int] = {}
        self._blocked: dict[str, _BlockedBoard] = {}
        self._drained: dict[str, Future[None]] = {}

    @contextmanager
    def writing(self, board: str) -> Iterator[None]:
        """Wait while a board is blocked, then count a write of a thread as in progress until the
        context ends. Raises BoardMoving if the write may not wait, or has waited for too long."""
        while (blocked := self._enter(board)) is not None:
            try:
                blocked.released.result(MOST_HOLD_SECONDS)
            except TimeoutError:
                blocked.refuses = True
                raise _moving(board) from None
            finally:
                self._end_wait(blocked)
        try:
            yield
        finally:
            self._leave(board)

    @asynccontextmanager
    async def writing_async(self, board: str) -> AsyncIterator[None]:
        """Do the same as `writing` for a write of a task."""
        while (blocked := self._enter(board)) is not None:
            try:
                waiting = asyncio.wrap_future(blocked.released)
                done, _ = await asyncio.wait([waiting], timeout=MOST_HOLD_SECONDS)
                if not done:
                    blocked.refuses = True
                    raise _moving(board)
            finally:
                self._end_wait(blocked)
        try:
            yield
        finally:
            self._leave(board)

    def hold(self, board: str) -> "Future[None]":
        """Let further writes to a board wait. Return a future that is done when the writes in
        progress have ended."""
        drained = Future[None]()
        with self._lock:
            self._blocked[board] = _BlockedBoard()
            if self._writing.get(board):
                self._drained[board] = drained
            else:
                drained.set_result(None)
        return drained

    def release(self, board: str) -> None:
        """Let the waiting writes continue."""
        with self._lock:
            self._drained.pop(board, None)
            blocked = self._blocked.pop(board)
        blocked.released.set_result(None)

    def _enter(self, board: str) -> _BlockedBoard | None:
        """Count a write in progress and return None. If the board is blocked, count the write as
        waiting instead, and return the blocked board. Raises BoardMoving if the write may not
        wait."""
        with self._lock:
            blocked = self._blocked.get(board) if self._blocked else None
            if blocked is None:
                self._writing[board] = self._writing.get(board, 0) + 1
                return None
            if not blocked.refuses and blocked.waiting < MOST_WAITING:
                blocked.waiting += 1
                return blocked
        raise _moving(board)

    def _end_wait(self, blocked: _BlockedBoard) -> None:
        with self._lock:
            blocked.waiting -= 1

    def _leave(self, board: str) -> None:
        with self._lock:
            left = self._writing[board] - 1
            if left:
                self._writing[board] = left
                return
            del self._writing[board]
            drained = self._drained.pop(board, None)
        if drained is not None:
            drained.set_result(None)


def _moving(board: str) -> BoardMoving:
    return BoardMoving(f"the board {quoted(board)} is being moved to another store")
