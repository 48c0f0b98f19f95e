"""Streams that wait for a board to change. One read of the board's change token serves all of
them."""

import asyncio
from collections.abc import Callable, Collection

from laurels.errors import LaurelsError


class BoardWaits:
    """The waiting streams of each board, each with the change token that it has seen."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[asyncio.Future[None], object]] = {}

    def __bool__(self) -> bool:
        """Whether any stream waits."""
        return bool(self._waiting)

    @property
    def boards(self) -> Collection[str]:
        """The boards for which streams wait."""
        return self._waiting.keys()

    async def wait(self, board: str, seen: object, seconds: float) -> None:
        """Wait until `wake` finds a change token that differs from `seen`, or until a number of
        seconds has passed."""
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(board, {})
        waiting[change] = seen
        try:
            await asyncio.wait((change,), timeout=seconds)
        finally:
            waiting.pop(change, None)
            if not waiting and self._waiting.get(board) is waiting:
                del self._waiting[board]

    def wake(self, change_token: Callable[[str], object]) -> None:
        """Wake the streams whose board has changed or no longer exists. O(waiting streams)."""
        for board, waiting in list(self._waiting.items()):
            try:
                token = change_token(board)
            except LaurelsError:
                token = None
            for change in [change for change, seen in waiting.items() if seen != token]:
                _wake(change)

    def wake_all(self) -> None:
        """Wake all streams."""
        for waiting in self._waiting.values():
            for change in waiting:
                _wake(change)


def _wake(change: "asyncio.Future[None]") -> None:
    if not change.done():
        change.set_result(None)
