"""Rolling windows: at each moment a window shows the totals of the last n steps. It changes exactly
at the boundaries of steps."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import TotalOutOfRange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, scores
from tests.counts import rare

THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""
LIMIT = 2**53 - 1


def test_the_last_n_steps_are_counted(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"]))
    totals = []
    for hour in range(6):
        totals.append(lb.submit("b", "ann", 10**hour).score)
        clock.advance(HOUR)
    assert totals == [1, 11, 111, 1110, 11100, 111000]
    assert scores(lb.top("b")) == {"ann": 110000}


def test_a_step_begins_and_ends_at_an_exact_millisecond(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"], grace="1h"))
    lb.submit_many("b", [("ann", 2, THREE - 1), ("bob", 1, THREE)])
    for now_ms, listed in (
        (THREE + 2 * HOUR - 1, ["ann", "bob"]),
        (THREE + 2 * HOUR, ["bob"]),
        (THREE + 3 * HOUR - 1, ["bob"]),
        (THREE + 3 * HOUR, []),
    ):
        clock.set(now_ms)
        assert members(lb.top("b")) == listed


def test_a_step_ends_without_a_write(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h", "all"]))
    lb.submit_many("b", [(f"m{i:04}", 1) for i in range(3_000)])
    offset = lb.stats().offset
    clock.advance(HOUR)
    assert lb.top("b").total == 3_000
    lb.submit("b", "m0007", 1)
    clock.advance(HOUR)
    assert scores(lb.top("b")) == {"m0007": 1}
    assert lb.standing("b", "m0008") is None
    assert lb.count("b") == 1
    assert lb.top("b", window="all").total == 3_000
    assert lb.stats().offset == offset + 1


@pytest.mark.parametrize(
    ("hours", "left", "read_between"),
    [
        *((0, 111, False), (1, 110, True), (2, 100, False), (3, None, True)),
        *((4, None, False), (1_000, None, True)),
        *rare((1, 110, False), (2, 100, True), (3, None, False), (4, None, True)),
        *rare((1_000, None, False)),
    ],
)
def test_steps_without_events_pass_too(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    hours: int,
    left: int | None,
    read_between: bool,
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h", "all"]))
    for value in (1, 10, 100):
        clock.advance(HOUR)
        lb.submit_many("b", [("ann", value), ("bob", value)])
    for _ in range(min(hours, 50) if read_between else 0):
        clock.advance(HOUR)
        lb.top("b")
    clock.set(NOW_MS + (3 + hours) * HOUR)
    receipt = lb.submit("b", "ann", 5)
    assert receipt.previous_score == left
    assert receipt.score == (left or 0) + 5
    assert scores(lb.top("b")).get("bob") == left
    assert scores(lb.top("b", window="all")) == {"ann": 116, "bob": 111}
    lb.check()


def test_a_member_is_listed_with_any_total(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"]))
    lb.submit_many("b", [("ann", 7), ("bob", 0), ("cid", 4), ("dan", -3)])
    clock.advance(HOUR)
    lb.submit_many("b", [("ann", -7), ("cid", -5)])
    assert scores(lb.top("b")) == {"bob": 0, "ann": 0, "cid": -1, "dan": -3}
    clock.advance(HOUR)
    assert scores(lb.top("b")) == {"cid": -5, "ann": -7}
    clock.advance(HOUR)
    assert lb.top("b").total == 0


def test_an_event_of_zero_keeps_its_member_listed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"], tie="member"))
    lb.submit_many("b", [("ann", 7), ("bob", 7)])
    clock.advance(HOUR)
    assert lb.submit("b", "ann", 0).status == "unchanged"
    clock.advance(HOUR)
    assert scores(lb.top("b")) == {"ann": 0}


@pytest.mark.parametrize("steps", [2, 7, 50, 10_000])
def test_windows_have_two_to_ten_thousand_steps(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, steps: int
) -> None:
    lb.create(laurels.Board("b", windows=[f"r=rolling:{steps}m/1m"]))
    lb.submit("b", "ann", 1)
    clock.advance((steps - 1) * MINUTE)
    assert members(lb.top("b")) == ["ann"]
    clock.advance(MINUTE)
    assert members(lb.top("b")) == []


def test_rolling_windows_of_one_board_are_independent(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["fast=rolling:2m/1m", "slow=rolling:3h/1h", "day", "rolling:3d/1d"]
    lb.create(laurels.Board("b", windows=windows))
    lb.submit("b", "ann", 1)
    counting = {}
    for passed in (MINUTE, 2 * MINUTE, 3 * HOUR, 24 * HOUR, 72 * HOUR):
        clock.set(NOW_MS + passed)
        counting[passed] = [
            name for name in lb.get("b").rules().windows if lb.count("b", window=name)
        ]
    assert counting == {
        MINUTE: ["fast", "slow", "day", "rolling:3d/1d"],
        2 * MINUTE: ["slow", "day", "rolling:3d/1d"],
        3 * HOUR: ["day", "rolling:3d/1d"],
        24 * HOUR: ["rolling:3d/1d"],
        72 * HOUR: [],
    }


def test_a_removed_member_leaves_every_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"]))
    for value in (1, 10, 100):
        lb.submit_many("b", [("ann", value), ("bob", value)])
        clock.advance(HOUR)
    assert lb.remove("b", "ann")
    assert not lb.remove("b", "ann")
    assert scores(lb.top("b")) == {"bob": 110}
    lb.submit("b", "ann", 5)
    lb.check()
    clock.advance(HOUR)
    assert scores(lb.top("b")) == {"bob": 100, "ann": 5}
    clock.advance(2 * HOUR)
    assert not lb.remove("b", "bob")
    lb.check()


def test_set_adds_the_difference_in_the_window_all_to_the_running_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "r=rolling:2h/1h"]))
    lb.submit("b", "ann", 100)
    clock.advance(HOUR)
    assert lb.set("b", "ann", 130, window="r").score == 130
    clock.advance(HOUR)
    assert scores(lb.top("b", window="r")) == {"ann": 30}
    assert lb.set("b", "ann", 90, window="r").score == -10
    assert scores(lb.top("b")) == {"ann": 90}
    clock.advance(HOUR)
    assert scores(lb.top("b", window="r")) == {"ann": -40}


@pytest.mark.parametrize(
    ("low", "high", "least", "most"),
    [
        (None, None, -(LIMIT // 3), LIMIT // 3),
        (-31, 32, -10, 10),
        (0, 31, 0, 31),
        (-31, 0, -31, 0),
        (5, None, 5, LIMIT // 3),
        (None, -5, -(LIMIT // 3), -5),
    ],
)
def test_a_step_may_use_its_share_of_the_range(
    lb: laurels.Leaderboards, low: int | None, high: int | None, least: int, most: int
) -> None:
    column = laurels.Column(min=low, max=high)
    lb.create(laurels.Board("b", columns=[column], windows=["r=rolling:3h/1h", "all"]))
    for member, edge, beyond in (("ann", most, most + 1), ("bob", least, least - 1)):
        with pytest.raises(TotalOutOfRange):
            lb.submit("b", member, beyond)
        assert lb.standing("b", member) is lb.standing("b", member, window="all") is None
        lb.submit("b", member, edge)
        with pytest.raises(TotalOutOfRange):
            lb.submit("b", member, beyond - edge)
    assert scores(lb.top("b")) == scores(lb.top("b", window="all")) == {"ann": most, "bob": least}


def test_no_total_leaves_the_range_when_a_step_ends(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    columns = [laurels.Column(min=-30, max=30)]
    lb.create(laurels.Board("b", columns=columns, windows=["r=rolling:3h/1h"]))
    lb.submit("b", "ann", -10)
    for value, total in ((10, 0), (10, 10), (10, 30), (-10, 10)):
        clock.advance(HOUR)
        assert lb.submit("b", "ann", value).score == total


def test_the_total_of_a_rolling_window_stays_within_the_range(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    columns = [laurels.Column(min=0, max=9)]
    lb.create(laurels.Board("b", columns=columns, windows=["r=rolling:2h/1h"]))
    lb.submit("b", "ann", 8)
    clock.advance(HOUR)
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 2)
    assert lb.submit("b", "ann", 1).score == 9
    clock.advance(HOUR)
    assert lb.submit("b", "ann", 8).score == 9
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", -9)
