"""Waiting and retrying when a store, a stream or a target does not answer."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from laurels.errors import LaurelsError
from laurels.errors.service import BodyTimedOut
from laurels.errors.sinks import TargetUnavailable

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]

FIRST_SECONDS = 0.2
MOST_SECONDS = 30.0


class Backoff:
    """Exponential backoff with jitter: the delay doubles with each failure, up to half a minute."""

    def __init__(
        self, sleep: Sleep = asyncio.sleep, chance: Callable[[], float] = random.random
    ) -> None:
        self._sleep = sleep
        self._chance = chance
        self.failures = 0

    async def wait(
        self, at_least: float = 0.0, waiting: Callable[[float], object] = lambda _: None
    ) -> None:
        """Wait after a failure, for a random time from half of the current delay to all of it, but
        at least for `at_least` seconds. `waiting` is called before the wait with its length in
        seconds."""
        due = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.failures, 16))
        self.failures += 1
        seconds = max(at_least, due * (0.5 + 0.5 * self._chance()))
        waiting(seconds)
        await self._sleep(seconds)


class FlowRetryPolicy:
    """Repeats a failed call as long as its error may be temporary. `waiting` is called with each
    error and the seconds until the next attempt."""

    def __init__(self, sleep: Sleep, waiting: Callable[[LaurelsError, float], object]) -> None:
        self._sleep = sleep
        self._waiting = waiting

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call once it succeeds. Raises the first error that is not
        temporary."""
        backoff = Backoff(self._sleep)
        while True:
            try:
                return await call()
            except LaurelsError as error:
                if not may_pass(error):
                    raise
                failed = error
            at_least = failed.wait_seconds if isinstance(failed, TargetUnavailable) else 0.0
            await backoff.wait(at_least, partial(self._waiting, failed))


def may_pass(error: LaurelsError) -> bool:
    """Return whether the same call may succeed later. This includes a request body that did not
    arrive in time, since this process may have been paused while sending it."""
    return error.retryable or isinstance(error, BodyTimedOut)
