"""An index server keeps what a rolling window has shown at a boundary. The script that rotates the
window does this, whichever process calls it, and whatever the clocks of other processes show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

import laurels
from laurels.stores.redis.index import calls
from laurels.stores.redis.index.calls import ShardCalls, _boundaries
from tests.contract.deployments import OnRedis

HOUR = 3_600_000
DAY = 24 * HOUR
MIDNIGHT_MS = 1_795_219_200_000  # 21 November 2026, UTC
FRIDAY = "2026-11-20T23:00Z"
BOARD = laurels.Board(
    "b",
    windows=["7d=rolling:7d/1h,archive=forever,archive_every=1d"],
    scopes=[[], ["room"]],
    ledger="main",
)


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(MIDNIGHT_MS - HOUR)


@pytest.fixture
def place(tmp_path: Path, clock: laurels.ManualClock) -> Iterator[OnRedis]:
    place = OnRedis(tmp_path, clock)
    yield place
    place.close()


def shown(
    lb: laurels.Leaderboards,
    period: str | None = FRIDAY,
    window: str | None = None,
    **labels: str,
) -> dict[str, Any]:
    page = lb.top("b", period=period, window=window, labels=labels)
    return {entry.member: entry.score for entry in page}


def fill(lb: laurels.Leaderboards) -> None:
    lb.create(BOARD)
    lb.submit("b", "ann", 3, labels={"room": "1"})
    lb.submit("b", "ben", 2, labels={"room": "2"})


def test_a_process_with_a_slower_clock_changes_no_boundary(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    slower = laurels.ManualClock(clock.now_ms())
    with (
        laurels.open(place.url, clock=clock) as lb,
        laurels.open(place.url, clock=slower) as late,
    ):
        fill(lb)
        assert shown(late, None) == {"ann": 3, "ben": 2}
        clock.set(MIDNIGHT_MS + 1)
        assert shown(lb, None) == {"ann": 3, "ben": 2}  # rotates the window
        late.remove("b", "ann")
        late.submit("b", "ben", 5, labels={"room": "2"})
        lb.seal()
        for each in (lb, late):
            assert shown(each) == {"ann": 3, "ben": 2}
            assert shown(each, room="1") == {"ann": 3}
            assert shown(each, None) == {"ben": 7}
        lb.check()


def test_every_boundary_is_archived_after_any_downtime(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    with laurels.open(place.url, clock=clock) as lb:
        fill(lb)
    clock.advance(400 * DAY)
    with laurels.open(place.url, clock=clock) as lb:
        assert lb.seal() == laurels.Sealed(7, 7)
        archived = lb.archived("b")
        assert [each.end_ms for each in archived] == [
            MIDNIGHT_MS + day * DAY for day in reversed(range(7))
        ]
        for each in archived:
            assert shown(lb, each.period) == {"ann": 3, "ben": 2}
            assert shown(lb, each.period, room="2") == {"ben": 2}
        assert shown(lb, None) == {}
        lb.check()


def test_each_window_is_told_of_its_own_boundaries_after_any_downtime(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    """The steps of windows have numbers of different sizes, so the list of one window must not
    begin at a step of the other."""

    def of_few_steps(window: Any, first: int, past: int) -> tuple[int, ...] | None:
        assert past - first < 31 * DAY // 1_000
        return _boundaries(window, first, past)

    windows = [
        "7d=rolling:7d/1h,archive=forever,archive_every=1d",
        "1m=rolling:1m/1s,archive=forever,archive_every=1m",
    ]
    with (
        patch.object(calls, "_boundaries", of_few_steps),
        laurels.open(place.url, clock=clock) as lb,
    ):
        lb.create(replace(BOARD, windows=windows))
        lb.submit("b", "ann", 3, labels={"room": "1"})
        clock.advance(30 * DAY)
        assert lb.seal().sealed == 7 + 1
        assert shown(lb, room="1") == {"ann": 3}
        assert shown(lb, None, window="1m") == {}
        lb.check()


def test_few_boundaries_are_named_after_any_downtime(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    """However long it was, a call names those of a few lengths of the window. The scopes are at
    steps that are far from each other."""
    steps = 60

    def of_few_steps(window: Any, first: int, past: int) -> tuple[int, ...] | None:
        assert past - first <= 2 * steps + 1
        return _boundaries(window, first, past)

    windows = ["1h=rolling:1h/1m,archive=forever,archive_every=1m"]
    with (
        patch.object(calls, "_boundaries", of_few_steps),
        laurels.open(place.url, clock=clock) as lb,
    ):
        lb.create(replace(BOARD, windows=windows))
        began_ms = clock.now_ms()
        lb.submit("b", "ann", 3, labels={"room": "1"})
        for member, room in (("ben", "2"), ("cid", "3")):
            clock.advance(5 * HOUR)
            lb.submit("b", member, 2, labels={"room": room})
        clock.advance(400 * DAY)
        for room in ("3", "1", "2"):
            assert shown(lb, None, room=room) == {}
        assert shown(lb, None) == {}
        lb.seal()
        ends = sorted(each.end_ms for each in lb.archived("b"))
        minute = HOUR // steps
        assert ends == [
            began_ms + hours * HOUR + number * minute
            for hours in (0, 5, 10)
            for number in range(1, steps + 1)
        ]
        last = next(iter(lb.archived("b")))
        assert shown(lb, last.period) == shown(lb, last.period, room="3") == {"cid": 2}
        lb.check()


def test_two_processes_archive_a_boundary_once(place: OnRedis, clock: laurels.ManualClock) -> None:
    with (
        laurels.open(place.url, clock=clock) as one,
        laurels.open(place.url, clock=clock) as other,
    ):
        fill(one)
        clock.set(MIDNIGHT_MS)
        sealed = [each.seal() for each in (other, one, other)]
        assert sum(each.closed for each in sealed) == sum(each.sealed for each in sealed) == 1
        for each in (one, other):
            assert shown(each) == {"ann": 3, "ben": 2}


def test_hidden_members_are_left_out_after_a_boundary(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    totals = dict.fromkeys(["ann", "ben", "cid", "dan"], 0)
    with (
        patch.object(ShardCalls, "small_ranking", 0),
        laurels.open(place.url, clock=clock) as lb,
    ):
        lb.create(BOARD)
        for hour in range(30):
            for i, member in enumerate(totals):
                if hour == 0 or (hour + i) % 3 == 0:
                    lb.submit("b", member, 1 + i, labels={"room": "1"})
                    totals[member] += 1 + i
            if hour == 0:
                lb.hide("b", "ben", "bot")
                lb.hide("b", "cid", "bot")
            expected = {member: totals[member] for member in ("ann", "dan")}
            assert shown(lb, None) == shown(lb, None, room="1") == expected
            standing = lb.standing("b", "ann")
            assert standing is not None
            assert (standing.rank, standing.total) == (2, 2)
            clock.advance(HOUR)
        lb.check()


def test_a_member_is_removed_after_the_last_boundary_of_a_board(
    place: OnRedis, clock: laurels.ManualClock
) -> None:
    """The ranking at the end of the board is closed with the member, whose cells are removed."""
    with laurels.open(place.url, clock=clock) as lb:
        lb.create(BOARD)
        lb.change("b", ends=MIDNIGHT_MS)
        lb.submit("b", "ann", 3, labels={"room": "1"})
        lb.submit("b", "ben", 2, labels={"room": "2"})
        clock.set(MIDNIGHT_MS + HOUR)
        lb.seal()
        lb.remove("b", "ann")
        lb.check()
        lb.rebuild()
        assert shown(lb) == {"ann": 3, "ben": 2}
