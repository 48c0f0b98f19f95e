"""Boundaries of a rolling window at which it has nothing to show are not closed, and not listed, in
whichever scopes a board ranks its members."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors.index_server import NotOnIndexServer
from tests.contract.boundary_history import HOUR, MINUTE, NOW_MS, AnyClock, create
from tests.contract.deployments import ARCHIVING, IMPLEMENTATIONS, Deployment
from tests.sealing import sealed_by_calls

WINDOW = "r=rolling:3m/1m"
ARCHIVED = f"{WINDOW},archive=forever,archive_every=1m"
ROOM = {"room": "1"}


@pytest.fixture
def clock() -> AnyClock:
    return AnyClock(NOW_MS)


CLUSTER = [each for each in IMPLEMENTATIONS if each.name == "cluster"]


@pytest.fixture(params=[*ARCHIVING, *CLUSTER], ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: AnyClock
) -> Iterator[Deployment]:
    """Return a deployment of each kind that has an archive. In this process, periods are sealed
    only by a call."""
    with sealed_by_calls(), Deployment(request.param, tmp_path, clock) as deployment:
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


def test_the_scope_of_all_events_is_added_later(deployment: Deployment, clock: AnyClock) -> None:
    """The window has members in a room that the ranking of all events does not have."""
    lb = deployment.lb
    create(lb, WINDOW, scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []])
    clock.advance(2 * MINUTE)
    lb.submit("b", "ben", 1)
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", "15:31", "15:32", "15:33", "15:34")


def test_the_scope_of_all_events_never_has_members(deployment: Deployment, clock: AnyClock) -> None:
    """Two rooms leave the window at different boundaries, and nothing is read or written
    meanwhile."""
    lb = deployment.lb
    create(lb, WINDOW, scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    clock.advance(MINUTE)
    lb.submit("b", "ann", 1, labels={"room": "2"})
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []])
    clock.advance(HOUR)
    ensure_listed(deployment, "15:31", "15:32", "15:33")


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


def make_by_room(deployment: Deployment, window: str = ARCHIVED, **fields: Any) -> None:
    """Create a board that ranks rooms. Skip the test if it would be divided into shards."""
    if deployment.divided:
        pytest.skip("a board in several shards has either rank_by or archive_every")
    make(deployment.lb, window, rank_by="room", **fields)


@pytest.mark.parametrize("scopes", [[[]], [["room"]], [[], ["room"]]], ids=str)
def test_values_of_labels_stay_ranked_without_their_members(
    deployment: Deployment, clock: AnyClock, scopes: list[list[str]]
) -> None:
    lb = deployment.lb
    make_by_room(deployment, scopes=scopes)
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.remove("b", "ann")
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", "15:31", "15:32")


def test_values_of_labels_stay_ranked_at_some_boundaries(
    deployment: Deployment, clock: AnyClock
) -> None:
    """Members come back, and leave the window before the values of labels."""
    lb = deployment.lb
    make_by_room(deployment)
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.remove("b", "ann")
    clock.advance(MINUTE)
    lb.submit("b", "ben", 1)
    clock.advance(MINUTE)
    lb.submit("b", "cat", 1, labels={"room": "2"})
    lb.remove("b", "cat")
    clock.advance(5 * MINUTE)
    lb.submit("b", "dan", 1, labels=ROOM)
    lb.erase("dan", "on request")
    clock.advance(HOUR)
    ended = ["15:37", "15:38", "15:39"]
    ensure_listed(deployment, "15:30", "15:31", "15:32", "15:33", "15:34", *ended)


def test_values_of_labels_are_archived_without_their_members(
    deployment: Deployment, clock: AnyClock
) -> None:
    """Another process closes the boundaries, at once and after some time."""
    lb = deployment.lb
    make_by_room(deployment)
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.remove("b", "ann")
    clock.advance(MINUTE)
    if deployment.exclusive or not deployment.lasting:
        lb.seal()
        clock.advance(HOUR)
        lb.seal()
    else:
        with deployment.open_beside() as other:
            other.seal()
            clock.advance(HOUR)
            other.seal()
    ensure_listed(deployment, "15:30", "15:31", "15:32")
    for each in ("15:30", "15:31", "15:32"):
        period = f"2026-11-20T{each}Z"
        page = deployment.lb.top("b", window="r", period=period, by="room")
        assert [(entry.member, entry.score) for entry in page.entries] == [("1", 1)]
        assert deployment.lb.count("b", window="r", period=period) == 0


@pytest.mark.parametrize("is_removed", [False, True])
def test_only_values_of_labels_are_ranked_at_the_end_of_a_board(
    deployment: Deployment, clock: AnyClock, *, is_removed: bool
) -> None:
    lb = deployment.lb
    make_by_room(deployment, ends=NOW_MS + 2 * MINUTE)
    lb.submit("b", "ann", 1, labels=ROOM)
    if is_removed:
        lb.remove("b", "ann")
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", "15:31")


def test_only_other_scopes_have_members_at_the_end_of_a_board(
    deployment: Deployment, clock: AnyClock
) -> None:
    lb = deployment.lb
    create(lb, WINDOW, scopes=[["room"]], grace="0ms")
    lb.submit("b", "ann", 1, labels=ROOM)
    lb.change("b", windows=[ARCHIVED], scopes=[["room"], []], ends=NOW_MS + 2 * MINUTE)
    clock.advance(HOUR)
    ensure_listed(deployment, "15:30", "15:31")


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
