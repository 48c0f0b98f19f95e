"""The leaders, the standing of a member, and what the member needs to move up."""

from __future__ import annotations

import laurels
from laurels.core.index import changes
from tests.contract.reading import members, ranks, scores


def gifts(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("gifts"))
    lb.submit_many("gifts", [("ann", 30), ("bob", 10), ("cid", 20), ("ann", 5)])


def test_the_leader_comes_first_with_the_sum_of_its_events(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    page = lb.top("gifts")
    assert scores(page) == {"ann": 35, "cid": 20, "bob": 10}
    assert ranks(page) == [1, 2, 3]
    assert page.total == 3


def test_a_standing_names_the_neighbours_and_the_gaps(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    cid = lb.standing("gifts", "cid", to_rank=1)
    assert cid is not None
    assert (cid.rank, cid.score, cid.total) == (2, 20, 3)
    assert cid.above == laurels.Neighbour("ann", 1, 35, 15)
    assert cid.below == laurels.Neighbour("bob", 3, 10, 10)
    assert cid.to_rank == laurels.Gap(1, 15)
    assert round(cid.percent, 6) == 66.666667


def test_the_ends_of_a_ranking_have_one_neighbour(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    first, last = lb.standing("gifts", "ann"), lb.standing("gifts", "bob")
    assert first is not None
    assert last is not None
    assert first.above is None
    assert last.below is None
    assert last.percent == 100


def test_the_gap_to_a_reached_or_empty_rank_is_zero(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    for rank in (2, 3, 4, 1000):
        cid = lb.standing("gifts", "cid", to_rank=rank)
        assert cid is not None
        assert cid.to_rank == laurels.Gap(rank, 0)


def test_a_member_without_events_has_no_standing(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    assert lb.standing("gifts", "dan") is None
    assert lb.around("gifts", "dan") is None


def test_an_empty_board_answers_empty_pages(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("gifts"))
    assert lb.top("gifts").entries == []
    assert lb.top("gifts").total == 0
    assert lb.at_rank("gifts", 1) is None
    assert lb.count("gifts") == 0
    assert lb.score_at_percentile("gifts", 50) is None
    assert list(lb.export("gifts")) == []


def test_limit_offset_and_reverse_cut_the_ranking(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    assert members(lb.top("gifts", limit=1)) == ["ann"]
    assert members(lb.top("gifts", limit=1, offset=1)) == ["cid"]
    assert members(lb.top("gifts", limit=0)) == []
    assert members(lb.top("gifts", offset=7)) == []
    assert members(lb.top("gifts", reverse=True, limit=2)) == ["bob", "cid"]
    assert ranks(lb.top("gifts", reverse=True, limit=2)) == [3, 2]


def test_boards_are_independent(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    lb.create(laurels.Board("likes"))
    lb.submit("likes", "ann", 1)
    assert scores(lb.top("likes")) == {"ann": 1}
    assert scores(lb.top("gifts"))["ann"] == 35


def test_queries_without_a_write_in_between_have_the_same_as_of(lb: laurels.Leaderboards) -> None:
    gifts(lb)
    before = lb.top("gifts").as_of
    standing = lb.standing("gifts", "ann")
    assert standing is not None
    assert standing.as_of == before
    assert before.window == "all"
    assert before.period is None
    receipt = lb.submit("gifts", "dan", 1)
    after = lb.top("gifts").as_of
    assert after.offset == receipt.offset
    assert changes(after.offset) > changes(before.offset)


def test_queries_write_nothing(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    gifts(lb)
    before = lb.stats().offset
    clock.advance(40 * 86_400_000)
    lb.top("gifts")
    lb.periods("gifts")
    lb.standing("gifts", "ann")
    assert lb.stats().offset == before
