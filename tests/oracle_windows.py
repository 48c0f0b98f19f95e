"""The windows of the oracle: which events count together, at which time, and for how long.

A window keeps every event that it ever counted, in a list for each period or step. Each query
computes the content of a ranking anew from these lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date

from tests.calendar_by_scanning import Calendar, Span, day_of, span_at, span_named
from tests.definitions import Counted, Definition, Refusal, WindowDef, duration_ms
from tests.oracle_closing import Closings, Instance, Ranked
from tests.oracle_forms import FIRST_MS
from tests.prize_definitions import PrizesDef
from tests.steps_by_scanning import Steps, number_at, number_named, step_span

DAY_MS = 86_400_000


def window_of(window: WindowDef, board: Definition) -> OracleWindow:
    """Return the window that a definition describes."""
    if window.unit == "all":
        return OracleWindow(window, board)
    if window.unit == "decay":
        return DecayWindow(window, board)
    kind = RollingWindow if window.unit == "rolling" else CalendarWindow
    if window.refresh is not None:
        kind = RefreshedWindow
    return kind(window, board)


def ranks(counted: Sequence[Counted], member: str) -> bool:
    """Return whether the member is in the ranking that is computed from these events."""
    return any(
        event.member == member and any(scope.by is None for scope in event.scopes)
        for event in counted
    )


def without(counted: Sequence[Counted], member: str) -> list[Counted]:
    """Return the remaining events after a member was removed. Events of the member still count in
    the rankings of label values."""
    return [
        replace(event, scopes=tuple(scope for scope in event.scopes if scope.by is not None))
        if event.member == member
        else event
        for event in counted
    ]


class Intervals:
    """The intervals between the multiples of a duration. Intervals of whole days are groups of
    local dates."""

    def __init__(self, every: str, tz: str) -> None:
        self.every_ms = duration_ms(every)
        self.tz = tz

    def number(self, at_ms: int) -> int:
        """Return the number of the interval that contains an instant."""
        if self.every_ms % DAY_MS:
            return at_ms // self.every_ms
        return (day_of(at_ms, self.tz) - date(1970, 1, 1)).days // (self.every_ms // DAY_MS)


class OracleWindow:
    """The window `all`, which counts every event of the board in one ranking. All other windows are
    subclasses."""

    steps = 1
    """The number of steps that the window counts together. A calendar window has one, its
    period."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        length = window.archive if isinstance(window.archive, int) else 0
        self.closings = Closings(archive=window.closes, length=length, prizes=window.prizes)
        self.ends_ms = board.ends if isinstance(board.ends, int) else None
        self.grace_ms = duration_ms(board.grace)
        self.misses = board.misses
        self.floor_ms = FIRST_MS
        self.counted: dict[Instance, list[Counted]] = {}
        self.shown: dict[Instance, list[Counted]] = {}
        """What a rolling window showed at the ends of archived steps."""

    def instance(self, at_ms: int) -> Instance:
        """Return the period or step that contains an instant, or None for the window of all
        time."""
        return None

    def label_of(self, instance: Instance) -> str | None:
        """Return the label of a period."""
        assert not isinstance(instance, int)
        return instance

    def archived(self) -> list[str | None]:
        """Return the labels of the periods in the archive, oldest first."""
        return [self.label_of(each) for each in sorted(self.closings.archived, key=self.start_ms)]

    def section(self, now_ms: int) -> object:
        """Return a value that is equal for two values of `now_ms` if the window accepts events of
        the same times at both. Events are recorded together only while it stays the same."""
        return self.misses(now_ms), self.is_over(now_ms)

    def until(self, now_ms: int) -> int:
        """Return the latest instant that the window shows: the current time or, after the board's
        end, its last instant."""
        return now_ms if self.ends_ms is None else min(now_ms, self.ends_ms - 1)

    def is_over(self, now_ms: int) -> bool:
        """Return whether the board has ended and the grace after its end has passed."""
        return self.ends_ms is not None and now_ms - self.ends_ms > self.grace_ms

    def cut_off(self, span: Span) -> Span:
        """Return this period or step. If the board ends within it, return only its part before the
        end of the board."""
        if self.ends_ms is None or not span.start_ms < self.ends_ms < span.end_ms:
            return span
        return replace(span, end_ms=self.ends_ms)

    def takes(self, at_ms: int, now_ms: int) -> bool:
        """Return whether the window counts an event of `at_ms` that arrives at `now_ms`. The event
        must not be before the board's start, at or after its end, or late."""
        return self.misses(at_ms) is None and not self.is_over(now_ms)

    def label(self, at_ms: int, now_ms: int) -> str | None:
        """Return the label of the ranking in which an event of `at_ms` counts at `now_ms`."""
        return None

    def events(self, label: str | None, now_ms: int) -> list[Counted]:
        """Return the events that count in the ranking with that label at `now_ms`."""
        return self.counted.get(label, [])

    def seen(self, event: Counted, now_ms: int) -> Counted:
        """Return an event with the fields that this window adds at `now_ms`: in a decay window, the
        half-life and the time of the query."""
        return event

    def judged(self, at_ms: int, now_ms: int) -> list[Counted]:
        """Return the events whose total must stay within the range when an event of `at_ms` is
        added."""
        return self.events(self.label(at_ms, now_ms), now_ms)

    def count(self, event: Counted) -> None:
        """Count an event that was accepted."""
        self.counted.setdefault(self.instance(event.at_ms), []).append(event)

    def remove(self, member: str, now_ms: int) -> bool:
        """Remove a member. Return whether it was in a readable ranking."""
        ranked = False
        for instance, counted in self.counted.items():
            if instance not in self.closings.closed:
                ranked = ranked or (ranks(counted, member) and self.shows(instance, now_ms))
                self.counted[instance] = without(counted, member)
        return ranked

    def clear(self) -> None:
        """Remove all members, except from closed periods."""
        self.closings.clear()
        for instance in self.counted:
            if instance not in self.closings.closed:
                self.counted[instance] = []

    def restore(self, board: Definition) -> None:
        """Go on, without members, after the board was removed."""
        self.clear()
        self.misses = board.misses

    def start_ms(self, instance: Instance) -> int:
        """Return the start of a period."""
        return FIRST_MS

    def final_ms(self, instance: Instance) -> int | None:
        """Return the first instant at which no event can change a period, or None if there is no
        such instant."""
        return None if self.ends_ms is None else self.ends_ms + self.grace_ms + 1

    def close(self, now_ms: int, ranked_at: Callable[[int], Ranked]) -> None:
        """Close the periods that are due at `now_ms`, as the next write to the board does."""
        for instance, counted in self.closing(now_ms).items():
            self.closings.close(instance, counted, self.final_ms(instance), now_ms, ranked_at)

    def closing(self, now_ms: int) -> Mapping[Instance, list[Counted]]:
        """Return the events of each period that the window has closed or may close."""
        return self.counted

    def advance(self, now_ms: int) -> None:
        """Keep what is to be archived of the present rankings, before anything changes at
        `now_ms`."""

    def go_back(self, now_ms: int) -> None:
        """Forget what only readers have seen, after the deployment was opened again at an earlier
        time."""

    def is_closed_at_the_end(self, now_ms: int) -> bool:
        """Return whether the period that the end of the board has ended is closed, or due to be
        closed."""
        if self.ends_ms is None:
            return False
        last_ms = self.ends_ms + self.grace_ms + 1
        due = [
            instance
            for instance, counted in self.closing(now_ms).items()
            if self.closings.is_due(instance, counted, self.final_ms(instance), now_ms)
        ]
        return any(self.final_ms(instance) == last_ms for instance in [*self.closings.closed, *due])

    def unsealed(self, now_ms: int) -> list[PrizesDef | None]:
        """Return the prizes of each period that has events and is to be sealed."""
        return [
            prizes
            for instance, counted in self.closing(now_ms).items()
            for prizes in self.closings.unsealed(instance, counted, self.final_ms(instance))
        ]

    def ranked(self, instance: Instance, now_ms: int, ranked_at: Callable[[int], Ranked]) -> Ranked:
        """Return who is not ranked in a period."""
        if instance in self.closings.closed:
            return self.closings.closed[instance]
        counted, final_ms = self.closing(now_ms).get(instance, []), self.final_ms(instance)
        if final_ms is not None and self.closings.is_due(instance, counted, final_ms, now_ms):
            now_ms = final_ms
        return ranked_at(now_ms)

    def is_unsealed(self, instance: Instance, now_ms: int) -> bool:
        """Return whether a period is readable although the window no longer keeps it, since it is
        closed and not sealed yet."""
        counted = self.closing(now_ms).get(instance, [])
        return self.closings.is_unsealed(instance, counted, self.final_ms(instance), now_ms)

    def state(self, span: Span | None, now_ms: int) -> str:
        """Return the state of a period. `span` is None for a window that has only one period, which
        has no label."""
        end_ms = self.ends_ms if span is None else span.end_ms
        if end_ms is None or now_ms < end_ms:
            return "open"
        instance = None if span is None else span.label
        final_ms = self.final_ms(instance)
        assert final_ms is not None, "the period has ended"
        counted = self.closing(now_ms).get(instance, [])
        return self.closings.state(instance, counted, final_ms, now_ms)

    def readable(self, now_ms: int) -> list[Counted]:
        """Return the events of all rankings that are readable now or will be later."""
        return [
            event
            for instance, counted in self.counted.items()
            if self.shows(instance, now_ms)
            for event in counted
            if self.closings.holds(instance, event.member)
        ]

    def refresh(self, now_ms: int) -> bool:
        """Refresh the window if a refresh is due at the time of a commit. Return whether it was
        refreshed."""
        return False

    def shows(self, instance: Instance, now_ms: int) -> bool:
        """Return whether events of a period or step are in a readable ranking."""
        return True

    def kept(self, now_ms: int) -> list[Span]:
        """Return the readable periods that have a label, newest first."""
        return []

    def listed(self, now_ms: int) -> list[Span]:
        """Return the periods that have a label and are kept or not sealed yet, newest first."""
        return self.kept(now_ms)

    def depth(self, now_ms: int) -> int:
        """Return the number of periods or steps whose events are readable."""
        return len(self.kept(now_ms))

    def back(self, by: int, now_ms: int) -> Span:
        """Return the period or step that is `by` periods or steps before the running one."""
        return self.kept(now_ms)[by]

    def resolve(self, period: str | None, now_ms: int) -> str | None:
        """Return the label of the requested period, by default the current one. Raise an error if
        the period is not readable."""
        if period is not None:
            raise Refusal("unknown_period")
        return None

    def begin(self, now_ms: int) -> None:
        """Begin to count at `now_ms`. This is called for a window that was added to an existing
        board."""

    def change(self, window: OracleWindow, now_ms: int) -> None:
        """Apply the settings of a new definition. A period that has already expired stays
        unreadable."""
        self.closings.change(window.closings, now_ms)
        self.ends_ms, self.misses = window.ends_ms, window.misses


class DecayWindow(OracleWindow):
    """A window that counts all events, and whose scores lose half of their value with every
    half-life."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        super().__init__(window, board)
        self.half_life_ms = duration_ms(window.half_life)

    def seen(self, event: Counted, now_ms: int) -> Counted:
        as_of_ms = now_ms if self.ends_ms is None else min(now_ms, self.ends_ms)
        return replace(event, decay=(self.half_life_ms, as_of_ms))

    def events(self, label: str | None, now_ms: int) -> list[Counted]:
        return [self.seen(event, now_ms) for event in super().events(label, now_ms)]


class CalendarWindow(OracleWindow):
    """A window with a new ranking for every period, which keeps the last few periods."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        super().__init__(window, board)
        week_start = window.week_start or board.week_start
        self.calendar = Calendar(window.unit, window.tz or board.tz, week_start)
        self.grace_ms = duration_ms(window.grace or board.grace)
        self.keep = window.keep or board.keep

    def instance(self, at_ms: int) -> Instance:
        return span_at(self.calendar, at_ms).label

    def section(self, now_ms: int) -> object:
        # An event is still in time in the last millisecond of the grace, and late one millisecond
        # later.
        late = self.instance(max(FIRST_MS, now_ms - self.grace_ms - 1))
        return super().section(now_ms), self.instance(self.until(now_ms)), late

    def takes(self, at_ms: int, now_ms: int) -> bool:
        span = self.cut_off(span_at(self.calendar, at_ms))
        return (
            super().takes(at_ms, now_ms)
            and span in self.kept(now_ms)
            and now_ms - span.end_ms <= self.grace_ms
        )

    def label(self, at_ms: int, now_ms: int) -> str | None:
        return span_at(self.calendar, at_ms).label

    def shows(self, instance: Instance, now_ms: int) -> bool:
        kept = instance in [span.label for span in self.kept(now_ms)]
        return kept or self.is_unsealed(instance, now_ms)

    def kept(self, now_ms: int) -> list[Span]:
        spans = [self.cut_off(span_at(self.calendar, self.until(now_ms)))]
        before = span_at(self.calendar, spans[-1].start_ms - 1)
        while len(spans) < self.keep or self._is_in_grace(before, now_ms):
            spans.append(before)
            before = span_at(self.calendar, spans[-1].start_ms - 1)
        return [span for span in spans if span.start_ms >= self.floor_ms]

    def _is_in_grace(self, span: Span, now_ms: int) -> bool:
        """Return whether a window with an archive keeps a period because the grace of this period
        is not over."""
        return (
            self.closings.archive
            and not self.is_over(now_ms)
            and now_ms - span.end_ms <= self.grace_ms
        )

    def start_ms(self, instance: Instance) -> int:
        assert isinstance(instance, str)
        return self._named(instance).start_ms

    def final_ms(self, instance: Instance) -> int | None:
        assert isinstance(instance, str)
        return self._named(instance).end_ms + self.grace_ms + 1

    def _named(self, label: str) -> Span:
        named = span_named(self.calendar, label)
        assert named is not None, "the label is that of a period"
        return self.cut_off(named)

    def listed(self, now_ms: int) -> list[Span]:
        kept = self.kept(now_ms)
        labels = [label for label in self.counted if isinstance(label, str)]
        unsealed = [self._named(label) for label in labels if self.is_unsealed(label, now_ms)]
        spans = {span.start_ms: span for span in [*unsealed, *kept]}
        return [spans[start_ms] for start_ms in sorted(spans, reverse=True)]

    def resolve(self, period: str | None, now_ms: int) -> str | None:
        kept = self.kept(now_ms)
        if period is None:
            return kept[0].label
        named = span_named(self.calendar, period)
        if named is None:
            raise Refusal("unknown_period")
        span = self.cut_off(named)
        if span.start_ms > kept[0].start_ms:
            raise Refusal("period_future")
        is_stored = self.is_unsealed(span.label, now_ms) or span.label in self.closings.archived
        if span not in kept and not is_stored:
            raise Refusal("period_expired")
        return span.label

    def begin(self, now_ms: int) -> None:
        self.floor_ms = span_at(self.calendar, self.until(now_ms)).start_ms

    def change(self, window: OracleWindow, now_ms: int) -> None:
        assert isinstance(window, CalendarWindow)
        self.floor_ms = self.kept(now_ms)[-1].start_ms
        super().change(window, now_ms)
        self.keep = window.keep


class RollingWindow(OracleWindow):
    """A window that counts the events of the last steps together, including the running step."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        super().__init__(window, board)
        span_ms, step_ms = duration_ms(window.span), duration_ms(window.step)
        self.cut = Steps(window.step, window.tz or board.tz)
        self.steps = span_ms // step_ms
        self.grace_ms = min(duration_ms(window.grace or board.grace), span_ms - step_ms)
        self.intervals = Intervals(window.archive_every or "1m", window.tz or board.tz)
        self.advanced = -(2**62)
        """The last step that has ended at the time of the last change."""

    def instance(self, at_ms: int) -> int:
        return number_at(self.cut, at_ms)

    def numbers(self, now_ms: int) -> range:
        """Return the numbers of the steps that count at `now_ms`. The last one is the running
        step."""
        running = number_at(self.cut, self.until(now_ms))
        return range(running - self.steps + 1, running + 1)

    def section(self, now_ms: int) -> object:
        late = self.instance(max(FIRST_MS, now_ms - self.grace_ms - 1))
        return super().section(now_ms), self.instance(now_ms), late

    def takes(self, at_ms: int, now_ms: int) -> bool:
        number = self.instance(at_ms)
        step = self.cut_off(step_span(self.cut, number))
        of_board = super().takes(at_ms, now_ms)
        early = of_board and now_ms - step.end_ms <= self.grace_ms
        return number in self.numbers(now_ms) and early and step.start_ms >= self.floor_ms

    def label(self, at_ms: int, now_ms: int) -> str | None:
        return self.kept(now_ms)[0].label

    def events(self, label: str | None, now_ms: int) -> list[Counted]:
        running = self.numbers(now_ms)[-1]
        is_running = label is None or label == step_span(self.cut, running).label
        if is_running and label not in self.closings.closed:
            return self._within(running)
        return self.closing(now_ms).get(label, [])

    def _within(self, last: int) -> list[Counted]:
        """Return the events that count while the step `last` is running."""
        counting = range(last - self.steps + 1, last + 1)
        return [e for number, events in self.counted.items() if number in counting for e in events]

    def shows(self, instance: Instance, now_ms: int) -> bool:
        return instance in self.numbers(now_ms)

    # What is archived

    def advance(self, now_ms: int) -> None:
        """Keep what the window showed right before the ends of the archived steps that have ended
        since the last change. At the end of the board, keep what it shows after the grace."""
        running = self.numbers(now_ms)[-1]
        if self.is_over(now_ms):
            self.shown.setdefault(step_span(self.cut, running).label, self._within(running))
        if running - 1 <= self.advanced:
            return
        steps = {
            last
            for number in self.counted
            if isinstance(number, int)
            for last in range(max(number, self.advanced + 1), min(number + self.steps, running))
        }
        for last in steps:
            if self._is_archived(step_span(self.cut, last)):
                self.shown[step_span(self.cut, last).label] = self._within(last)
        self.advanced = running - 1

    def go_back(self, now_ms: int) -> None:
        running = self.numbers(now_ms)[-1]
        last = running if self.is_over(now_ms) else running - 1
        self.shown = {
            label: counted
            for label, counted in self.shown.items()
            if label in self.closings.closed or self.instance(self.start_ms(label)) <= last
        }
        self.advanced = min(self.advanced, running - 1)

    def _is_archived(self, step: Span) -> bool:
        return self.intervals.number(step.end_ms) > self.intervals.number(step.start_ms)

    def _is_last(self, step: Span) -> bool:
        return self.ends_ms is not None and step.end_ms >= self.ends_ms

    def closing(self, now_ms: int) -> Mapping[Instance, list[Counted]]:
        self.advance(now_ms)
        running = self.numbers(now_ms)[-1]
        step = step_span(self.cut, running)
        return (
            {step.label: self._within(running), **self.shown} if self._is_last(step) else self.shown
        )

    def start_ms(self, instance: Instance) -> int:
        return self._named(instance).start_ms

    def final_ms(self, instance: Instance) -> int | None:
        step = self.cut_off(self._named(instance))
        is_boundary = self.closings.archive and not self._is_last(step)
        return step.end_ms if is_boundary else step.end_ms + self.grace_ms + 1

    def _named(self, label: Instance) -> Span:
        assert isinstance(label, str)
        number = number_named(self.cut, label)
        assert number is not None, "the label is that of a step"
        return step_span(self.cut, number)

    def listed(self, now_ms: int) -> list[Span]:
        running = self.kept(now_ms)
        unsealed = [
            label
            for label in self.closing(now_ms)
            if label != running[0].label and self.is_unsealed(label, now_ms)
        ]
        unsealed.sort(key=self.start_ms, reverse=True)
        return [*running, *map(self._shown_span, unsealed)]

    def _shown_span(self, label: Instance) -> Span:
        step = self._named(label)
        oldest = step_span(self.cut, self.instance(step.start_ms) - self.steps + 1)
        return Span(step.label, oldest.start_ms, step.end_ms)

    def readable(self, now_ms: int) -> list[Counted]:
        unsealed = [
            event
            for label, counted in self.closing(now_ms).items()
            if self.is_unsealed(label, now_ms)
            for event in counted
            if self.closings.holds(label, event.member)
        ]
        return [*super().readable(now_ms), *unsealed]

    def remove(self, member: str, now_ms: int) -> bool:
        if self.is_over(now_ms) and self.kept(now_ms)[0].label in self.closings.closed:
            return False
        return super().remove(member, now_ms)

    def kept(self, now_ms: int) -> list[Span]:
        """Return the only ranking of the window. Its label is that of the running step, and it
        begins at the start of the oldest counted step."""
        numbers = self.numbers(now_ms)
        oldest, running = step_span(self.cut, numbers[0]), step_span(self.cut, numbers[-1])
        return [Span(running.label, oldest.start_ms, self.cut_off(running).end_ms)]

    def depth(self, now_ms: int) -> int:
        return self.steps

    def back(self, by: int, now_ms: int) -> Span:
        """Return the step that is `by` steps before the running one. If `by` is negative, return a
        later step."""
        return step_span(self.cut, self.instance(now_ms) - by)

    def resolve(self, period: str | None, now_ms: int) -> str | None:
        running = self.numbers(now_ms)[-1]
        number = running if period is None else number_named(self.cut, period)
        if number is None:
            raise Refusal("unknown_period")
        label = step_span(self.cut, number).label
        is_stored = self.is_unsealed(label, now_ms) or label in self.closings.archived
        if number > running or (number < running and not is_stored):
            raise Refusal("period_future" if number > running else "period_expired")
        return label

    def change(self, window: OracleWindow, now_ms: int) -> None:
        assert isinstance(window, RollingWindow)
        self.advance(now_ms)
        if window.ends_ms != self.ends_ms:
            self.shown = {
                label: counted
                for label, counted in self.shown.items()
                if label in self.closings.closed or not self._is_last(self._named(label))
            }
        super().change(window, now_ms)
        self.intervals = window.intervals

    def begin(self, now_ms: int) -> None:
        self.floor_ms = step_span(self.cut, self.instance(self.until(now_ms))).start_ms


class RefreshedWindow(RollingWindow):
    """A rolling window that shows the events that its last refresh has counted.

    The first commit at or after a multiple of the interval refreshes the window, after its own
    writes. The first refresh is due at once. If a refresh finds no member, no further refresh
    happens until an event is counted.
    """

    def __init__(self, window: WindowDef, board: Definition) -> None:
        super().__init__(window, board)
        self.refreshes = Intervals(window.refresh or "", window.tz or board.tz)
        self.published: list[Counted] = []
        self.refreshed_ms: int | None = None
        self.waiting = False

    def _as_of(self, now_ms: int) -> int:
        return now_ms if self.refreshed_ms is None else self.refreshed_ms

    def events(self, label: str | None, now_ms: int) -> list[Counted]:
        return self.published

    def judged(self, at_ms: int, now_ms: int) -> list[Counted]:
        return self.counted.get(self.instance(at_ms), [])

    def readable(self, now_ms: int) -> list[Counted]:
        return [*super().readable(now_ms), *self.published]

    def count(self, event: Counted) -> None:
        super().count(event)
        self.waiting = True

    def remove(self, member: str, now_ms: int) -> bool:
        ranked = ranks(self.published, member)
        super().remove(member, now_ms)
        self.published = without(self.published, member)
        return ranked

    def clear(self) -> None:
        super().clear()
        self.published, self.waiting = [], False

    def restore(self, board: Definition) -> None:
        super().restore(board)
        self.refreshed_ms = None

    def refresh(self, now_ms: int) -> bool:
        last_ms = self.refreshed_ms
        due = last_ms is None or self.refreshes.number(now_ms) > self.refreshes.number(last_ms)
        if self.waiting and due:
            self.published = self._within(self.numbers(now_ms)[-1])
            self.refreshed_ms = now_ms
            self.waiting = any(event.scopes for event in self.published)
            return True
        return False

    def kept(self, now_ms: int) -> list[Span]:
        return super().kept(self._as_of(now_ms))

    def resolve(self, period: str | None, now_ms: int) -> str | None:
        return super().resolve(period, self._as_of(now_ms))
