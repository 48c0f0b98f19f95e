"""Queries by score (range, count) and by position (at_rank, percentiles)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import laurels
from laurels.errors import InvalidInput, InvalidPercentile, InvalidRange
from tests.contract.reading import members, ranks, scores


@pytest.fixture
def ten(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    """Return a store with a board of ten members, from m0 with 0 to m9 with 9 points; more points
    are better."""
    lb.create(laurels.Board("b", rank="competition"))
    lb.submit_many("b", [(f"m{i}", i) for i in range(10)])
    return lb


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(3, 5, "543"), (8, None, "98"), (None, 1, "10"), (5, 5, "5"), (-9, -1, ""), (20, 30, "")],
)
def test_a_range_is_inclusive_and_in_ranking_order(
    ten: laurels.Leaderboards, low: int | None, high: int | None, expected: str
) -> None:
    page = ten.range("b", low=low, high=high)
    assert "".join(member[1] for member in members(page)) == expected
    assert ten.count("b", low=low, high=high) == len(expected)


def test_a_range_has_limit_and_offset(ten: laurels.Leaderboards) -> None:
    page = ten.range("b", low=2, high=8, limit=2, offset=3)
    assert members(page) == ["m5", "m4"]
    assert ranks(page) == [5, 6]
    assert members(ten.range("b", low=2, high=8, offset=6)) == ["m2"]
    assert members(ten.range("b", low=2, high=8, limit=0)) == []
    assert members(ten.range("b", low=2, high=8, offset=60)) == []
    assert ten.count("b") == 10


@pytest.mark.parametrize("bounds", [(5, 3), ((1, 2), 3), (None, ())])
def test_a_wrong_range_is_refused(ten: laurels.Leaderboards, bounds: tuple[Any, Any]) -> None:
    for verb in (ten.range, ten.count):
        with pytest.raises(InvalidRange):
            verb("b", low=bounds[0], high=bounds[1])


@pytest.mark.parametrize("bound", ["x", 1.5, True, Decimal("NaN")])
def test_a_bound_must_be_an_exact_number(ten: laurels.Leaderboards, bound: Any) -> None:
    for verb in (ten.range, ten.count):
        with pytest.raises(InvalidInput):
            verb("b", low=bound)


def test_bounds_may_lie_between_and_beyond_scores(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(scale=1, order="asc")]))
    lb.submit_many("b", [("ann", "1.5"), ("bob", "2.5"), ("cid", 3)])
    assert members(lb.range("b", low="1.6", high=3)) == ["bob", "cid"]
    assert lb.count("b", low=Decimal("-900"), high="2.5") == 2


def test_a_bound_may_have_only_the_first_of_several_columns(lb: laurels.Leaderboards) -> None:
    columns = [laurels.Column("wins"), laurels.Column("lost", order="asc")]
    lb.create(laurels.Board("b", columns=columns))
    lb.submit_many("b", [("a", (3, 0)), ("b", (3, 4)), ("c", (2, 1)), ("d", (1, 0)), ("e", (1, 9))])
    assert members(lb.range("b", low=(2,), high=(3,))) == ["a", "b", "c"]
    assert members(lb.range("b", low=(1, 5), high=(3, 2))) == ["b", "c", "d"]
    assert members(lb.range("b", low=(3, 2), high=(1, 5))) == ["b", "c", "d"]
    assert members(lb.range("b", low=(3,), high=(3, 0))) == ["a", "b"]
    assert lb.count("b", high=(2,)) == 3


def test_at_rank_finds_the_holder_of_an_ordinal_position(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", rank="dense", tie="member"))
    lb.submit_many("b", [("ann", 5), ("bob", 5), ("cid", 1)])
    holders = [lb.at_rank("b", rank) for rank in (1, 2, 3, 4)]
    ranked = [holder and (holder.member, holder.rank) for holder in holders]
    assert ranked == [("ann", 1), ("bob", 1), ("cid", 2), None]


@pytest.mark.parametrize(
    ("percentile", "score"),
    [(0, 0), (10, 0), (10.1, 1), ("10.1", 1), (50, 4), (50.5, 5), (99.99, 9), (100, 9)],
)
def test_percentiles_count_from_the_worst_score_and_use_the_nearest_rank(
    ten: laurels.Leaderboards, percentile: Any, score: int
) -> None:
    assert ten.score_at_percentile("b", percentile) == score


def test_a_percentile_is_exact_where_a_float_would_not_be(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [(f"m{i}", i) for i in range(1000)])
    assert lb.score_at_percentile("b", 0.1) == 0
    assert lb.score_at_percentile("b", 55.1) == 550
    assert lb.score_at_percentile("b", 100 / 3) == 333


@pytest.mark.parametrize("percentile", [-1, 100.1, "x", None, float("nan"), True])
def test_a_wrong_percentile_is_refused(ten: laurels.Leaderboards, percentile: Any) -> None:
    with pytest.raises(InvalidPercentile):
        ten.score_at_percentile("b", percentile)


@pytest.mark.parametrize("tie", ["first", "member"])
def test_totals_at_the_bounds_are_exact(lb: laurels.Leaderboards, tie: Any) -> None:
    most = 2**53 - 1
    lb.create(laurels.Board("b", tie=tie, windows=["all", "day"]))
    lb.submit("b", "x", -most)
    assert lb.submit_many("b", [("x", most), ("x", most - 1)]).applied == 2
    assert scores(lb.top("b")) == {"x": most - 1}
    lb.submit("b", "y", 1 - most)
    assert lb.set("b", "y", most).score == most
    lb.submit("b", "z", -most)
    lb.set("b", "z", -1)
    assert scores(lb.top("b")) == {"x": most - 1, "y": most, "z": -1}
