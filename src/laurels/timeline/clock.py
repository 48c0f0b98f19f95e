"""Clocks. Each deployment has one, which is passed to the code that needs it.

Times are integer milliseconds since 1970-01-01T00:00Z. Code below `config` never chooses the host's
clock itself. It uses the clock that is passed to it.
"""

import time
from typing import Protocol, runtime_checkable

from .instants import MIN_MS


@runtime_checkable
class Clock(Protocol):
    """Returns the time in integer milliseconds. The time never decreases."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The host's clock, except that it never goes back."""

    def __init__(self) -> None:
        self._latest_ms = MIN_MS

    def now_ms(self) -> int:
        now_ms = time.time_ns() // 1_000_000
        if now_ms > self._latest_ms:
            self._latest_ms = now_ms
        return self._latest_ms


class EventClock:
    """Event time, for imports and replays: the current time is the latest `at` of the accepted
    events.

    The store advances the clock as it accepts events. When the store opens, it sets the clock to
    the latest time in its log.
    """

    def __init__(self) -> None:
        self._latest_ms = MIN_MS

    def now_ms(self) -> int:
        return self._latest_ms

    def observe(self, at_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, at_ms)


class ManualClock:
    """A clock that moves only when it is set. It is for tests and simulations."""

    def __init__(self, start_ms: int) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Move to `now_ms`; raise ValueError for a time before the current one."""
        if now_ms < self._now_ms:
            raise ValueError(f"a clock does not run backwards: {now_ms} < {self._now_ms}")
        self._now_ms = now_ms

    def advance(self, by_ms: int) -> None:
        self.set(self._now_ms + by_ms)
