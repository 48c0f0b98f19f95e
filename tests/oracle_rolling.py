"""The rolling windows of the oracle, with and without a refresh."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from tests.calendar_by_scanning import Span, day_of
from tests.definitions import Counted, Definition, Refusal, WindowDef, duration_ms
from tests.oracle_closing import Instance
from tests.oracle_forms import FIRST_MS
from tests.oracle_window import OracleWindow, ranks, without
from tests.steps_by_scanning import Steps, number_at, number_named, step_span

DAY_MS = 86_400_000


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
