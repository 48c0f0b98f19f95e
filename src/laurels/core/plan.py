"""The plan of a batch: the rankings to which it writes. Pure.

A ranking is named by board, window and window instance. The plan of a batch gives, for each window
of the board, the target of each event by its `at`. In a calendar window the target is the ranking
of the event's period. In a rolling window it is the tally of the event's step; from the tallies the
index maintains the ranking of the running step. An index follows the plan without knowing what a
period is. Periods, steps, lateness and `keep` are decided here and nowhere else.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from laurels.engine.batch.packing import bounds
from laurels.model.batch import Batch
from laurels.model.labels import is_by
from laurels.model.rules import RankingSpec, Rules
from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

from .lifecycle import Floors, RollingState, next_boundary, rolling_state
from .ranking_key import RankingKey, Target, ranking_key

LATE, NO_SCOPE = -1, -2
"""Indexes for events without a target, because they are too late or lack the labels."""


class Plan(Struct, frozen=True, dict=True):
    """The targets of the events of one batch.

    - `specs`: the ranking specs of the board.
    - `routes`: one item for each ranking spec, in the same order. The item is an index into
      `targets` for all events, or one index for each event. The index is LATE if the window refuses
      the event, and NO_SCOPE if the event lacks the labels.
    - `rolling`: in the same order, the state of each rolling window for the scope of all events,
      and None for a window of another kind.
    - `late`: the indexes of the events that are refused as late in every ranking for which they
      have the labels.
    - `outside`: the indexes of those late events that are before the start or after the end of the
      board, which takes events from `starts_ms` to just before `ends_ms`.
    - `all_window`: the index in `routes` of the window `all` in the scope of all events, -1 without
      such a window.
    """

    specs: tuple[RankingSpec, ...]
    targets: tuple[Target, ...]
    routes: tuple["int | array[int]", ...]
    rolling: tuple[RollingState | None, ...]
    late: tuple[int, ...]
    all_window: int
    outside: frozenset[int] = frozenset()
    starts_ms: int = MIN_MS
    ends_ms: int = MAX_MS

    @property
    def scopes(self) -> set[str]:
        """The scopes in which events count."""
        return {target.key.scope for target in self.targets}

    @cached_property
    def rolls(self) -> tuple[RollingState | None, ...]:
        """The rolling window of each target; None if the target is the ranking of a period."""
        states = {roll.ranking.key.window: roll for roll in self.rolling if roll is not None}
        return tuple([states.get(target.key.window) for target in self.targets])

    def index_of(self, spec: int, event: int) -> int:
        """Return the index into `targets` for an event, negative if it has no target."""
        route = self.routes[spec]
        return route if isinstance(route, int) else route[event]

    def ranking(self, spec: int, event: int) -> Target | None:
        """Return the ranking in which an event counts for the ranking spec number `spec`, None if
        the event does not count there. For a rolling window, this is the ranking of the running
        step."""
        route = self.routes[spec]
        index = route if isinstance(route, int) else route[event]
        if index < 0:
            return None
        target, roll = self.targets[index], self.rolling[spec]
        return target if roll is None else roll.in_scope(target.key.scope)

    @cached_property
    def has_late(self) -> bool:
        """Whether any window refuses any event as too late."""
        return any(
            LATE in route if isinstance(route, array) else route == LATE for route in self.routes
        )

    def late_by_window(self, size: int) -> list[tuple[str, int]]:
        """Return each window that refuses events as too late, with the number of these events.
        Events before the start or after the end of the board do not count as too late. The batch
        has `size` events."""
        refused: dict[str, set[int]] = {}
        for spec, route in zip(self.specs, self.routes, strict=True):
            if route == LATE or (isinstance(route, array) and LATE in route):
                events = refused.setdefault(spec.window, set())
                per_event = enumerate(_per_event(route, size))
                events.update([event for event, index in per_event if index == LATE])
                events -= self.outside
        return [(window, len(events)) for window, events in refused.items() if events]

    def select(self, events: Sequence[int]) -> "Plan":
        """Return the plan of some of the events. It has the targets of the whole batch."""
        indexes = {event: i for i, event in enumerate(events)}
        return replace(
            self,
            routes=tuple(
                [
                    route if isinstance(route, int) else array("i", [route[i] for i in events])
                    for route in self.routes
                ]
            ),
            late=tuple([indexes[event] for event in self.late if event in indexes]),
            outside=frozenset([indexes[event] for event in self.outside if event in indexes]),
        )

    def without_labels(self) -> "Plan":
        """Return the plan without the rankings by a label, which are the last ones in the plan."""
        kept = [not spec.by for spec in self.specs].count(True)
        return replace(
            self,
            specs=self.specs[:kept],
            targets=tuple([target for target in self.targets if not is_by(target.key.scope)]),
            routes=self.routes[:kept],
            rolling=self.rolling[:kept],
        )

    def refused_by(self, event: int) -> tuple[str, ...]:
        """Return the names of the windows that refuse an event as too late."""
        if event in self.outside:
            return ()
        late = [p.window for i, p in enumerate(self.specs) if self.index_of(i, event) == LATE]
        return tuple(dict.fromkeys(late))


ClosedTest = Callable[[Window, Period], bool]
"""Returns whether a period of a window is closed."""


def plan_batch(
    rules: Rules,
    floors: Floors,
    batch: Batch,
    refreshed_steps: Mapping[str, Period] = {},
    is_closed: ClosedTest | None = None,
) -> Plan:
    """Return the plan of a batch. If the events share their periods and labels, which is the usual
    case, this takes O(ranking specs). `refreshed_steps` are the steps that refreshed windows show.
    Periods for which `is_closed` is true take no events.
    """
    specs, windows = rules.specs, rules.windows
    targets: list[Target] = []
    by_window: dict[str, tuple[int | array[int], list[Target]]] = {}
    routes: list[int | array[int]] = []
    scopes: dict[str, dict[int, str | None]] = {}
    for spec in specs:
        if spec.window not in by_window:
            periods: list[Target] = []
            floor_ms = floors.get(spec.window, MIN_MS)
            by_window[spec.window] = (
                _route(rules, windows[spec.window], floor_ms, batch, periods, is_closed),
                periods,
            )
        route, periods = by_window[spec.window]
        if not spec.name:
            routes.append(_shift_route(route, len(targets), len(periods)))
            targets += periods
        elif batch.labels is None:
            routes.append(NO_SCOPE)
        else:
            if spec.name not in scopes:
                scopes[spec.name] = batch.labels.scopes(spec)
            routes.append(
                _route_scopes(scopes[spec.name], batch.labels.each, route, periods, targets)
            )
    late: tuple[int, ...] = ()
    if routes and all(_refuses_any(route) for route in routes):
        per_event = [_per_event(route, batch.size) for route in routes]
        late = tuple(i for i, routed in enumerate(zip(*per_event, strict=True)) if max(routed) < 0)
    rolls = {
        name: rolling_state(batch.board, windows[name], batch.now_ms) for name in rules.rolling
    }
    for name, step in refreshed_steps.items():
        if (roll := rolls.get(name)) is not None:
            rolls[name] = roll._replace(shown=step)
    return Plan(
        specs=specs,
        targets=tuple(targets),
        routes=tuple(routes),
        rolling=tuple([rolls.get(spec.window) for spec in specs]),
        late=late,
        all_window=rules.all_window,
        outside=_outside(rules, batch),
        starts_ms=rules.starts_ms,
        ends_ms=rules.ends_ms,
    )


def _outside(rules: Rules, batch: Batch) -> frozenset[int]:
    """Return the events whose time is before the start of the board or not before its end. O(1) for
    a board without start and end."""
    starts_ms, ends_ms = rules.starts_ms, rules.ends_ms
    if starts_ms == MIN_MS and ends_ms == MAX_MS:
        return frozenset()
    if not batch.ats:
        inside = starts_ms <= batch.now_ms < ends_ms
        return frozenset() if inside else frozenset(range(batch.size))
    return frozenset([i for i, at in enumerate(batch.ats) if not starts_ms <= at < ends_ms])


def _shift_route(route: "int | array[int]", first: int, size: int) -> "int | array[int]":
    """Return a window's route with indexes into the list of all targets. The indexes in `route` are
    into the list of the window's own `size` targets, which begin at index `first` of the list of
    all targets."""
    if first == 0 or size == 0:
        return route
    if isinstance(route, int):
        return first + route if route >= 0 else route
    return array("i", [first + index if index >= 0 else index for index in route])


def _route_scopes(
    scopes: Mapping[int, str | None],
    groups: "array[int]",
    route: "int | array[int]",
    periods: Sequence[Target],
    targets: list[Target],
) -> "int | array[int]":
    """Return the route of a window for the scopes of some labels.

    The route has the index in `targets` of each event's target, or one index for all events; an
    index is negative if there is no target. New targets are appended to `targets`. `groups` has the
    number of each event's tuple of labels. For each number `scopes` has the scope, or None if these
    labels lack one that the scope needs. `route` is the route of the window without labels; its
    indexes are into `periods`."""
    indexes: dict[tuple[str, int], int] = {}

    def place_of(scope: str | None, index: int) -> int:
        if scope is None or index < 0:
            return NO_SCOPE if scope is None else index
        if (at := indexes.get((scope, index))) is None:
            at = indexes[scope, index] = len(targets)
            (board, window, instance, _), period = periods[index]
            targets.append(Target(RankingKey(board, window, instance, scope), period))
        return at

    if not isinstance(route, int):
        each = zip(groups, route, strict=True)
        return array("i", [place_of(scopes[group], index) for group, index in each])
    by_group = {group: place_of(scope, route) for group, scope in scopes.items()}
    if len(by_group) == 1:
        return next(iter(by_group.values()))
    return array("i", map(by_group.__getitem__, groups))


def _refuses_any(route: "int | array[int]") -> bool:
    """Return whether any event has no target."""
    return route < 0 if isinstance(route, int) else min(route, default=0) < 0


def _per_event(route: "int | array[int]", size: int) -> "Sequence[int]":
    return [route] * size if isinstance(route, int) else route


def _route(
    rules: Rules,
    window: Window,
    floor_ms: int,
    batch: Batch,
    targets: list[Target],
    is_closed: ClosedTest | None = None,
) -> "int | array[int]":
    """Return the route of one window for the events of a batch, and append the targets that it
    needs to `targets`."""
    indexes: dict[int, int] = {}

    def index_of(at_ms: int) -> tuple[int, Period]:
        """Return the index into `targets` for an instant, and a period whose instants all have this
        index."""
        if at_ms < rules.starts_ms:
            return LATE, Period("", MIN_MS, rules.starts_ms)
        if at_ms >= rules.ends_ms:
            return LATE, Period("", rules.ends_ms, MAX_MS)
        period = window.period_at(at_ms)
        if period.start_ms not in indexes:
            indexes[period.start_ms] = -1
            if _takes(rules, window, floor_ms, batch, period) and not (
                is_closed is not None and is_closed(window, period)
            ):
                indexes[period.start_ms] = len(targets)
                targets.append(Target(ranking_key(batch.board, window, period), period))
        index = indexes[period.start_ms]
        if period.start_ms < rules.starts_ms:
            return index, Period(period.label, rules.starts_ms, period.end_ms)
        return index, period

    if not batch.ats:
        return index_of(batch.now_ms)[0]
    least, most = bounds(batch.ats)
    first, period = index_of(least)
    if most < period.end_ms:
        return first
    return _route_each(batch.ats, index_of)


def _takes(rules: Rules, window: Window, floor_ms: int, batch: Batch, period: Period) -> bool:
    """Return whether events of a period or step are still accepted. For events from a stream, the
    time at which the stream took them decides; besides, the window must still keep the period now.
    A window that closes its periods keeps each period until the period is closed; a rolling window
    does not keep its steps that long."""
    if batch.judged_ms is None:
        return window.takes(floor_ms, batch.now_ms, period)
    return window.takes(floor_ms, batch.judged_ms, period) and (
        (window.name in rules.closing and not window.steps)
        or period.start_ms >= window.counted_from(floor_ms, batch.now_ms)
    )


def _route_each(ats: "array[int]", index_of: Callable[[int], tuple[int, Period]]) -> "array[int]":
    """Return the route for instants in any order; each period is looked up once."""
    route = array("i")
    starts: list[int] = []
    spans: list[tuple[int, int]] = []  # the end of each period, and its index
    start_ms, end_ms, index = 0, 0, -1
    for at in ats:
        if not start_ms <= at < end_ms:
            place = bisect_right(starts, at) - 1
            if place < 0 or at >= spans[place][0]:
                index, period = index_of(at)
                place += 1
                starts.insert(place, period.start_ms)
                spans.insert(place, (period.end_ms, index))
            start_ms = starts[place]
            end_ms, index = spans[place]
        route.append(index)
    return route


def plan_expiry(plan: Plan, rules: Rules, batch: Batch) -> int:
    """Return the instant at which a plan made at `batch.now_ms` becomes invalid: when the next
    period or step ends, or when the first of the targets accepts no more events (for events from a
    stream, `close_wait` after the end of its grace). O(targets) if events have times."""
    expiry_ms = next_boundary(rules, batch.now_ms)
    if batch.ats is None:
        return expiry_ms
    wait_ms = 0 if batch.judged_ms is None else rules.close_wait_ms
    for key, period in plan.targets:
        if period.end_ms <= batch.now_ms:
            until_ms = rules.windows[key.window].taken_until(period)
            expiry_ms = min(expiry_ms, until_ms + wait_ms + 1)
    return expiry_ms
