"""Boundaries of a rolling window at which it has nothing to show are not closed, and not listed, in
whichever scopes a board ranks its members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors.index_server import NotOnIndexServer
from laurels.stores.local import sealing_thread
from laurels.stores.redis import sealing_tasks
from tests.contract.boundary_history import HOUR, MINUTE, NOW_MS, AnyClock, create
from tests.contract.deployments import ARCHIVING, EMBEDDED, Deployment, Implementation

WINDOW = "r=rolling:3m/1m"
ARCHIVED = f"{WINDOW},archive=forever,archive_every=1m"
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
    with opened(request.param, tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture(params=EMBEDDED, ids=lambda implementation: implementation.name)
def local(request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock) -> Iterator[Deployment]:
    """Return a deployment whose archive needs no ranking of all events."""
    with opened(request.param, tmp_path, clock) as deployment:
        yield deployment


@contextmanager
def opened(implementation: Implementation, folder: Path, clock: AnyClock) -> Iterator[Deployment]:
    with (
        patch.object(sealing_thread.SealingThread, "start"),
        patch.object(sealing_tasks.SealingTasks, "start"),
        Deployment(implementation, folder, clock) as deployment,
    ):
        yield deployment


def make(lb: laurels.Leaderboards, *windows: str, **fields: Any) -> None:
    """Create a board. Skip the test if the store needs a ranking of all events for an archive."""
    try:
        create(lb, *windows, grace="0ms", **fields)
    except NotOnIndexServer:
        pytest.skip("the store needs a ranking of all events")


def ensure_listed(deployment: Deployment, *periods: str) -> None:
    """Assert that these are the boundaries that were closed, oldest first: before they are sealed,
    when the log is folded again, after a restart, and when they are sealed."""
    lb = deployment.lb
    for _ in range(2):
        ensure_closed(lb, *periods)
        lb.rebuild()
        ensure_closed(lb, *periods)
        lb.check()
        if deployment.lasting:
            lb = deployment.reopen()
    lb.seal()
    assert lb.seal() == laurels.Sealed(0, 0)
    archived = [f"2026-11-20T{each}Z" for each in periods]
    assert [each.period for each in lb.archived("b")][::-1] == archived
    changes = [each for each in lb.changes("b", limit=1_000) if each.kind == "close"]
    assert [each.data["period"] for each in changes] == archived
    lb.check()
    lb.rebuild()
    assert [each.period for each in lb.archived("b")][::-1] == archived


def ensure_closed(lb: laurels.Leaderboards, *periods: str) -> None:
    """Assert that these boundaries are listed as closed, or are sealed already, as a service does
    at once."""
    labels = dict.fromkeys(lb.get("b").scopes[0], "1")
    periods_now = lb.periods("b", "r", labels=labels)
    listed = [each.label for each in periods_now if each.state == "closed"][::-1]
    sealed = [each.period for each in lb.archived("b")][::-1]
    assert sealed + listed == [f"2026-11-20T{each}Z" for each in periods]


def test_an_archive_that_is_added_while_the_window_is_empty(
    deployment: Deployment, clock: AnyClock
) -> None:
    """The scopes have members in the window of all time only."""
    lb = deployment.lb
    create(lb, "all", WINDOW, scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    clock.advance(HOUR)
    try:
        lb.change("b", windows=["all", ARCHIVED])
    except NotOnIndexServer:
        lb.change("b", windows=["all", ARCHIVED], scopes=[["room"], []])
    clock.advance(2 * MINUTE)
    ensure_listed(deployment)
    deployment.lb.submit("b", "ann", 1, labels=ROOM)
    clock.advance(HOUR)
    ensure_listed(deployment, "16:32", "16:33", "16:34")


def test_the_scope_of_all_events_is_added_later(local: Deployment, clock: AnyClock) -> None:
    """The window has members in a room that the ranking of all events does not have."""
    lb = local.lb
    create(lb, WINDOW, scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []])
    clock.advance(2 * MINUTE)
    lb.submit("b", "ben", 1)
    clock.advance(HOUR)
    ensure_listed(local, "15:30", "15:31", "15:32", "15:33", "15:34")


@pytest.mark.parametrize("scopes", [[[]], [["room"]], [[], ["room"]]], ids=str)
def test_the_last_member_is_removed(
    deployment: Deployment, clock: AnyClock, scopes: list[list[str]]
) -> None:
    lb = deployment.lb
    make(lb, "all", ARCHIVED, scopes=scopes, labels="ignore")
    lb.submit_many("b", [("ann", 1, None, None, ROOM)])
    clock.advance(MINUTE)
    lb.submit_many("b", [("ben", 1, None, None, ROOM)])
    lb.remove("b", "ann")
    clock.advance(MINUTE)
    lb.remove("b", "ben")
    lb.submit("b", "ann", 1, at=NOW_MS - MINUTE, labels=ROOM)  # counts for all time only
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", "15:31")


@pytest.mark.parametrize("scopes", [[[]], [["room"]]], ids=str)
def test_values_of_labels_stay_ranked_without_their_members(
    local: Deployment, clock: AnyClock, scopes: list[list[str]]
) -> None:
    lb = local.lb
    make(lb, ARCHIVED, scopes=scopes, rank_by="room")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.remove("b", "ann")
    clock.advance(HOUR)
    ensure_listed(local, "15:30", "15:31", "15:32")


@pytest.mark.parametrize("scopes", [[[]], [["room"]]], ids=str)
@pytest.mark.parametrize("is_removed", [False, True])
def test_the_end_of_a_board(
    deployment: Deployment, clock: AnyClock, scopes: list[list[str]], *, is_removed: bool
) -> None:
    lb = deployment.lb
    make(lb, "all", ARCHIVED, scopes=scopes, labels="ignore", ends=NOW_MS + 2 * MINUTE)
    lb.submit("b", "ann", 1, labels=ROOM)
    clock.advance(MINUTE)
    if is_removed:
        lb.remove("b", "ann")
        lb.submit("b", "ann", 1, at=NOW_MS - MINUTE, labels=ROOM)  # counts for all time only
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", *([] if is_removed else ["15:31"]))
