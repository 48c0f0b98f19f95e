"""Rolling windows in their simplest form: every event is kept, and every answer is computed from
all events. The engine's rolling sets are compared with them.

The end of a step needs no code here. Whatever the running step is, the entries of a window are
folded again from the events of the steps that the window then has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from laurels.engine.batch.fold import APPLIED, BEST, LAST, OUT_OF_RANGE, SUM, UNCHANGED
from tests.engine.plain import Row


class Kept(NamedTuple):
    """The entry of a member in a window or step; columns are signed words."""

    columns: Row
    stamp: int
    newest_at: int


class Counted(NamedTuple):
    """A counted event. For an absolute event, the values of sum columns are differences."""

    values: Row
    at: int
    stamp: int


@dataclass(frozen=True)
class Roll:
    """A rolling window with a number of steps of `step_ms` each."""

    steps: int
    step_ms: int

    def number_at(self, at: int) -> int:
        return at // self.step_ms

    def takes(self, at: int, now: int) -> bool:
        return self.number_at(now) - self.steps < self.number_at(at) <= self.number_at(now)


@dataclass
class Event:
    member: int
    values: Row
    at: int
    absolute: bool = False
    skipped: bool = False


def step_bound(low: int, high: int, steps: int) -> tuple[int, int]:
    """Return the lowest and the highest total that one step may have. With these bounds, a window
    whose total is within the range stays within it when its oldest steps leave."""
    limit = 2**53 - 1
    if low >= 0:
        return low, min(high, limit // steps)
    if high <= 0:
        return max(low, -(limit // steps)), high
    return -(-low // steps), high // steps


@dataclass
class PlainBoard:
    """The events of a board, and its windows. A window is a Roll, or None for the window over all
    events."""

    ops: Sequence[int]
    lows: Sequence[int]
    highs: Sequence[int]
    tie: int
    resolution: int
    windows: Sequence[Roll | None]
    events: dict[int, list[Counted]] = field(default_factory=dict)

    def events_of(self, window: int, member: int, now: int) -> list[Counted]:
        """Return the events of a member that count in a window at `now`, in the order in which they
        were counted."""
        roll = self.windows[window]
        events = self.events.get(member, [])
        return [e for e in events if roll is None or roll.takes(e.at, now)]

    def kept(self, window: int, member: int, now: int) -> Kept | None:
        return self.fold(self.events_of(window, member, now))

    def live(self, window: int, now: int) -> dict[int, Kept]:
        """Return the entries of all members in a window."""
        kept = {member: self.kept(window, member, now) for member in self.events}
        return {member: one for member, one in kept.items() if one is not None}

    def newest(self, window: int, member: int, now: int) -> int:
        """Return the newest step in which a member has an event."""
        roll = self.windows[window]
        assert roll is not None
        return max(roll.number_at(e.at) for e in self.events_of(window, member, now))

    def fold(self, events: Sequence[Counted]) -> Kept | None:
        """Return the entry that results from these events, None if there are none."""
        if not events:
            return None
        newest_at = max(event.at for event in events)
        if BEST in self.ops:
            best = min(event.values for event in events)
            return Kept(best, min(e.stamp for e in events if e.values == best), newest_at)
        last = max(enumerate(events), key=lambda one: (one[1].at, one[0]))[1]
        columns = tuple(
            sum(event.values[i] for event in events) if op == SUM else last.values[i]
            for i, op in enumerate(self.ops)
        )
        return Kept(columns, max(event.stamp for event in events), newest_at)

    def cells(self, window: int, member: int, now: int) -> dict[int, Row]:
        """Return the cells of a member by step. A cell is the entry that results from the events of
        its step alone. With a best column, a cell is left out if a later step has a better score.
        The other cells then also have the numbers of steps to the previous and to the next cell, or
        0 if there is none."""
        roll = self.windows[window]
        assert roll is not None
        by_step: dict[int, list[Counted]] = {}
        for event in self.events_of(window, member, now):
            by_step.setdefault(roll.number_at(event.at), []).append(event)
        folded = {step: self.fold(events) for step, events in sorted(by_step.items())}
        kept = {step: one for step, one in folded.items() if one is not None}
        if BEST not in self.ops:
            return {step: self.row(one) for step, one in kept.items()}
        steps = [
            step
            for step, one in kept.items()
            if all(later <= step or one.columns <= kept[later].columns for later in kept)
        ]
        gaps = [0, *[after - step for step, after in pairwise(steps)], 0]
        links = pairwise(gaps)
        return {
            step: (*self.row(kept[step]), *link) for step, link in zip(steps, links, strict=False)
        }

    def row(self, kept: Kept) -> Row:
        """Return the words of an entry or a cell."""
        stamped = LAST in self.ops and (self.tie == 0 or self.resolution != 1)
        tie = (self.tie * kept.stamp,) if self.tie else ()
        return (*kept.columns, *tie, *((kept.newest_at,) if stamped else ()))

    def count(self, event: Event, now: int) -> int:
        """Count an event in all windows that take it or, if one of them refuses it, in none. Return
        its status."""
        taking = [i for i, roll in enumerate(self.windows) if not roll or roll.takes(event.at, now)]
        if not taking:
            return UNCHANGED
        values = self.relative(event, now)
        before = {window: self.kept(window, event.member, now) for window in taking}
        counted = Counted(values, event.at, event.at // self.resolution)
        if not self.is_in_range(counted, event.member, taking, now):
            return OUT_OF_RANGE
        self.events.setdefault(event.member, []).append(counted)
        after = {window: self.kept(window, event.member, now) for window in taking}
        changed = [
            self.visible_values(before[window]) != self.visible_values(after[window])
            for window in taking
        ]
        return APPLIED if any(changed) else UNCHANGED

    def visible_values(self, kept: Kept | None) -> tuple[Row, int] | None:
        """Return the columns and the stamp of an entry. If an event changes these in any window,
        its status is `applied`, otherwise `unchanged`."""
        return None if kept is None else (kept.columns, kept.stamp if self.tie else 0)

    def relative(self, event: Event, now: int) -> Row:
        """Return the values to add for an event. For an absolute event, the value of a sum column
        becomes the difference to the member's total in the window `all`."""
        if not event.absolute or None not in self.windows:
            return event.values
        kept = self.kept(list(self.windows).index(None), event.member, now)
        have = kept.columns if kept else (0,) * len(self.ops)
        return tuple(
            value - total if op == SUM else value
            for op, value, total in zip(self.ops, event.values, have, strict=True)
        )

    def is_in_range(self, event: Counted, member: int, taking: Iterable[int], now: int) -> bool:
        for i, (op, low, high) in enumerate(zip(self.ops, self.lows, self.highs, strict=True)):
            if op != SUM:
                if not low <= event.values[i] <= high:
                    return False
                continue
            for window in taking:
                roll = self.windows[window]
                events = self.events_of(window, member, now)
                if not low <= sum(e.values[i] for e in events) + event.values[i] <= high:
                    return False
                if roll is None:
                    continue
                step = roll.number_at(event.at)
                total = sum(e.values[i] for e in events if roll.number_at(e.at) == step)
                step_low, step_high = step_bound(low, high, roll.steps)
                if not step_low <= total + event.values[i] <= step_high:
                    return False
        return True
