"""One board of the oracle: every event a window counted, and rankings by sorting them anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from math import ceil

from tests.calendar_by_scanning import Calendar, Span, span_at, span_named
from tests.definitions import (
    Accepted,
    Card,
    Counted,
    Definition,
    Place,
    Refusal,
    Row,
    Score,
    Verdict,
    WindowDef,
    duration_ms,
)
from tests.oracle_forms import FIRST_MS


class OracleWindow:
    """A window of a board: the events counted in each of its periods."""

    def __init__(self, window: WindowDef, board: Definition) -> None:
        week_start = window.week_start or board.week_start
        calendar = Calendar(window.unit, window.tz or board.tz, week_start)
        self.calendar = None if window.unit == "all" else calendar
        self.grace_ms = duration_ms(window.grace or board.grace)
        self.keep = window.keep or board.keep
        self.floor_ms = FIRST_MS
        self.counted: dict[str | None, list[Counted]] = {}

    def label(self, at_ms: int) -> str | None:
        return None if self.calendar is None else span_at(self.calendar, at_ms).label

    def kept(self, now_ms: int) -> list[Span]:
        """The readable periods of a calendar window, newest first."""
        if self.calendar is None:
            return []
        spans = [span_at(self.calendar, now_ms)]
        while len(spans) < self.keep:
            spans.append(span_at(self.calendar, spans[-1].start_ms - 1))
        return [span for span in spans if span.start_ms >= self.floor_ms]

    def readable(self, label: str | None, now_ms: int) -> bool:
        return self.calendar is None or label in [span.label for span in self.kept(now_ms)]

    def takes(self, at_ms: int, now_ms: int) -> bool:
        """Whether an event of `at_ms` that arrives at `now_ms` is early enough."""
        if self.calendar is None:
            return True
        span = span_at(self.calendar, at_ms)
        return span in self.kept(now_ms) and now_ms - span.end_ms <= self.grace_ms

    def asked(self, period: str | None, now_ms: int) -> str | None:
        """The label a question is about, by default the current period's."""
        if self.calendar is None:
            if period is None:
                return None
            raise Refusal("unknown_period")
        kept = self.kept(now_ms)
        if period is None:
            return kept[0].label
        span = span_named(self.calendar, period)
        if span is None:
            raise Refusal("unknown_period")
        if span.start_ms > kept[0].start_ms:
            raise Refusal("period_future")
        if span not in kept:
            raise Refusal("period_expired")
        return span.label


class OracleBoard:
    """One board: its definition, its windows, the ids it remembers, its members' data."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.windows = {w.called: OracleWindow(w, definition) for w in definition.windows}
        self.accepted: dict[tuple[str, str], int] = {}
        self.profiles: dict[str, object] = {}
        self.orders = 0

    def change(self, definition: Definition, now_ms: int) -> None:
        """Another title, other `keep`s, more windows; what is not there by now never is."""
        self.definition = definition
        for window in definition.windows:
            fresh = OracleWindow(window, definition)
            known = self.windows.setdefault(window.called, fresh)
            if known.calendar is None:
                continue
            if known is fresh:
                known.floor_ms = span_at(known.calendar, now_ms).start_ms
            else:
                known.floor_ms = known.kept(now_ms)[-1].start_ms
                known.keep = fresh.keep

    def window(self, name: str | None) -> OracleWindow:
        """A window by name, by default the first."""
        name = next(iter(self.windows)) if name is None else name
        if name not in self.windows:
            raise Refusal("unknown_window")
        return self.windows[name]

    # The order of members

    def direct(self, score: Score) -> Score:
        """A score, or its first columns, turned so that less is better."""
        columns = self.definition.columns
        return tuple(
            -part if column.order == "desc" else part
            for part, column in zip(score, columns, strict=False)
        )

    def key(self, row: Row) -> tuple[Score, int, bytes]:
        """Ascending is standing order."""
        turned = {"first": row.stamp, "last": -row.stamp, "member": 0}[self.definition.tie]
        return self.direct(row.score), turned, row.member.encode()

    def row(self, counted: Iterable[Counted], member: str) -> Row | None:
        """What these events make of a member; None when none of them is the member's."""
        own = [event for event in counted if event.member == member]
        return self._row(own) if own else None

    def _row(self, own: Iterable[Counted]) -> Row:
        own = sorted(own, key=lambda event: (event.at_ms, event.order))
        if self.definition.best:
            score = min((event.values for event in own), key=self.direct)
            reached_ms = min(event.at_ms for event in own if event.values == score)
        else:
            score = tuple(
                sum(event.values[i] for event in own) if column.op == "sum" else own[-1].values[i]
                for i, column in enumerate(self.definition.columns)
            )
            reached_ms = own[-1].at_ms
        return Row(own[0].member, score, reached_ms // duration_ms(self.definition.tie_resolution))

    def placed(self, rows: Iterable[Row]) -> list[Place]:
        """Rows in standing order with their ranks in the board's style."""
        places: list[Place] = []
        for position, row in enumerate(sorted(rows, key=self.key), start=1):
            rank = position
            if places and self.definition.rank != "ordinal":
                before = places[-1]
                step = {"competition": position, "dense": before.rank + 1}[self.definition.rank]
                rank = before.rank if before.score == row.score else step
            places.append(Place(row, position, rank))
        return places

    def ranking(self, window: OracleWindow, label: str | None) -> list[Place]:
        """The members of one window in one period."""
        own: dict[str, list[Counted]] = {}
        for event in window.counted.get(label, []):
            own.setdefault(event.member, []).append(event)
        return self.placed(map(self._row, own.values()))

    def card(self, places: Sequence[Place], member: str) -> Card | None:
        """A member's standing in a ranking, None when it is not ranked."""
        i = next((i for i, place in enumerate(places) if place.member == member), None)
        if i is None:
            return None
        own = places[i]
        above = places[i - 1] if i > 0 else None
        below = places[i + 1] if i + 1 < len(places) else None
        return Card(
            place=own,
            total=len(places),
            above=None if above is None else (above, self.gap(above.score, own.score)),
            below=None if below is None else (below, self.gap(own.score, below.score)),
            percent=Fraction(100 * own.position, len(places)),
        )

    def around(self, places: Sequence[Place], member: str, radius: int) -> list[Place] | None:
        """The 2r+1 entries around a member, shifted at the ends."""
        own = next((place for place in places if place.member == member), None)
        if own is None:
            return None
        size = min(2 * radius + 1, len(places))
        start = max(0, min(own.position - 1 - radius, len(places) - size))
        return list(places[start : start + size])

    def gap_to_rank(self, places: Sequence[Place], member: str, rank: int) -> Score:
        """How far a ranked member is behind the ordinal position `rank`."""
        own = next(place for place in places if place.member == member)
        aim = own if own.position <= rank or rank > len(places) else places[rank - 1]
        return self.gap(aim.score, own.score)

    def friends(self, places: Sequence[Place], members: Iterable[str]) -> list[tuple[Place, Place]]:
        """Those ranked, in standing order: the place in the ranking and among themselves."""
        asked = set(members)
        found = [place for place in places if place.member in asked]
        return list(zip(found, self.placed(place.row for place in found), strict=True))

    def between(
        self, places: Sequence[Place], low: Score | None, high: Score | None
    ) -> list[Place]:
        """Those whose score, or its first columns, lies between two bounds, inclusive."""
        descending = self.definition.columns[0].order == "desc"
        first, last = (high, low) if descending else (low, high)
        if first is not None and last is not None:
            shared = min(len(first), len(last))
            if self.direct(first[:shared]) > self.direct(last[:shared]):
                first, last = last, first

        def inside(score: Score) -> bool:
            early = first is not None and self.direct(score[: len(first)]) < self.direct(first)
            late = last is not None and self.direct(score[: len(last)]) > self.direct(last)
            return not early and not late

        return [place for place in places if inside(place.score)]

    def at_percentile(self, places: Sequence[Place], percentile: Fraction) -> Score | None:
        """The nearest-rank percentile, counted from the worst up."""
        if not places:
            return None
        return places[-max(1, ceil(percentile * len(places) / 100))].score

    def gap(self, better: Score, worse: Score) -> Score:
        """What the better one is ahead by, column by column."""
        return self.direct(tuple(w - b for b, w in zip(better, worse, strict=True)))

    # How an event counts

    def remembered(self, now_ms: int) -> list[tuple[str, str]]:
        """The event ids that are not forgotten yet."""
        dedupe_ms = duration_ms(self.definition.dedupe)
        return [key for key, since_ms in self.accepted.items() if now_ms - since_ms < dedupe_ms]

    def fold(self, event: Accepted, now_ms: int) -> Verdict:
        """Decides about one event in the order of the log, and counts it."""
        late = [n for n, w in self.windows.items() if not w.takes(event.at_ms, now_ms)]
        taking = [window for name, window in self.windows.items() if name not in late]
        verdict = partial(Verdict, event.member, refused_windows=tuple(late))
        remembered = self.remembered(now_ms)
        if event.id is not None and (event.member, event.id) in remembered:
            return verdict("duplicate")
        if not taking:
            return verdict("refused", "too_late")
        if event.id is not None and len(remembered) >= self.definition.dedupe_max:
            return verdict("refused", "dedupe_full")
        self.orders += 1
        counted = Counted(event.member, self._values(event), event.at_ms, self.orders)
        lists = [w.counted.setdefault(w.label(event.at_ms), []) for w in taking]
        before = [self.row(events, event.member) for events in lists]
        after = [self.row([*events, counted], event.member) for events in lists]
        if any(row is None or self._outside(row.score) for row in after):
            return verdict("refused", "total_out_of_range")
        for events in lists:
            events.append(counted)
        if event.id is not None:
            self.accepted[event.member, event.id] = now_ms
        return verdict("applied" if self._changed(before, after) else "unchanged")

    def _values(self, event: Accepted) -> Score:
        if not event.absolute or all(column.op != "sum" for column in self.definition.columns):
            return event.values
        every = next(window for window in self.windows.values() if window.calendar is None)
        row = self.row(every.counted.get(None, []), event.member)
        return tuple(
            target - row.score[i] if row and column.op == "sum" else target
            for i, (target, column) in enumerate(
                zip(event.values, self.definition.columns, strict=True)
            )
        )

    def _outside(self, score: Score) -> bool:
        columns = self.definition.columns
        return any(not c.low <= part <= c.high for part, c in zip(score, columns, strict=True))

    def _changed(self, before: Sequence[Row | None], after: Sequence[Row | None]) -> bool:
        stamped = self.definition.tie != "member"
        return any(
            old is None
            or new is None
            or old.score != new.score
            or (stamped and old.stamp != new.stamp)
            for old, new in zip(before, after, strict=True)
        )
