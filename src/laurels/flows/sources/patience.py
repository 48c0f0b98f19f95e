"""How a source waits for a store or a stream that does not answer: longer each time, up to a
bound."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from laurels.errors import LaurelsError
from laurels.errors.service import BodyTimedOut

T = TypeVar("T")

FIRST_SECONDS = 0.25
MOST_SECONDS = 15.0

Sleep = Callable[[float], Awaitable[object]]


def passes(error: LaurelsError) -> bool:
    """Return whether the same call may succeed later. A body that did not arrive in time is that of
    a process that was paused while it sent."""
    return error.retryable or isinstance(error, BodyTimedOut)


class Patience:
    """Repeats a call for as long as its error may pass. `waiting` is told the error and the
    wait."""

    def __init__(self, sleep: Sleep, waiting: Callable[[LaurelsError, float], None]) -> None:
        self._sleep = sleep
        self._waiting = waiting

    async def answer(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what the call returns when it succeeds; raise an error that will not pass."""
        seconds = FIRST_SECONDS
        while True:
            try:
                return await call()
            except LaurelsError as error:
                if not passes(error):
                    raise
                self._waiting(error, seconds)
            await self._sleep(seconds)
            seconds = min(2 * seconds, MOST_SECONDS)
