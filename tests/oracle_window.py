"""The window `all` of the oracle, and what all its windows have in common: which events count
together, at which time, and for how long.

A window keeps every event that it ever counted, in a list for each period or step. Each query
computes the content of a ranking anew from these lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tests.calendar_by_scanning import Span
from tests.definitions import Counted, Definition, Refusal, WindowDef, duration_ms
from tests.oracle_closing import Closings, Instance, Ranked
from tests.oracle_forms import FIRST_MS
from tests.prize_definitions import PrizesDef


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
