"""Scores are exact, and each column keeps the value that its operator requires."""

from __future__ import annotations

from decimal import Decimal

import pytest

import laurels
from laurels.errors import TotalOutOfRange, ValueOutOfRange
from laurels.model.rules import Op
from tests.contract.conftest import NOW_MS
from tests.contract.reading import scores

LIMIT = 2**53 - 1
Column = laurels.Column


def one(lb: laurels.Leaderboards, *columns: laurels.Column) -> None:
    lb.create(laurels.Board("b", columns=columns))


def test_decimals_add_up_exactly(lb: laurels.Leaderboards) -> None:
    one(lb, Column(scale=2))
    lb.submit_many("b", [("ann", "0.10")] * 3 + [("ann", Decimal("0.07")), ("bob", 1)])
    totals = scores(lb.top("b"))
    assert totals == {"bob": Decimal(1), "ann": Decimal("0.37")}
    assert str(totals["ann"]) == "0.37"
    assert str(totals["bob"]) == "1.00"


@pytest.mark.parametrize("text", ["1.5", "+1.50", "15e-1", ".15e1", "0.15E+1", "1.500000"])
def test_a_number_may_be_written_in_many_ways(lb: laurels.Leaderboards, text: str) -> None:
    one(lb, Column(scale=1))
    lb.submit("b", "ann", text)
    assert scores(lb.top("b")) == {"ann": Decimal("1.5")}


def test_the_whole_range_is_exact(lb: laurels.Leaderboards) -> None:
    one(lb, Column())
    lb.submit_many("b", [("ann", LIMIT), ("bob", LIMIT - 1), ("cid", -LIMIT)])
    assert scores(lb.top("b")) == {"ann": LIMIT, "bob": LIMIT - 1, "cid": -LIMIT}


def test_a_total_out_of_range_is_refused_and_stays_as_it_was(lb: laurels.Leaderboards) -> None:
    one(lb, Column())
    lb.submit("b", "ann", LIMIT)
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 1)
    lb.submit("b", "ann", -1)
    assert scores(lb.top("b")) == {"ann": LIMIT - 1}


def test_declared_bounds_hold_for_totals(lb: laurels.Leaderboards) -> None:
    one(lb, Column(min=0, max=10))
    lb.submit("b", "ann", 8)
    receipts = lb.submit_many("b", [("ann", 3), ("ann", -9), ("ann", 2), ("bob", 20), ("bob", -1)])
    statuses = [(receipt.status, receipt.reason) for receipt in receipts]
    refused = ("refused", "total_out_of_range")
    assert statuses == [refused, refused, ("applied", None), refused, refused]
    assert scores(lb.top("b")) == {"ann": 10}


def test_a_total_out_of_range_in_one_window_is_refused_in_all_windows(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", columns=[Column(min=0, max=10)], windows=["day", "all"]))
    lb.submit("b", "ann", 8)
    clock.advance(86_400_000)
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 3)
    assert lb.top("b").total == 0
    assert scores(lb.top("b", window="all")) == {"ann": 8}


@pytest.mark.parametrize("op", ["last", "best"])
def test_declared_bounds_hold_for_values_that_are_kept(lb: laurels.Leaderboards, op: Op) -> None:
    one(lb, Column(op=op, min="-0.5", max=3, scale=1))
    for value in (4, "-0.6", "3.1"):
        with pytest.raises(ValueOutOfRange):
            lb.submit("b", "ann", value)
    lb.submit("b", "ann", 3)
    assert scores(lb.top("b")) == {"ann": Decimal(3)}


def test_last_keeps_the_value_with_the_latest_at_and_then_the_latest_arrival(
    lb: laurels.Leaderboards,
) -> None:
    one(lb, Column(op="last"))
    lb.submit_many("b", [("ann", 5, NOW_MS - 1), ("ann", 9, NOW_MS - 2)])
    assert scores(lb.top("b")) == {"ann": 5}
    lb.submit("b", "ann", 3, at=NOW_MS - 1)
    assert scores(lb.top("b")) == {"ann": 3}


def test_best_keeps_the_better_score_as_a_whole(lb: laurels.Leaderboards) -> None:
    one(lb, Column("level", op="best"), Column("time", op="best", order="asc"))
    lb.submit_many("b", [("ann", (10, 20)), ("ann", (1, 1)), ("ann", (10, 25))])
    assert scores(lb.top("b")) == {"ann": (10, 20)}
    lb.submit("b", "ann", (10, 19))
    assert scores(lb.top("b")) == {"ann": (10, 19)}


def test_sum_and_last_columns_can_be_combined(lb: laurels.Leaderboards) -> None:
    one(lb, Column("points"), Column("level", op="last", order="asc", scale=1))
    lb.submit_many("b", [("ann", (1, 7), NOW_MS - 1), ("ann", (2, "3.5"), NOW_MS - 5)])
    assert scores(lb.top("b")) == {"ann": (3, Decimal(7))}


def test_four_columns_can_have_their_full_range(lb: laurels.Leaderboards) -> None:
    one(lb, *(Column(f"c{i}", order="asc") for i in range(4)))
    wide = (LIMIT, -LIMIT, LIMIT, -LIMIT)
    lb.submit_many("b", [("ann", wide), ("bob", (*wide[:3], 1 - LIMIT))])
    assert scores(lb.top("b")) == {"ann": wide, "bob": (*wide[:3], 1 - LIMIT)}


def test_members_with_a_total_of_zero_are_ranked(lb: laurels.Leaderboards) -> None:
    one(lb, Column())
    lb.submit_many("b", [("ann", 5), ("ann", -5), ("bob", 0), ("cid", -1)])
    assert scores(lb.top("b")) == {"ann": 0, "bob": 0, "cid": -1}
