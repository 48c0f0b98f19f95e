"""Windows of the last steps of time. Pure."""

from collections.abc import Collection
from functools import cached_property, lru_cache
from typing import ClassVar

from msgspec import Struct

from laurels.errors import UnknownPeriod
from laurels.model.durations import duration_text
from laurels.model.validation import safe_repr
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS
from laurels.timeline.steps import DaySteps, EndingSteps, FixedSteps, Steps
from laurels.timeline.zones import zone

from .bases import Ending
from .refresh_times import RefreshTimes, refresh_times
from .weighing import Weighing


class Rolling(Ending, Struct, frozen=True, dict=True):
    """A window of the last `steps` steps. An event counts at once, and at the end of each step the
    oldest step leaves the window.

    A step lasts `step_ms` milliseconds or, if that is 0, `step_days` local days of `tz`. Events of
    a step count until `grace_ms` after its end; the grace is less than the window's length. With
    `refresh_ms`, the ranking is recomputed only at this interval and does not change in between. If
    the interval is whole days, the ranking is recomputed `refresh_minute` minutes after local
    midnight. The last step ends at `ends_ms`, and stays the running step afterwards. If the window
    has an archive, its ranking is archived every `archive_ms`: at the end of each step in which a
    multiple of this interval falls, or local midnight if the interval is whole days.
    """

    name: str
    steps: int
    step_ms: int
    step_days: int
    tz: str
    grace_ms: int
    refresh_ms: int = 0
    refresh_minute: int = 0
    ends_ms: int = MAX_MS
    archive_ms: int = 0

    has_periods: ClassVar[bool] = True
    holds_totals: ClassVar[bool] = False
    lives_ms: ClassVar[int | None] = None
    weighing: ClassVar[Weighing | None] = None

    @property
    def interval_ms(self) -> int:
        """How often the ranking is recomputed, 0 if it is always live."""
        return self.refresh_ms

    @cached_property
    def _steps(self) -> "_Steps":
        return _steps(self.step_ms, self.step_days, self.tz, self.ends_ms)

    def period_at(self, at_ms: int) -> Period:
        """Return the step that contains an instant from MIN_MS to MAX_MS; repeated calls are
        fast."""
        return self._steps.at(at_ms)[1]

    def number_at(self, at_ms: int) -> int:
        """Return the number of the step that contains an instant; the next step has the next
        number.
        """
        return self._steps.at(at_ms)[0]

    def step(self, number: int) -> Period:
        """Return the step with a number; the step of a skipped local date is empty."""
        return self._steps.cut.step(number)

    def period(self, label: str) -> Period:
        """Return the step with a label. Raise UnknownPeriod if there is none."""
        return self._steps.labelled(label)

    def span(self, running: int) -> tuple[int, int]:
        """Return the first instant that the window counts during the step `running`, and the end of
        that step."""
        return self.step(running - self.steps + 1).start_ms, self.step(running).end_ms

    def instance_of(self, period: Period) -> int:
        """Return the number under which a step is stored: the number of the step."""
        return self.number_at(period.start_ms)

    def period_of(self, instance: int) -> Period:
        """Return the step with a number."""
        return self.step(instance)

    def cursor_label(self, instance: int) -> str | None:
        """Return None: a list continues only in the current step, so a cursor needs no label."""
        return None

    def counts_from(self, period: Period) -> int:
        """Return the first instant whose events the window counts during a step."""
        return self.span(self.number_at(period.start_ms))[0]

    def counted_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the oldest step whose events are stored at `now_ms`."""
        return max(floor_ms, self.span(self.number_at(now_ms))[0])

    def kept_from(self, floor_ms: int, now_ms: int) -> int:
        """Return the start of the current step, the only one that can be read."""
        return self.period_at(now_ms).start_ms

    def kept_periods(self, floor_ms: int, now_ms: int) -> list[Period]:
        """Return the current step."""
        return [self.period_at(now_ms)]

    def floor_after(self, floor_ms: int, now_ms: int) -> int:
        """Return the floor unchanged, since a change of the board removes nothing from the
        window."""
        return floor_ms

    def oldest_counted(self, floor_ms: int, now_ms: int) -> int:
        """Return the number of the oldest step whose events are stored at `now_ms`."""
        return self.number_at(self.counted_from(floor_ms, now_ms))

    def oldest_stored(self, floor_ms: int, now_ms: int) -> int | None:
        """Return None, since expired steps are dropped when the window rotates."""
        return None

    def closes_after(self, period: Period) -> int:
        """Return the last instant at which the ranking of a step can change. It is the last instant
        of the step, since the window then moves on. At the end of the board the window stops, and
        events still change the ranking of the last step until their grace is over."""
        return period.end_ms - 1 if period.end_ms < self.ends_ms else self.taken_until(period)

    def is_archived(self, period: Period) -> bool:
        """Return whether the ranking at the end of a step is archived, in a window that has an
        archive."""
        if period.end_ms >= self.ends_ms:
            return True
        return self._archive_times.around(period.end_ms)[0] > period.start_ms

    def last_archived(self, instance: int) -> int:
        """Return the last archived step at whose end the window still counts the events of the step
        `instance`. If there is none, return a step before `instance`."""
        last = min(instance + self.steps - 1, self._last_step)
        if last == self._last_step or self.is_archived(self.step(last)):
            return last
        return self.number_at(self._archive_times.around(self.step(last).start_ms)[0] - 1)

    def archived_with(
        self, instance: int, now_ms: int, known: Collection[int] = ()
    ) -> tuple[int, ...]:
        """Return the archived steps at whose ends the window counts the events of the step
        `instance`. Steps that ended before `now_ms` are left out, and so are the steps up to the
        last one in `known`, which has results of earlier calls. O(new steps)."""
        number = max(instance, self.number_at(now_ms), max(known, default=instance - 1) + 1)
        last = self.last_archived(instance)
        archived = []
        while number <= last:
            boundary_ms = self._archive_times.around(self.step(number).start_ms)[1]
            archived.append(min(self.number_at(boundary_ms - 1), last))
            number = archived[-1] + 1
        return tuple(archived)

    def boundaries(self, first: int, past: int) -> tuple[int, ...] | None:
        """Return the archived steps from `first` up to, not including, `past`, without the last
        step of a board with an end. None if the window is not archived at boundaries. O(steps
        returned)."""
        if not self.archive_ms:
            return None
        archived, number = list[int](), first
        past = min(past, self._last_step)
        while number < past:
            boundary_ms = self._archive_times.around(self.step(number).start_ms)[1]
            number = self.number_at(boundary_ms - 1) + 1
            if number <= past:
                archived.append(number - 1)
        return tuple(archived)

    def last_boundary(self, now_ms: int) -> int | None:
        """Return the newest archived step that has ended at `now_ms`; None if the window is not
        archived at boundaries."""
        if not self.archive_ms:
            return None
        running = self.period_at(now_ms)
        return self.number_at(self._archive_times.around(running.start_ms)[0] - 1)

    def next_closing(self, now_ms: int) -> int:
        """Return the next instant at which a step may be final; MAX_MS if there is none."""
        running = self.number_at(now_ms)
        if running >= self._last_step or not self.archive_ms:
            refused_ms = self.ends_ms + self.grace_ms + 1
            return refused_ms if now_ms < refused_ms < MAX_MS else MAX_MS
        boundary_ms = self._archive_times.around(self.step(running).start_ms)[1]
        return self.period_at(min(boundary_ms, self.ends_ms) - 1).end_ms

    @cached_property
    def _last_step(self) -> int:
        """The number of the last step of a board with an end."""
        return MAX_MS if self.ends_ms == MAX_MS else self.number_at(self.ends_ms)

    @cached_property
    def _archive_times(self) -> RefreshTimes:
        return refresh_times(self.archive_ms, 0, self.tz)

    @cached_property
    def _refresh_times(self) -> RefreshTimes:
        return refresh_times(self.refresh_ms, self.refresh_minute, self.tz)

    def due_after(self, refreshed_ms: int) -> int:
        """Return the next refresh time after a refresh."""
        return self._refresh_times.around(refreshed_ms)[1]

    def due_by(self, now_ms: int) -> int:
        """Return the most recent refresh time.

        A window that was last refreshed before this time is due.
        """
        return self._refresh_times.around(now_ms)[0]


class _Steps:
    """The steps of a rolling window, with the most recent result.

    The cached result is one reference, replaced as a whole, so threads may share it.
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
def _steps(step_ms: int, step_days: int, tz: str, ends_ms: int) -> _Steps:
    cut: Steps
    if step_ms:
        cut, called = FixedSteps(step_ms), f"step of {duration_text(step_ms)}"
    else:
        cut, called = DaySteps(zone(tz), step_days), f"step of {step_days}d in {tz}"
    return _Steps(cut if ends_ms == MAX_MS else EndingSteps(cut, ends_ms), called)
