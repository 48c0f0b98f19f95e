"""Windows of the current hour, day, week, month, quarter or year. Pure."""

from functools import cached_property, lru_cache
from typing import ClassVar, Literal, get_args

from laurels.errors import UnknownPeriod
from laurels.model.durations import MAX_DURATION_MS
from laurels.model.validation import safe_repr
from laurels.timeline.calendar import Cut, Days, EndingCut, Hours, Months, Period, Weeks
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.zones import zone

from .bases import Ending, Unstepped
from .weighing import Weighing

Unit = Literal["hour", "day", "week", "month", "quarter", "year"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)

_SPANS = {"month": 1, "quarter": 3, "year": 12}
_HOUR_MS = 3_600_000
_LONGEST_MS: dict[Unit, int] = {
    "hour": _HOUR_MS,
    "day": 24 * _HOUR_MS,
    "week": 7 * 24 * _HOUR_MS,
    "month": 31 * 24 * _HOUR_MS,
    "quarter": 92 * 24 * _HOUR_MS,
    "year": 366 * 24 * _HOUR_MS,
}
"""The length of the longest period of each unit in local time."""
_OFFSETS_MS = 26 * _HOUR_MS
"""The difference between the furthest offset east of UTC and the furthest offset west of it."""


class Calendar(Ending, Unstepped, frozen=True, dict=True):
    """A window that starts empty with every hour, day, week, month, quarter or year.

    `keep` is the number of periods that can be read, including the current one. Events of a period
    count until `grace_ms` after its end. `week_start` matters to weeks only. The last period ends
    at `ends_ms`, and stays the current one.
    """

    unit: Unit
    tz: str
    week_start: Weekday
    keep: int
    grace_ms: int
    ends_ms: int = MAX_MS
    closes: bool = False

    has_periods: ClassVar[bool] = True
    holds_totals: ClassVar[bool] = False
    weighing: ClassVar[Weighing | None] = None

    @cached_property
    def _periods(self) -> "_Periods":
        return _periods(self.unit, self.tz, self.week_start, self.keep, self.ends_ms)

    def period_at(self, at_ms: int) -> Period:
        """Return the period that contains an instant from MIN_MS to MAX_MS; repeated calls are
        fast."""
        return self._periods.at(at_ms)

    def period(self, label: str) -> Period:
        """Return the period with a label. Raise UnknownPeriod if there is none."""
        return self._periods.labelled(label)

    def before(self, period: Period) -> Period:
        """Return the period that ends where this one begins."""
        return self._periods.find(period.start_ms - 1)

    @property
    def lives_ms(self) -> int:
        """The longest time after its beginning for which a period may still be read or counted:
        `keep` times the length of the longest period, plus the grace, plus the largest difference
        between two UTC offsets. On a board with an end, it is the longest possible duration, since
        the last periods are read as long as the board exists."""
        if self.ends_ms < MAX_MS:
            return MAX_DURATION_MS
        return self.keep * _LONGEST_MS[self.unit] + self.grace_ms + _OFFSETS_MS

    def oldest_kept(self, now_ms: int) -> Period:
        """Return the oldest of the `keep` periods up to the current one. No period is before the
        year 1900.

        O(periods that have begun since the last call), at most O(keep).
        """
        return self._periods.oldest_kept(now_ms)

    def period_of(self, instance: int) -> Period:
        """Return the period stored under a number.

        The number is an instant, and the period contains it.
        """
        return self.period_at(instance)

    def cursor_label(self, instance: int) -> str | None:
        """Return the label of the period stored under a number. A cursor has this label, so that a
        list continues in the same period."""
        return self.period_at(instance).label

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the oldest period whose events are stored at `now_ms`."""
        oldest_ms = self.oldest_kept(now_ms).start_ms
        if self.closes:
            oldest_ms = min(oldest_ms, self.period_at(self.next_refusal(now_ms)[0] - 1).start_ms)
        return max(floor_ms, oldest_ms)

    def kept_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the oldest period that can be read at `now_ms`."""
        return self.counted_from(floor_ms, now_ms)

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the periods that can be read at `now_ms`, newest first."""
        oldest_ms = self.kept_from(floor_ms, now_ms)
        kept = [self.period_at(now_ms)]
        while kept[-1].start_ms > oldest_ms:
            kept.append(self.before(kept[-1]))
        return kept

    def floor_after(self, floor_ms: int, now_ms: int) -> int:
        """Return the floor after a change of the board. Expired periods stay expired."""
        return self.kept_from(floor_ms, now_ms)

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the number of the oldest period whose events are stored at `now_ms`."""
        return self.counted_from(floor_ms, now_ms)

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return the number of the oldest period that is stored; earlier periods are dropped. Never
        None in this kind of window."""
        return self.counted_from(floor_ms, now_ms)


class _Periods:
    """Finds the periods of a calendar window, and caches the last results. The last two periods are
    cached because closing a period asks for it and for the running one by turns.

    A cached result is replaced by assigning one reference, so several threads may use the cache
    without a lock.
    """

    def __init__(self, cut: Cut, keep: int, called: str) -> None:
        self._cut = cut
        self._keep = keep
        self._called = called
        self._last = self._other = Period("", 0, 0)
        self._kept: tuple[Period, Period] | None = None

    def find(self, at_ms: int) -> Period:
        return self._cut.find(at_ms)

    def at(self, at_ms: int) -> Period:
        last = self._last
        if last.start_ms <= at_ms < last.end_ms:
            return last
        other = self._other
        if other.start_ms <= at_ms < other.end_ms:
            return other
        found = self._cut.find(at_ms)
        self._last, self._other = found, last
        return found

    def labelled(self, label: object) -> Period:
        try:
            named = self._cut.read(label) if isinstance(label, str) else []
        except (ValueError, OverflowError):
            named = []
        if len(named) > 1:
            both = " and ".join(period.label for period in named)
            raise UnknownPeriod(f"{safe_repr(label)} names two periods, {both}")
        if not named or not (named[0].end_ms > MIN_MS and named[0].start_ms < MAX_MS):
            raise UnknownPeriod(f"{safe_repr(label)} names no {self._called}")
        return named[0]

    def oldest_kept(self, now_ms: int) -> Period:
        current = self.at(now_ms)
        oldest = self._moved_on(current) or self._count_back(current)
        self._kept = (current, oldest)
        return oldest

    def _moved_on(self, current: Period) -> Period | None:
        """Return the oldest kept period by moving the last result forward by as many periods as
        have begun since then; None if there is no last result, or if it cannot be used."""
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
        """Return the oldest period kept at the time of `current`, counted back one by one."""
        oldest = current
        for _ in range(self._keep - 1):
            if oldest.start_ms <= MIN_MS:
                break
            oldest = self.find(oldest.start_ms - 1)
        return oldest


@lru_cache(maxsize=4096)
def _periods(unit: Unit, tz: str, week_start: Weekday, keep: int, ends_ms: int) -> _Periods:
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
    if ends_ms < MAX_MS:
        cut = EndingCut(cut, ends_ms)
    return _Periods(cut, keep, f"{unit} in {tz}")
