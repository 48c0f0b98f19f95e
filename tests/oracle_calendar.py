"""The calendar windows of the oracle."""

from __future__ import annotations

from tests.calendar_by_scanning import Calendar, Span, span_at, span_named
from tests.definitions import Definition, Refusal, WindowDef, duration_ms
from tests.oracle_closing import Instance
from tests.oracle_forms import FIRST_MS
from tests.oracle_window import OracleWindow


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
