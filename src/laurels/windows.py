"""Windows: which events count together. Pure.

`All` takes every event for ever. `Calendar` begins anew at every boundary of its unit in its
time zone (`periods` draws the boundaries). Nothing runs at a boundary: the period of an instant
is found when it is asked for. Finding one costs some microseconds, so a window remembers the
one it found last, and the next instant of the same period costs a comparison.
"""

from functools import cached_property, lru_cache
from typing import Literal, get_args

from msgspec import Struct

from .errors import UnknownPeriod
from .given import shown
from .periods import Cut, Days, Hours, Months, Period, Weeks
from .zones import zone

MIN_MS = -2_208_988_800_000
"""The first instant of the year 1900, UTC: no event is earlier."""
MAX_MS = 250_246_627_200_000
"""The first instant of the year 9900, UTC: every event is earlier."""

Unit = Literal["hour", "day", "week", "month", "quarter", "year"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)

_SPANS = {"month": 1, "quarter": 3, "year": 12}
_ALWAYS = Period("", MIN_MS, MAX_MS)


class All(Struct, frozen=True):
    """The window in which every event counts, for ever."""

    name: str

    def period_at(self, at_ms: int) -> Period:
        """The one period there is; its label is empty."""
        return _ALWAYS


class Calendar(Struct, frozen=True, dict=True):
    """A window that begins anew with every hour, day, week, month, quarter or year.

    `keep` is how many periods can be read, the current one included. Events of a period count
    until `grace_ms` after its end. `week_start` matters to weeks only.
    """

    name: str
    unit: Unit
    tz: str
    week_start: Weekday
    keep: int
    grace_ms: int

    @cached_property
    def _periods(self) -> "_Periods":
        return _periods(self.unit, self.tz, self.week_start, self.keep)

    def period_at(self, at_ms: int) -> Period:
        """The period in which an instant from MIN_MS to MAX_MS lies; it is fast to ask again."""
        return self._periods.at(at_ms)

    def period(self, label: str) -> Period:
        """The period of that label; UnknownPeriod where there is none."""
        return self._periods.labelled(label)

    def before(self, period: Period) -> Period:
        """The period that ends where this one begins."""
        return self._periods.find(period.start_ms - 1)

    def oldest_kept(self, now_ms: int) -> Period:
        """The oldest of the `keep` periods up to the current one; none before the year 1900.

        O(periods) the clock has gone on by since it was asked last, at most O(keep).
        """
        return self._periods.oldest_kept(now_ms)


Window = All | Calendar


class _Periods:
    """The periods of one kind of calendar window, and what was found last.

    Each memory is one reference, replaced whole, so threads may share it.
    """

    def __init__(self, cut: Cut, keep: int, called: str) -> None:
        self._cut = cut
        self._keep = keep
        self._called = called
        self._last = Period("", 0, 0)
        self._kept: tuple[Period, Period] | None = None

    def find(self, at_ms: int) -> Period:
        return self._cut.find(at_ms)

    def at(self, at_ms: int) -> Period:
        last = self._last
        if not last.start_ms <= at_ms < last.end_ms:
            last = self._last = self._cut.find(at_ms)
        return last

    def labelled(self, label: object) -> Period:
        try:
            named = self._cut.read(label) if isinstance(label, str) else []
        except (ValueError, OverflowError):
            named = []
        if len(named) > 1:
            both = " and ".join(period.label for period in named)
            raise UnknownPeriod(f"{shown(label)} names two periods, {both}")
        if not named or not (named[0].end_ms > MIN_MS and named[0].start_ms < MAX_MS):
            raise UnknownPeriod(f"{shown(label)} names no {self._called}")
        return named[0]

    def oldest_kept(self, now_ms: int) -> Period:
        current = self.at(now_ms)
        oldest = self._moved_on(current) or self._count_back(current)
        self._kept = (current, oldest)
        return oldest

    def _moved_on(self, current: Period) -> Period | None:
        """The oldest kept period, by as many steps from the one known last as `current` is."""
        if self._kept is None:
            return None
        counted, oldest = self._kept
        for _ in range(self._keep):
            if counted == current:
                return oldest
            if counted.start_ms > current.start_ms or oldest.start_ms <= MIN_MS:
                return None
            counted, oldest = self.find(counted.end_ms), self.find(oldest.end_ms)
        return None

    def _count_back(self, current: Period) -> Period:
        """The oldest of the periods kept while `current` runs, counted one by one."""
        oldest = current
        for _ in range(self._keep - 1):
            if oldest.start_ms <= MIN_MS:
                break
            oldest = self.find(oldest.start_ms - 1)
        return oldest


@lru_cache(maxsize=4096)
def _periods(unit: Unit, tz: str, week_start: Weekday, keep: int) -> _Periods:
    where = zone(tz)
    cut: Cut
    if unit == "hour":
        cut = Hours(where)
    elif unit == "day":
        cut = Days(where)
    elif unit == "week":
        cut = Weeks(where, WEEKDAYS.index(week_start))
    else:
        cut = Months(where, _SPANS[unit])
    return _Periods(cut, keep, f"{unit} in {tz}")
