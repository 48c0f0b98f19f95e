"""The plan of events with labels: each event counts in exactly those scopes whose labels it has."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from laurels.core.plan import LATE, NO_SCOPE, Plan, plan_batch
from laurels.model.batch import Batch, batch_of
from laurels.model.board import Board
from laurels.model.event import EventReader
from laurels.model.labels import ALL, scope_named

NOON = 1_795_176_000_000  # 2026-11-20T12:00Z
HOUR = 3_600_000
BOARD = Board(
    "b",
    windows=["all", "hour", "3h=rolling:3h/1h"],
    scopes=[[], ["room"], ["room", "zone"]],
    rank_by=["room"],
    grace="1h",
    keep=2,
)
Carried = dict[str, str] | None


def planned(board: Board, events: Sequence[tuple[int | None, Carried]]) -> tuple[Batch, Plan]:
    """Return a batch and its plan. An event is given by its age in ms, or None for an event without
    a time, and by its labels."""
    rules = board.rules()
    timed = any(ago is not None for ago, _ in events)
    rows = [("ann", 1, NOON - (ago or 0) if timed else None, None, each) for ago, each in events]
    columns = EventReader(rules).gather(rows)
    assert not columns.errors
    batch = batch_of(columns, 7, NOON)
    return batch, plan_batch(rules, {}, batch)


def scopes_at(plan: Plan, event: int) -> dict[tuple[str, str], str | int]:
    """Return a dict whose keys are pairs of a window and the label names of a scope. The value is
    the text of the scope in which the event counts. If the event does not count there, the value is
    a negative number, which tells the reason."""
    counted: dict[tuple[str, str], str | int] = {}
    for place, at in enumerate(plan.specs):
        index = plan.index_of(place, event)
        counted[at.window, at.name] = index if index < 0 else plan.targets[index].key.scope
    return counted


def test_events_that_share_their_labels_share_their_routes() -> None:
    _, plan = planned(BOARD, [(None, {"room": "1"})] * 3)
    assert all(isinstance(route, int) for route in plan.routes)
    assert plan.scopes == {ALL, "room=1", "@room"}
    assert plan.late == ()
    assert scopes_at(plan, 2) == {
        (window, name): {"": ALL, "room": "room=1", "room,zone": NO_SCOPE, "@room": "@room"}[name]
        for window in ("all", "hour", "3h")
        for name in ("", "room", "room,zone", "@room")
    }


def test_events_without_labels_count_only_in_the_scope_of_all_events() -> None:
    _, plan = planned(BOARD, [(None, None), (HOUR, None)])
    assert plan.scopes == {ALL}
    assert [plan.index_of(place, 0) for place in range(3, 12)] == [NO_SCOPE] * 9


def test_a_rolling_window_and_its_target_have_the_same_scope() -> None:
    _, plan = planned(BOARD, [(None, {"room": "1"}), (HOUR, {"room": "2"})])
    at = plan.specs.index(next(p for p in plan.specs if (p.window, p.name) == ("3h", "room")))
    for event, scope in enumerate(("room=1", "room=2")):
        target, ranking = plan.targets[plan.index_of(at, event)], plan.ranking(at, event)
        assert ranking is not None
        assert (target.key.scope, ranking.key.scope) == (scope, scope)
        assert ranking.key.instance - target.key.instance == event


def test_an_event_is_late_only_when_every_window_refuses_it() -> None:
    board = Board("b", windows=["hour"], scopes=[["room"], ["zone"]])
    events: list[tuple[int | None, Carried]] = [
        (9 * HOUR, {"room": "1"}),
        (None, {"zone": "1"}),
        (9 * HOUR, {"room": "1", "zone": "1"}),
    ]
    batch, plan = planned(board, events)
    assert plan.late == (0, 2)
    assert plan.late_by_window(batch.size) == [("hour", 2)]
    assert [plan.refused_by(event) for event in range(3)] == [("hour",), (), ("hour",)]
    taken = plan.select([1, 2])
    assert (taken.late, scopes_at(taken, 0)["hour", "zone"]) == ((1,), "zone=1")


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_plans_each_event_as_it_would_alone(seed: int) -> None:
    rng = Random(seed)
    scopes = rng.choice([BOARD.scopes, (("room",), ()), ((), ("zone",))])
    board = Board("b", windows=BOARD.windows, scopes=scopes, rank_by=["zone"], grace="1h")
    labels = board.rules().labels
    events: list[tuple[int | None, Carried]] = []
    for _ in range(rng.randint(1, 12)):
        some = {name: rng.choice("12") for name in labels if rng.random() < 0.7}
        ago = rng.choice([None, 0, 1, HOUR, 2 * HOUR, 3 * HOUR, 30 * HOUR])
        events.append((ago, some or None))
    batch, plan = planned(board, events)
    alone = [planned(board, [event])[1] for event in events]
    assert len(set(plan.targets)) == len(plan.targets)
    for i, (_, carried) in enumerate(events):
        assert scopes_at(plan, i) == scopes_at(alone[i], 0)
        assert plan.refused_by(i) == alone[i].refused_by(0)
        assert (i in plan.late) == (alone[i].late == (0,))
        for place, at in enumerate(plan.specs):
            assert plan.ranking(place, i) == alone[i].ranking(place, 0)
            index = plan.index_of(place, i)
            names = (at.by,) if at.by else at.labels
            assert (index == NO_SCOPE) == (not set(names) <= set(carried or {}))
            if at.window == "all":
                assert index != LATE
            if index >= 0 and not at.by:
                own = {name: (carried or {})[name] for name in names}
                assert plan.targets[index].key.scope == scope_named(board.rules(), own)
    late = {name: sum(name in p.refused_by(0) for p in alone) for name in board.rules().windows}
    assert dict(plan.late_by_window(batch.size)) == {n: c for n, c in late.items() if c}
