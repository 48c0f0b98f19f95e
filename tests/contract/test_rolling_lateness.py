"""Rolling windows and late events: an event counts in the step of its own time, and leaves the
window together with that step."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import BoardInvalid, TooLate, TotalOutOfRange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.contract.conftest import NOW_MS
from tests.contract.reading import scores

THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""


def test_a_late_event_counts_in_its_step_and_leaves_with_it(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h,grace=2h"], dedupe="2h"))
    for hours, value in ((2, 1), (1, 10), (0, 100)):
        lb.submit("b", "ann", value, at=NOW_MS - hours * HOUR)
    totals = [scores(lb.top("b"))]
    for _ in range(3):
        clock.advance(HOUR)
        totals.append(scores(lb.top("b")))
    assert totals == [{"ann": 111}, {"ann": 110}, {"ann": 100}, {}]


def test_the_oldest_step_takes_late_events_until_it_ends(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h,grace=1h", "all"]))
    clock.set(THREE + HOUR - 1)
    assert lb.submit("b", "ann", 1, at=THREE - 1).score == 1
    clock.advance(1)
    assert lb.submit("b", "ann", 5, at=THREE - 1).refused_windows == ("r",)
    assert scores(lb.top("b")) == {}
    assert scores(lb.top("b", window="all")) == {"ann": 6}


def test_an_event_is_refused_only_by_the_windows_for_which_it_is_too_late(
    lb: laurels.Leaderboards,
) -> None:
    windows = ["hours=rolling:3h/1h", "minutes=rolling:60m/1m", "all"]
    lb.create(laurels.Board("b", windows=windows, grace="10m"))
    receipt = lb.submit("b", "ann", 1, at=THREE - 1)
    assert (receipt.status, receipt.reason) == ("applied", None)
    assert receipt.refused_windows == ("hours", "minutes")
    assert (receipt.window, receipt.period, receipt.score, receipt.rank) == (
        "hours",
        None,
        None,
        None,
    )
    receipt = lb.submit("b", "ann", 1, at=NOW_MS - 12 * MINUTE)
    assert (receipt.score, receipt.refused_windows) == (1, ("minutes",))
    assert scores(lb.top("b", window="all")) == {"ann": 2}
    assert lb.top("b", window="minutes").total == 0


def test_an_event_too_late_for_every_window_is_refused(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["rolling:3h/1h", "rolling:7h/1h"]))
    with pytest.raises(TooLate):
        lb.submit("b", "ann", 1, at=THREE - 1)
    receipts = lb.submit_many("b", [("ann", 1, THREE - 1), ("bob", 2)])
    assert (receipts[0].reason, receipts[0].refused_windows) == (
        "too_late",
        ("rolling:3h/1h", "rolling:7h/1h"),
    )
    assert scores(lb.top("b")) == {"bob": 2}


def test_grace_is_counted_from_the_end_of_the_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:7h/1h"], grace="30m"))
    lb.submit("b", "ann", 1, at=THREE - HOUR)
    clock.advance(1)
    with pytest.raises(TooLate):
        lb.submit("b", "ann", 1, at=THREE - 1)
    assert lb.submit("b", "ann", 1, at=THREE).score == 2


def test_the_grace_of_a_board_is_cut_to_the_limit_of_a_rolling_window(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["r=rolling:3h/1h", "hour:keep=9"]
    lb.create(laurels.Board("b", windows=windows, grace="10h", dedupe="10h"))
    clock.set(THREE + HOUR - 1)
    assert lb.submit("b", "ann", 1, at=THREE - 2 * HOUR).refused_windows == ()
    assert lb.submit("b", "ann", 1, at=THREE - 2 * HOUR - 1).refused_windows == ("r",)
    assert scores(lb.top("b")) == {"ann": 1}


def test_the_grace_of_a_window_is_at_most_its_span_minus_a_step() -> None:
    laurels.Board("b", windows=["rolling:3h/1h,grace=2h"], dedupe="3h")
    with pytest.raises(BoardInvalid, match="grace"):
        laurels.Board("b", windows=["rolling:3h/1h,grace=121m"], dedupe="3h")


def test_a_late_event_is_refused_if_the_total_of_its_step_leaves_its_range(
    lb: laurels.Leaderboards,
) -> None:
    columns = [laurels.Column(min=-20, max=20)]
    lb.create(laurels.Board("b", columns=columns, windows=["r=rolling:2h/1h", "all"], grace="1h"))
    lb.submit_many("b", [("ann", 10, THREE - 1), ("ann", -10)])
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 1, at=THREE - 1)
    assert lb.submit("b", "ann", 1).score == 1
    assert lb.submit("b", "ann", -3, at=THREE - 1).score == -2
    assert scores(lb.top("b", window="all")) == {"ann": -2}


def test_a_late_event_changes_the_order_at_once(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"], grace="1h"))
    lb.submit_many("b", [("ann", 5), ("bob", 3), ("cid", 1)])
    clock.advance(HOUR)
    receipt = lb.submit("b", "cid", 9, at=NOW_MS)
    assert (receipt.previous_rank, receipt.rank, receipt.score) == (3, 1, 10)
    assert receipt.period == "2026-11-20T16:00Z"
    clock.advance(HOUR)
    assert lb.top("b").total == 0
    lb.check()
