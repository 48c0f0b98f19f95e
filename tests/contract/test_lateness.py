"""Late events: the window `all` counts every late event. A calendar window counts a late event if
its grace and `keep` allow it."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import TooLate
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, scores

DAY = 24 * HOUR
THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""


def test_grace_is_counted_from_the_end_of_the_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["hour"], grace="30m"))
    lb.submit("b", "ann", 1, at=THREE - 1)
    clock.advance(1)
    with pytest.raises(TooLate):
        lb.submit("b", "cid", 1, at=THREE - 1)
    assert members(lb.top("b", period="2026-11-20T14+00:00")) == ["ann"]


def test_a_period_that_is_no_longer_kept_refuses_events_despite_its_grace(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", windows=["hour:keep=1,grace=1h", "all"]))
    receipt = lb.submit("b", "ann", 1, at=THREE - 1)
    assert receipt.refused_windows == ("hour",)


def test_the_window_all_refuses_no_late_event(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "day", "year"]))
    receipt = lb.submit("b", "ann", 1, at=NOW_MS - 2000 * DAY)
    assert (receipt.status, receipt.refused_windows) == ("applied", ("day", "year"))
    assert scores(lb.top("b")) == {"ann": 1}
    assert lb.top("b", window="year").total == 0


def test_an_event_that_every_window_refuses_is_refused(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["day", "month"]))
    receipts = lb.submit_many("b", [("ann", 1, NOW_MS - 40 * DAY), ("bob", 2)])
    assert [(receipt.status, receipt.reason) for receipt in receipts] == [
        ("refused", "too_late"),
        ("applied", None),
    ]
    assert receipts[0].refused_windows == ("day", "month")
    assert receipts[0].message
    assert members(lb.top("b")) == ["bob"]


def test_an_event_up_to_5_s_ahead_counts_as_now(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "bob", 1, at=NOW_MS + 5_000)
    lb.submit("b", "ann", 1, at=NOW_MS)
    assert members(lb.top("b")) == ["ann", "bob"]


def test_each_window_has_its_own_grace(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["hour", "slow=hour:grace=1h"], grace="5m"))
    receipt = lb.submit("b", "ann", 1, at=THREE - 1)
    assert receipt.refused_windows == ("hour",)
    assert members(lb.top("b", window="slow", period="2026-11-20T14+00:00")) == ["ann"]
