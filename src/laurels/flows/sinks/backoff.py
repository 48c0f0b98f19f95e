"""How long a sink waits before it tries again."""

import asyncio
import random
from collections.abc import Awaitable, Callable

Sleep = Callable[[float], Awaitable[None]]

FIRST_SECONDS = 0.2
MOST_SECONDS = 30.0


class Backoff:
    """Waits twice as long after each failure in a row, up to half a minute, with jitter."""

    def __init__(
        self, sleep: Sleep = asyncio.sleep, chance: Callable[[], float] = random.random
    ) -> None:
        self._sleep = sleep
        self._chance = chance
        self.failures = 0

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait after a failure: between half and all of the time that is due, or what the other
        side asked for where that is longer."""
        due = min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.failures, 16))
        self.failures += 1
        await self._sleep(max(at_least, due * (0.5 + 0.5 * self._chance())))

    def succeed(self) -> None:
        """Begin with the shortest wait again."""
        self.failures = 0
