"""The relation between a store's time and its clock."""

import logging
from typing import Protocol, runtime_checkable

from laurels.errors import InvalidClock
from laurels.model.answer import Answer
from laurels.timeline.clock import Clock
from laurels.timeline.clock_guard import Leap

_log = logging.getLogger("laurels")

AHEAD_MS = 5_000
"""How far a store may be ahead of its clock without a warning. The times of accepted events may be
that far ahead, too.
"""


@runtime_checkable
class GuardedSource(Protocol):
    """A clock with a source that may leap. It follows the source only as far as a guard allows."""

    @property
    def leaps(self) -> int: ...

    def source_ms(self) -> int: ...

    def leap(self) -> Leap | None: ...

    def accept(self) -> None: ...


@runtime_checkable
class SharedSource(Protocol):
    """A clock whose source is also followed by other processes."""

    async def announce_acceptance(self) -> None: ...


class ClockStatus(Answer, frozen=True):
    """The time that a store uses (`now_ms`) and the time that its clock shows (`source_ms`).

    `ahead_ms` is how far the newest record is ahead of the clock: until the clock reaches it, the
    time of the store stands still. `leap_ms` is the size of a leap that the store does not follow,
    0 without one. `follow_in_ms` is the time until the store follows it. `leaps` is the number of
    leaps since the start.
    """

    now_ms: int
    source_ms: int
    ahead_ms: int = 0
    leap_ms: int = 0
    follow_in_ms: int | None = None
    leaps: int = 0

    @property
    def problem(self) -> str | None:
        """A description of the problem, None if there is none."""
        if self.leap_ms:
            return (
                f"the clock leapt by {self.leap_ms / 1_000:+,.0f} s, and the store does not follow "
                f"it yet; it will in {(self.follow_in_ms or 0) // 1_000} s, or after "
                "`laurels clock accept`"
            )
        if self.ahead_ms > AHEAD_MS:
            return (
                f"the newest record is {self.ahead_ms / 1_000:,.0f} s ahead of the clock, so the "
                "time of the store stands still until then: see `laurels clock rewind`"
            )
        return None


def clock_status(clock: Clock, newest_ms: int) -> ClockStatus:
    """Return the status of a store; `newest_ms` is the time of its newest record."""
    clock_ms = clock.now_ms()
    now_ms = max(clock_ms, newest_ms)
    if not isinstance(clock, GuardedSource):
        return ClockStatus(now_ms, clock_ms, now_ms - clock_ms)
    source_ms, leap = clock.source_ms(), clock.leap()
    if leap is None:
        return ClockStatus(now_ms, source_ms, max(0, now_ms - source_ms), leaps=clock.leaps)
    return ClockStatus(
        now_ms, source_ms, now_ms - clock_ms, leap.by_ms, leap.follow_in_ms, clock.leaps
    )


def accept_clock(clock: Clock) -> None:
    """Make a clock follow its source from now on, however far the source has leapt. Raises
    InvalidClock for a clock without a source."""
    if not isinstance(clock, GuardedSource):
        raise InvalidClock(
            "the boards do not use the system clock, so there is no leap of the clock to accept"
        )
    clock.accept()
    _log.warning("the clock was accepted: the store follows it from now on")
