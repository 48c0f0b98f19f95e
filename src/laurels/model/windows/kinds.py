"""Windows: which events count together. Pure.

`All` takes every event for ever. `Calendar` begins anew at every boundary of its unit in its
time zone (`calendar` draws the boundaries). `Rolling` counts the last so many steps, the running
one included (`steps` draws those). `Decay` takes every event for ever, and has scores fade. Nothing
runs at a boundary: the period or step of an instant is found when it is asked for. Finding one
costs some microseconds, so a window remembers the one it found last, and the next instant of the
same costs a comparison.

All kinds answer the same questions, so that nobody has to ask for a kind:

- periods: `period_at`, `period` of a label, `kept_periods`, `counts_from`;
- what is stored: `instance_of` a period and `period_of` an instance, which is a number of the
  kind's own, the `oldest_counted` and the `oldest_stored` one, and for how long one `lives_ms`;
- what is taken: `takes`, `taken_until`, `next_refusal`, with the `floor_ms` before which a board
  that changed has nothing;
- how it is counted: `steps` (in how many tallies, 0 where a period has one ranking), `interval_ms`
  (how often its ranking is made, 0 where it is live), `weighing` (how much events weigh; None: each
  in full), `holds_totals` (whether a score is the total of all events).
"""

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from msgspec import Struct

from laurels.errors import UnknownPeriod
from laurels.model.durations import duration_text
from laurels.model.validation import safe_repr
from laurels.timeline.calendar import Cut, Days, Hours, Months, Period, Weeks
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.steps import DaySteps, FixedSteps, Steps
from laurels.timeline.zones import zone

from .decay import Weighing
from .refresh_times import RefreshTimes, refresh_times

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
"""The longest period of each unit, by local time."""
_OFFSETS_MS = 26 * _HOUR_MS
"""From the furthest offset west of UTC to the furthest east."""
_ALWAYS = Period("", MIN_MS, MAX_MS)


class _Unstepped(Struct, frozen=True):
    """What windows have in common that count a period in one ranking."""

    name: str

    steps: ClassVar[int] = 0
    interval_ms: ClassVar[int] = 0

    def instance_of(self, period: Period) -> int:
        """Return the number by which a period is stored: its first instant."""
        return period.start_ms

    def counts_from(self, period: Period) -> int:
        """Return from when on events count in a period."""
        return period.start_ms


class _Endless(_Unstepped, frozen=True):
    """What windows have in common in which every event counts for ever."""

    has_periods: ClassVar[bool] = False
    lives_ms: ClassVar[int | None] = None

    def period_at(self, at_ms: int) -> Period:
        """Return the one period there is; its label is empty."""
        return _ALWAYS

    def period_of(self, instance: int) -> Period:
        """Return the one period there is."""
        return _ALWAYS

    def period(self, label: str) -> Period:
        """Raise UnknownPeriod: there is none that has a label."""
        raise UnknownPeriod(f"the window {self.name!r} has no periods")

    def cursor_label(self, instance: int) -> str | None:
        """Return None: the one period has no label."""
        return None

    def takes(self, floor_ms: int, now_ms: int, period: Period) -> bool:
        """Return True: no event is too late."""
        return True

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the first instant of all."""
        return MIN_MS

    def kept_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the first instant of all."""
        return MIN_MS

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the one period there is."""
        return [_ALWAYS]

    def floor_after(self, floor_ms: int, now_ms: int) -> int:
        """Return the first instant of all."""
        return MIN_MS

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the instance of the one period."""
        return MIN_MS

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return the instance of the one period."""
        return MIN_MS

    def taken_until(self, period: Period) -> int:
        """Return an instant after all others."""
        return MAX_MS

    def next_refusal(self, now_ms: int) -> tuple[int, int]:
        """Return instants after all others."""
        return MAX_MS, MAX_MS


class _Ending:
    """What windows have in common whose periods or steps end, and take late events for a while."""

    __slots__ = ()

    if TYPE_CHECKING:
        grace_ms: int

        def period_at(self, at_ms: int) -> Period: ...
        def counted_from(self, floor_ms: int, now_ms: int) -> int: ...

    def takes(self, floor_ms: int, now_ms: int, period: Period) -> bool:
        """Return whether events of a period or step still count: the window reaches back to it and
        its grace is not over."""
        if now_ms < period.end_ms:
            return period.start_ms >= floor_ms
        if now_ms > self.taken_until(period):
            return False
        return period.start_ms >= self.counted_from(floor_ms, now_ms)

    def taken_until(self, period: Period) -> int:
        """Return the last instant at which events of a period or step are taken."""
        return period.end_ms + self.grace_ms

    def next_refusal(self, now_ms: int) -> tuple[int, int]:
        """Return the end of the oldest period or step whose events are taken at `now_ms`, and from
        when on they are not."""
        end_ms = self.period_at(max(MIN_MS, now_ms - self.grace_ms - 1)).end_ms
        return end_ms, end_ms + self.grace_ms + 1


class All(_Endless, frozen=True):
    """The window in which every event counts, for ever."""

    holds_totals: ClassVar[bool] = True
    weighing: ClassVar[Weighing | None] = None


class Calendar(_Ending, _Unstepped, frozen=True, dict=True):
    """A window that begins anew with every hour, day, week, month, quarter or year.

    `keep` is how many periods can be read, the current one included. Events of a period count
    until `grace_ms` after its end. `week_start` matters to weeks only.
    """

    unit: Unit
    tz: str
    week_start: Weekday
    keep: int
    grace_ms: int

    has_periods: ClassVar[bool] = True
    holds_totals: ClassVar[bool] = False
    weighing: ClassVar[Weighing | None] = None

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

    @property
    def lives_ms(self) -> int:
        """For how long after its beginning a period is read or counted in, at most: as long as
        `keep` of the longest periods there are, the grace, and the most that two offsets of a zone
        differ by."""
        return self.keep * _LONGEST_MS[self.unit] + self.grace_ms + _OFFSETS_MS

    def oldest_kept(self, now_ms: int) -> Period:
        """The oldest of the `keep` periods up to the current one; none before the year 1900.

        O(periods) the clock has gone on by since it was asked last, at most O(keep).
        """
        return self._periods.oldest_kept(now_ms)

    def period_of(self, instance: int) -> Period:
        """Return the period stored by a number: the one in which that instant lies."""
        return self.period_at(instance)

    def cursor_label(self, instance: int) -> str | None:
        """Return the label of the period stored by a number, in which a list goes on."""
        return self.period_at(instance).label

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the oldest period whose events are held at `now_ms`."""
        return max(floor_ms, self.oldest_kept(now_ms).start_ms)

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
        """Return the floor when the board changes: what is gone by now stays gone."""
        return self.kept_from(floor_ms, now_ms)

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the number of the oldest period whose events are held at `now_ms`."""
        return self.counted_from(floor_ms, now_ms)

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return the number of the oldest period that is stored; those before it are dropped."""
        return self.counted_from(floor_ms, now_ms)


class Rolling(_Ending, Struct, frozen=True, dict=True):
    """A window of the last `steps` steps: live within a step, exact at every boundary.

    A step lasts `step_ms` milliseconds or, where that is 0, `step_days` local days of `tz`. Events
    of a step count until `grace_ms` after its end, less than the window is long. With `refresh_ms`
    its ranking is made only so often, and stands in between as it was made last; where that is
    whole days, it is made `refresh_minute` minutes after local midnight.
    """

    name: str
    steps: int
    step_ms: int
    step_days: int
    tz: str
    grace_ms: int
    refresh_ms: int = 0
    refresh_minute: int = 0

    has_periods: ClassVar[bool] = True
    holds_totals: ClassVar[bool] = False
    lives_ms: ClassVar[int | None] = None
    weighing: ClassVar[Weighing | None] = None

    @property
    def interval_ms(self) -> int:
        """How often the ranking is made, 0 where it is always live."""
        return self.refresh_ms

    @cached_property
    def _steps(self) -> "_Steps":
        return _steps(self.step_ms, self.step_days, self.tz)

    def period_at(self, at_ms: int) -> Period:
        """The step in which an instant from MIN_MS to MAX_MS lies; it is fast to ask again."""
        return self._steps.at(at_ms)[1]

    def number_at(self, at_ms: int) -> int:
        """The number of that step; the next one's is greater by 1."""
        return self._steps.at(at_ms)[0]

    def step(self, number: int) -> Period:
        """The step of a number; one of a local date that was skipped is empty."""
        return self._steps.cut.step(number)

    def period(self, label: str) -> Period:
        """The step of that label; UnknownPeriod where there is none."""
        return self._steps.labelled(label)

    def span(self, running: int) -> tuple[int, int]:
        """From when to before when the window counts while the step of that number runs."""
        return self.step(running - self.steps + 1).start_ms, self.step(running).end_ms

    def instance_of(self, period: Period) -> int:
        """Return the number by which a step is stored: its own."""
        return self.number_at(period.start_ms)

    def period_of(self, instance: int) -> Period:
        """Return the step of a number."""
        return self.step(instance)

    def cursor_label(self, instance: int) -> str | None:
        """Return None: a list goes on in the running step or not at all."""
        return None

    def counts_from(self, period: Period) -> int:
        """Return from when on events count while a step runs."""
        return self.span(self.number_at(period.start_ms))[0]

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the oldest step whose events are held at `now_ms`."""
        return max(floor_ms, self.span(self.number_at(now_ms))[0])

    def kept_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the running step, the only one that can be read."""
        return self.period_at(now_ms).start_ms

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the running step."""
        return [self.period_at(now_ms)]

    def floor_after(self, floor_ms: int, now_ms: int) -> int:
        """Return the floor as it is: a change of the board takes nothing from the window."""
        return floor_ms

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the number of the oldest step whose events are held at `now_ms`."""
        return self.number_at(self.counted_from(floor_ms, now_ms))

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return None: steps go when the window is brought to the next."""
        return None

    @cached_property
    def _refresh_times(self) -> RefreshTimes:
        return refresh_times(self.refresh_ms, self.refresh_minute, self.tz)

    def due_after(self, refreshed_ms: int) -> int:
        """From when on another refresh is due after one."""
        return self._refresh_times.around(refreshed_ms)[1]

    def due_by(self, now_ms: int) -> int:
        """The newest refresh time: a refresh from before then is to be done again."""
        return self._refresh_times.around(now_ms)[0]


class Decay(_Endless, frozen=True):
    """The window in which every event counts for ever, half as much after every half-life."""

    half_life_ms: int

    holds_totals: ClassVar[bool] = False

    @property
    def weighing(self) -> Weighing:
        """How much events weigh."""
        return Weighing(self.half_life_ms)


Window = All | Calendar | Rolling | Decay


class _Steps:
    """The steps of one kind of rolling window, and the one found last.

    The memory is one reference, replaced whole, so threads may share it.
    """

    def __init__(self, cut: Steps, called: str) -> None:
        self.cut = cut
        self._called = called
        self._last = (0, Period("", 0, 0))

    def at(self, at_ms: int) -> tuple[int, Period]:
        last = self._last
        if not last[1].start_ms <= at_ms < last[1].end_ms:
            number = self.cut.number(at_ms)
            last = self._last = (number, self.cut.step(number))
        return last

    def labelled(self, label: object) -> Period:
        try:
            step = self.cut.step(self.cut.read(label)) if isinstance(label, str) else None
        except (ValueError, OverflowError):
            step = None
        if step is None or not (step.end_ms > MIN_MS and step.start_ms < MAX_MS):
            raise UnknownPeriod(f"{safe_repr(label)} names no {self._called}")
        return step


@lru_cache(maxsize=4096)
def _steps(step_ms: int, step_days: int, tz: str) -> _Steps:
    if step_ms:
        return _Steps(FixedSteps(step_ms), f"step of {duration_text(step_ms)}")
    return _Steps(DaySteps(zone(tz), step_days), f"step of {step_days}d in {tz}")


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
