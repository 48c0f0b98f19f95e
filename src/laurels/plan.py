"""The plan: which rankings a batch touches, and which a question reads. Pure.

A ranking is named by board, window and window instance. The plan of a batch says for each window
of the board what takes each event, by the event's `at`: in a calendar window the ranking of its
period, in a rolling one the tally of its step, from which the index keeps the ranking of the step
that runs. An index follows it without knowing what a period is. Periods, steps, lateness and
`keep` are judged here and nowhere else.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from .errors import PeriodExpired, PeriodFuture, UnknownPeriod, UnknownWindow
from .event import Batch
from .given import shown
from .periods import Period
from .rules import Rules
from .windows import MAX_MS, MIN_MS, All, Calendar, Decay, Rolling, Window

Floors = dict[str, int]
"""Per window: periods that began before this instant are gone, whatever `keep` says today."""


class RankingKey(NamedTuple):
    """Names one ranking, or the tally of a step.

    `instance` is the start of the period in milliseconds, in a rolling window the number of the
    step.
    """

    board: int
    window: str
    instance: int


class Target(NamedTuple):
    """A ranking or tally a batch touches and the period or step it stands for."""

    key: RankingKey
    period: Period


class Roll(NamedTuple):
    """Where a rolling window stands: how many steps it counts, and the ranking of the one that
    runs."""

    steps: int
    ranking: Target

    @property
    def running(self) -> int:
        """The number of the running step."""
        return self.ranking.key.instance


class Plan(Struct, frozen=True):
    """Where the events of one batch go.

    `routes` has one item per window of the board, in its order: an index into `targets` that
    holds for every event, or one index per event, -1 where the window refuses the event as too
    late. `rolls` says, in the same order, where a rolling window stands; None for another one.
    `late` are the events that every window refuses. `all_window` is the place of the window `all`
    in `routes`, -1 without one.
    """

    windows: tuple[str, ...]
    targets: tuple[Target, ...]
    routes: tuple["int | array[int]", ...]
    rolls: tuple[Roll | None, ...]
    late: tuple[int, ...]
    all_window: int

    def index_of(self, window: int, event: int) -> int:
        """The place in `targets` where the window at this place sends an event, -1 if nowhere."""
        route = self.routes[window]
        return route if isinstance(route, int) else route[event]

    def ranking(self, window: int, event: int) -> Target | None:
        """The ranking of the window at this place in which this event counts, None if refused."""
        index = self.index_of(window, event)
        if index < 0:
            return None
        roll = self.rolls[window]
        return self.targets[index] if roll is None else roll.ranking

    def late_by_window(self, size: int) -> list[tuple[str, int]]:
        """The windows that refuse events of a batch of this size as too late, and how many."""
        counts = [
            route.count(-1) if isinstance(route, array) else size if route < 0 else 0
            for route in self.routes
        ]
        return [(name, n) for name, n in zip(self.windows, counts, strict=True) if n]

    def taken(self, events: Sequence[int]) -> "Plan":
        """The plan of these events alone; its targets are those of the whole batch."""
        place = {event: i for i, event in enumerate(events)}
        return replace(
            self,
            routes=tuple(
                [
                    route if isinstance(route, int) else array("i", [route[i] for i in events])
                    for route in self.routes
                ]
            ),
            late=tuple([place[event] for event in self.late if event in place]),
        )

    def refused_by(self, event: int) -> tuple[str, ...]:
        """The names of the windows that refuse this event as too late."""
        return tuple(name for i, name in enumerate(self.windows) if self.index_of(i, event) < 0)


def plan_batch(rules: Rules, floors: Floors, batch: Batch) -> Plan:
    """The plan of a batch; O(windows) when its events share their periods, as they mostly do."""
    targets: list[Target] = []
    routes: list[int | array[int]] = []
    for window in rules.windows.values():
        routes.append(_route(window, floors.get(window.name, MIN_MS), batch, targets))
    late: tuple[int, ...] = ()
    if routes and all(_refuses(route) for route in routes):
        per_event = [_spread(route, batch.size) for route in routes]
        late = tuple(i for i, taken in enumerate(zip(*per_event, strict=True)) if max(taken) < 0)
    return Plan(
        windows=tuple(rules.windows),
        targets=tuple(targets),
        routes=tuple(routes),
        rolls=tuple(
            [roll_of(batch.board, window, batch.now_ms) for window in rules.windows.values()]
        ),
        late=late,
        all_window=all_window(rules),
    )


def roll_of(board: int, window: Window, now_ms: int) -> Roll | None:
    """Where a rolling window stands at `now_ms`; None for another kind."""
    if not isinstance(window, Rolling):
        return None
    step = window.period_at(now_ms)
    return Roll(window.steps, Target(ranking_key(board, window, step), step))


def ranking_key(board: int, window: Window, period: Period) -> RankingKey:
    """The name of what a window keeps for a period or step."""
    if isinstance(window, Rolling):
        return RankingKey(board, window.name, window.number_at(period.start_ms))
    return RankingKey(board, window.name, period.start_ms)


def all_window(rules: Rules) -> int:
    """The place of the window `all` among the board's windows, -1 without one."""
    for i, window in enumerate(rules.windows.values()):
        if isinstance(window, All):
            return i
    return -1


def can_set(rules: Rules) -> bool:
    """Whether a score can be set: the difference on a sum is taken from the window `all`."""
    return all_window(rules) >= 0 or all(column.op != "sum" for column in rules.columns)


def _refuses(route: "int | array[int]") -> bool:
    return route < 0 if isinstance(route, int) else -1 in route


def _spread(route: "int | array[int]", size: int) -> "Sequence[int]":
    return [route] * size if isinstance(route, int) else route


def _route(
    window: Window, floor_ms: int, batch: Batch, targets: list[Target]
) -> "int | array[int]":
    """Where one window sends the events of a batch; adds the rankings it needs to `targets`."""
    indexes: dict[int, int] = {}

    def index_of(at_ms: int) -> tuple[int, Period]:
        period = window.period_at(at_ms)
        if period.start_ms not in indexes:
            indexes[period.start_ms] = -1
            if takes(window, floor_ms, batch.now_ms, period):
                indexes[period.start_ms] = len(targets)
                targets.append(Target(ranking_key(batch.board, window, period), period))
        return indexes[period.start_ms], period

    if batch.ats is None:
        return index_of(batch.now_ms)[0]
    first, period = index_of(min(batch.ats, default=batch.now_ms))
    if max(batch.ats, default=batch.now_ms) < period.end_ms:
        return first
    return _route_each(batch.ats, index_of)


def _route_each(ats: "array[int]", index_of: Callable[[int], tuple[int, Period]]) -> "array[int]":
    """The index for each instant; each period is looked up once, however the instants jump."""
    route = array("i")
    starts: list[int] = []
    found: list[tuple[int, int]] = []  # the end of the period, and its index
    start_ms, end_ms, index = 0, 0, -1
    for at in ats:
        if not start_ms <= at < end_ms:
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= found[place][0]:
                index, period = index_of(at)
                place += 1
                starts.insert(place, period.start_ms)
                found.insert(place, (period.end_ms, index))
            start_ms = starts[place]
            end_ms, index = found[place]
        route.append(index)
    return route


def takes(window: Window, floor_ms: int, now_ms: int, period: Period) -> bool:
    """Whether a window still takes events of a period or step: kept, and grace is not over."""
    if isinstance(window, All | Decay):
        return True
    if now_ms < period.end_ms:
        return period.start_ms >= floor_ms
    late_ms = now_ms - period.end_ms
    return late_ms <= window.grace_ms and period.start_ms >= counted_from(window, floor_ms, now_ms)


def counted_from(window: Window, floor_ms: int, now_ms: int) -> int:
    """The start of the oldest period or step whose events a window still holds at `now_ms`."""
    if isinstance(window, All | Decay):
        return MIN_MS
    if isinstance(window, Rolling):
        return max(floor_ms, window.span(window.number_at(now_ms))[0])
    return max(floor_ms, window.oldest_kept(now_ms).start_ms)


def kept_from(window: Window, floor_ms: int, now_ms: int) -> int:
    """The start of the oldest period, or the running step, that can be read at `now_ms`."""
    if isinstance(window, Rolling):
        return window.period_at(now_ms).start_ms
    return counted_from(window, floor_ms, now_ms)


def kept_periods(window: Window, floor_ms: int, now_ms: int) -> list[Period]:
    """The periods that can be read at `now_ms`, newest first; of a rolling window its running
    step."""
    period = window.period_at(now_ms)
    kept = [period]
    if isinstance(window, Calendar):
        oldest_ms = kept_from(window, floor_ms, now_ms)
        while period.start_ms > oldest_ms:
            period = window.before(period)
            kept.append(period)
    return kept


def floor_after(window: Window, floor_ms: int, now_ms: int) -> int:
    """The floor of a window whose board changes: what is gone by now stays gone."""
    return floor_ms if isinstance(window, Rolling) else kept_from(window, floor_ms, now_ms)


def window_named(rules: Rules, name: str | None) -> Window:
    """The window of that name; None names the board's first."""
    if name is None:
        return next(iter(rules.windows.values()))
    try:
        return rules.windows[name]
    except (KeyError, TypeError):
        known = ", ".join(rules.windows)
        raise UnknownWindow(f"no window {shown(name)}: the board has {known}") from None


def readable(window: Window, floor_ms: int, now_ms: int, label: str | None) -> Period:
    """The period a question means: the one of that label, by default the running one."""
    running = window.period_at(now_ms)
    if label is None:
        return running
    if isinstance(window, All | Decay):
        raise UnknownPeriod(f"the window {window.name!r} has no periods")
    period = window.period(label)
    if period.start_ms > running.start_ms:
        raise PeriodFuture(f"{label} has not begun: the running period is {running.label}")
    if period.end_ms <= (oldest_ms := kept_from(window, floor_ms, now_ms)):
        oldest = window.period_at(oldest_ms).label
        raise PeriodExpired(f"{label} is no longer kept: the oldest kept is {oldest}")
    return period


def next_boundary(rules: Rules, now_ms: int) -> int:
    """The next instant at which a period or step of any window of the board ends."""
    return min((w.period_at(now_ms).end_ms for w in rules.windows.values()), default=MAX_MS)


def cut(rules: Rules, nows: Sequence[int]) -> list[int]:
    """Where to cut events in event time so that no part crosses a boundary.

    `nows` is the running latest `at`, not decreasing. Answers the end positions of the parts.
    """
    ends: list[int] = []
    start = 0
    while start < len(nows):
        start = bisect_left(nows, next_boundary(rules, nows[start]), start)
        ends.append(start)
    return ends
