"""Calendar periods in which the ranking of all events has no members, and other scopes have some,
are closed and sealed like others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laurels
from tests.contract.boundary_history import DAY, HOUR, NOW_MS, AnyClock, create
from tests.contract.deployments import ARCHIVING, Deployment
from tests.sealing import sealed_by_calls

ARCHIVED = "day:archive=forever"
ROOM = {"room": "1"}


@pytest.fixture
def clock() -> AnyClock:
    return AnyClock(NOW_MS)


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive. In this process, periods are sealed
    only by a call."""
    with sealed_by_calls(), Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


def ensure_archived(deployment: Deployment, *days: str, **place: Any) -> None:
    """Assert that these days are listed as closed, or are sealed already, as a service does at
    once, and that each has one entry in a place when it is sealed."""
    lb = deployment.lb
    states = {each.label: each.state for each in lb.periods("b", "day", **place)}
    assert {states[day] for day in days} <= {"closed", "sealed"}
    if {"closed"} != {states[day] for day in days}:
        assert [each.period for each in lb.archived("b")] == [*days]
    lb.seal()
    assert [each.period for each in lb.archived("b")] == [*days]
    for day in days:
        assert lb.count("b", window="day", period=day, **place) == 1
        assert lb.count("b", window="day", period=day) == 0
    assert lb.seal() == laurels.Sealed(0, 0)
    lb.check()


def test_the_scope_of_all_events_is_added_later(deployment: Deployment, clock: AnyClock) -> None:
    lb = deployment.lb
    create(lb, "day", scopes=[["room"]], grace="12h")
    lb.submit("b", "ann", 1, labels=ROOM)
    clock.advance(9 * HOUR)  # to the grace of the day before
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []])
    clock.advance(3 * DAY)
    ensure_archived(deployment, "2026-11-21", "2026-11-20", labels=ROOM)


def test_a_day_without_members_is_not_archived(deployment: Deployment, clock: AnyClock) -> None:
    lb = deployment.lb
    create(lb, "day", scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []])
    lb.remove("b", "ann")
    clock.advance(2 * DAY)
    assert not [each for each in lb.periods("b", "day") if each.state == "closed"]
    assert lb.seal() == laurels.Sealed(0, 0)
    assert not lb.archived("b")


def test_only_values_of_labels_are_left(deployment: Deployment, clock: AnyClock) -> None:
    lb = deployment.lb
    create(lb, ARCHIVED, rank_by="room", grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.remove("b", "ann")
    clock.advance(2 * DAY)
    ensure_archived(deployment, "2026-11-20", by="room")
