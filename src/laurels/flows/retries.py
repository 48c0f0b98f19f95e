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
MAX_SECONDS = 30.0


class Backoff:
    """Exponential backoff with jitter: the delay doubles with each failure, up to half a minute."""

    def __init__(
        self, sleep: Sleep = asyncio.sleep, random_fraction: Callable[[], float] = random.random
    ) -> None:
        self._sleep = sleep
        self._random_fraction = random_fraction
        self.failures = 0

    async def wait(
        self, min_seconds: float = 0.0, on_wait: Callable[[float], object] = lambda _: None
    ) -> None:
        """Wait after a failure, for a random time from half of the current delay to all of it, but
        at least for `min_seconds` seconds. `on_wait` is called before the wait with its length in
        seconds."""
        delay = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(self.failures, 16))
        self.failures += 1
        seconds = max(min_seconds, delay * (0.5 + 0.5 * self._random_fraction()))
        on_wait(seconds)
        await self._sleep(seconds)


class FlowRetryPolicy:
    """Repeats a failed call as long as its error may be temporary. `on_wait` is called with each
    error and the seconds until the next attempt."""

    def __init__(self, sleep: Sleep, on_wait: Callable[[LaurelsError, float], object]) -> None:
        self._sleep = sleep
        self._on_wait = on_wait

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the call once it succeeds. Raises the first error that is not
        temporary."""
        backoff = Backoff(self._sleep)
        while True:
            try:
                return await call()
            except LaurelsError as error:
                if not is_temporary(error):
                    raise
                last_error = error
            min_seconds = (
                last_error.wait_seconds if isinstance(last_error, TargetUnavailable) else 0.0
            )
            await backoff.wait(min_seconds, partial(self._on_wait, last_error))


def is_temporary(error: LaurelsError) -> bool:
    """Return whether the same call may succeed later. This includes a request body that did not
    arrive in time, since this process may have been paused while sending it."""
    return error.retryable or isinstance(error, BodyTimedOut)
