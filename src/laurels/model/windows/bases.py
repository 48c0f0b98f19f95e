"""Base classes of the window kinds. Pure."""

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from laurels.errors import UnknownPeriod
from laurels.model.validation import quoted
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

_ALWAYS = Period("", MIN_MS, MAX_MS)


class Unstepped(Struct, frozen=True):
    """A window that counts each period in one ranking."""

    name: str

    steps: ClassVar[int] = 0
    interval_ms: ClassVar[int] = 0

    def instance_of(self, period: Period) -> int:
        """Return the number under which a period is stored: its first instant."""
        return period.start_ms

    def counts_from(self, period: Period) -> int:
        """Return the first instant whose events count in a period."""
        return period.start_ms

    def closes_after(self, period: Period) -> int:
        """Return the last instant at which a period can change, unless sources lag."""
        return self.taken_until(period)

    def is_archived(self, period: Period) -> bool:
        """Return True, since a window that archives its periods archives each of them."""
        return True

    def last_archived(self, instance: int) -> int:
        """Return the last archived instance whose standings count the events of `instance`. Since
        each period counts only its own events, this is `instance`."""
        return instance

    def archived_with(
        self, instance: int, now_ms: int, known: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return the archived instances whose standings count the events of `instance`, without
        those that ended before `now_ms`. Instances in `known`, which has results of earlier calls,
        may be left out."""
        return (instance,)

    def boundaries(self, first: int, past: int) -> tuple[int, ...] | None:
        """Return None, since the window is not archived at boundaries."""
        return None

    def last_boundary(self, now_ms: int) -> int | None:
        """Return None, since the window is not archived at boundaries."""
        return None

    def next_closing(self, now_ms: int) -> int:
        """Return the next instant at which a period may be final, unless sources lag; MAX_MS if
        there is none."""
        return self.next_refusal(now_ms)[1]

    if TYPE_CHECKING:

        def taken_until(self, period: Period) -> int: ...

        def next_refusal(self, now_ms: int) -> tuple[int, int]: ...


class Endless(Unstepped, frozen=True, kw_only=True):
    """A window in which every event counts for ever. On a board with an end, events are accepted
    until `grace_ms` after that end."""

    ends_ms: int = MAX_MS
    grace_ms: int = 0

    has_periods: ClassVar[bool] = False
    lives_ms: ClassVar[int | None] = None

    def period_at(self, at_ms: int) -> Period:
        """Return the only period; its label is empty."""
        return self._period

    def period_of(self, instance: int) -> Period:
        """Return the only period."""
        return self._period

    @property
    def _period(self) -> Period:
        return _ALWAYS if self.ends_ms == MAX_MS else Period("", MIN_MS, self.ends_ms)

    def period(self, label: str) -> Period:
        """Raise UnknownPeriod, since no period has a label."""
        raise UnknownPeriod(f"the window {quoted(self.name)} has no periods")

    def cursor_label(self, instance: int) -> str | None:
        """Return None, since the only period has no label."""
        return None

    def takes(self, floor_ms: int, now_ms: int, period: Period) -> bool:
        """Return whether events still count. They always do, except when the board has ended and
        its grace is over."""
        return now_ms <= self.taken_until(period)

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return MIN_MS, since no event is earlier."""
        return MIN_MS

    def kept_from(self, floor_ms: int, now_ms: int) -> int:
        """Return MIN_MS, since no event is earlier."""
        return MIN_MS

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the only period."""
        return [self._period]

    def floor_after(self, floor_ms: int, now_ms: int) -> int:
        """Return MIN_MS, since no event is earlier."""
        return MIN_MS

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the instance of the only period."""
        return MIN_MS

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return the instance of the only period, never None."""
        return MIN_MS

    def taken_until(self, period: Period) -> int:
        """Return the last instant at which events are accepted; MAX_MS on a board without an
        end."""
        return MAX_MS if self.ends_ms == MAX_MS else self.ends_ms + self.grace_ms

    def next_refusal(self, now_ms: int) -> tuple[int, int]:
        """Return the end of the board, and the instant from which its events are refused.

        If the board has no end, or its events are refused already, both are MAX_MS.
        """
        refused_ms = self.ends_ms + self.grace_ms + 1
        if self.ends_ms == MAX_MS or now_ms >= refused_ms:
            return MAX_MS, MAX_MS
        return self.ends_ms, refused_ms


class Ending:
    """A window whose periods or steps end. It accepts their events for a while longer, the
    grace."""

    __slots__ = ()

    if TYPE_CHECKING:
        grace_ms: int
        ends_ms: int

        def period_at(self, at_ms: int) -> Period: ...
        def counted_from(self, floor_ms: int, now_ms: int) -> int: ...

    def takes(self, floor_ms: int, now_ms: int, period: Period) -> bool:
        """Return whether events of a period or step still count. This requires that the window
        keeps the period or step, and that its grace is not over."""
        if now_ms < period.end_ms:
            return period.start_ms >= floor_ms
        if now_ms > self.taken_until(period):
            return False
        return period.start_ms >= self.counted_from(floor_ms, now_ms)

    def taken_until(self, period: Period) -> int:
        """Return the last instant at which events of a period or step are accepted."""
        return period.end_ms + self.grace_ms

    def next_refusal(self, now_ms: int) -> tuple[int, int]:
        """Return the end of the oldest period or step whose events are accepted at `now_ms`, and
        the instant from which these events are refused. Both are MAX_MS if there is no such
        period."""
        if now_ms > self.ends_ms + self.grace_ms:
            return MAX_MS, MAX_MS
        end_ms = self.period_at(max(MIN_MS, now_ms - self.grace_ms - 1)).end_ms
        return end_ms, end_ms + self.grace_ms + 1
