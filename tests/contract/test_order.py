"""Ties and rank styles: the order has no undecided ties, and members share a rank only if all their
columns are equal."""

from __future__ import annotations

import pytest

import laurels
from laurels.model.board_fields import Tie
from laurels.model.rules import RankStyle
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, ranks

FIVE = [("ann", 5), ("bob", 7), ("cid", 5), ("dan", 3), ("eve", 5)]


@pytest.mark.parametrize(
    ("style", "expected"),
    [("ordinal", [1, 2, 3, 4, 5]), ("competition", [1, 2, 2, 2, 5]), ("dense", [1, 2, 2, 2, 3])],
)
def test_the_rank_style_decides_which_members_share_a_rank(
    lb: laurels.Leaderboards, style: RankStyle, expected: list[int]
) -> None:
    lb.create(laurels.Board("b", rank=style))
    lb.submit_many("b", FIVE)
    assert ranks(lb.top("b")) == expected
    standings = [lb.standing("b", member) for member in members(lb.top("b"))]
    assert [standing and standing.rank for standing in standings] == expected
    assert ranks(lb.top("b", reverse=True)) == expected[::-1]
    assert ranks(lb.top("b", limit=2, offset=2)) == expected[2:4]


@pytest.mark.parametrize(
    ("tie", "expected"),
    [("first", ["zoe", "ann", "bob"]), ("last", ["bob", "ann", "zoe"]), ("member", None)],
)
def test_the_tie_rule_orders_equal_scores(
    lb: laurels.Leaderboards, tie: Tie, expected: list[str] | None
) -> None:
    lb.create(laurels.Board("b", tie=tie))
    events = [("bob", 5, NOW_MS - 1), ("zoe", 5, NOW_MS - 3), ("ann", 5, NOW_MS - 2)]
    lb.submit_many("b", events)
    assert members(lb.top("b")) == (expected or ["ann", "bob", "zoe"])


def test_a_sum_is_reached_with_the_latest_event_that_counts(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 5, NOW_MS - 3), ("bob", 5, NOW_MS - 2), ("ann", 0, NOW_MS - 1)])
    assert members(lb.top("b")) == ["bob", "ann"]


def test_the_time_at_which_a_score_is_reached_does_not_depend_on_arrival(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 2, NOW_MS - 1), ("bob", 5, NOW_MS - 2), ("ann", 3, NOW_MS - 9)])
    assert members(lb.top("b")) == ["bob", "ann"]


def test_a_best_score_is_reached_when_it_was_first_scored(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(op="best")]))
    lb.submit_many("b", [("ann", 5, NOW_MS - 2), ("bob", 5, NOW_MS - 3), ("ann", 5, NOW_MS - 4)])
    assert members(lb.top("b")) == ["ann", "bob"]


def test_the_tie_resolution_makes_close_times_equal(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", tie_resolution="1s"))
    second = NOW_MS - NOW_MS % 1000
    lb.submit_many("b", [("bob", 5, second - 1000), ("ann", 5, second - 1), ("zoe", 5, second)])
    assert members(lb.top("b")) == ["ann", "bob", "zoe"]


def test_members_are_ordered_by_their_bytes(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", tie="member"))
    names = ["é", "a", "B", "ab", "a\x00", "日本", "\U0001f600", "\uffff", "aa"]
    lb.submit_many("b", [(name, 1) for name in names])
    assert members(lb.top("b")) == sorted(names, key=str.encode)


def test_an_ascending_board_lists_the_lowest_score_first(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(order="asc")]))
    lb.submit_many("b", [("ann", 5), ("bob", -7), ("cid", 0)])
    assert members(lb.top("b")) == ["bob", "cid", "ann"]
    cid = lb.standing("b", "cid")
    assert cid is not None
    assert cid.above == laurels.Neighbour("bob", 1, -7, 7)


def test_columns_are_compared_in_turn(lb: laurels.Leaderboards) -> None:
    columns = [laurels.Column("wins"), laurels.Column("lost", order="asc")]
    lb.create(laurels.Board("b", columns=columns, rank="competition"))
    lb.submit_many("b", [("ann", (3, 2)), ("bob", (3, 1)), ("cid", (4, 9)), ("dan", (3, 2))])
    assert members(lb.top("b")) == ["cid", "bob", "ann", "dan"]
    assert ranks(lb.top("b")) == [1, 2, 3, 3]
    bob = lb.standing("b", "bob")
    assert bob is not None
    assert bob.above == laurels.Neighbour("cid", 1, (4, 9), (1, -8))


def test_ranks_are_right_on_a_page_that_begins_inside_a_tie(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", rank="competition"))
    lb.submit_many("b", [(f"m{i:03}", 1) for i in range(100)] + [("top", 2)])
    assert ranks(lb.top("b", offset=50, limit=3)) == [2, 2, 2]
    holder = lb.at_rank("b", 60)
    assert holder is not None
    assert (holder.member, holder.rank) == ("m058", 2)
