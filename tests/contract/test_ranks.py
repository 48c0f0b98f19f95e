"""`rank` and `ranks` return, for one member or many, the same ranks as `standing`."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import UnknownPeriod, UnknownWindow
from laurels.model.rules import RankStyle
from tests.contract.conftest import NOW_MS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("ordinal", [5, None, 3, 2, 5]),
        ("competition", [5, None, 2, 2, 5]),
        ("dense", [4, None, 2, 2, 4]),
    ],
)
def test_ranks_are_in_the_requested_order(
    lb: laurels.Leaderboards, style: RankStyle, expected: list[int | None]
) -> None:
    lb.create(laurels.Board("b", rank=style, tie="member"))
    lb.submit_many("b", [("ann", 5), ("bob", 7), ("cid", 5), ("dan", 3), ("eve", 1)])
    members = ["eve", "nobody", "cid", "ann", "eve"]
    assert lb.ranks("b", members) == expected
    assert lb.ranks("b", iter(members)) == expected
    assert [lb.rank("b", member) for member in members] == expected


def test_an_empty_board_has_no_ranks(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.rank("b", "ann") is None
    assert lb.ranks("b", ["ann", "bob"]) == [None, None]
    assert lb.ranks("b", []) == []


def test_members_may_have_letters_of_any_alphabet(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("änn", 5), ("鲍勃", 7), ("c" * 128, 6)])
    assert lb.ranks("b", ["鲍勃", "änn", "c" * 128, "ann"]) == [1, 3, 2, None]
    assert lb.rank("b", "鲍勃") == 1


def test_ranks_of_thousands_equal_the_ranks_of_single_queries(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [(f"m{i}", i * 7919 % 1_000) for i in range(1_000)])
    members = [f"m{i}" for i in range(-5, 1_005)]
    ranks = lb.ranks("b", members)
    assert ranks[:5] == [None] * 5
    assert {*ranks[5:-5]} == {*range(1, 1_001)}
    for i in range(0, len(members), 97):
        standing = lb.standing("b", members[i])
        assert (standing and standing.rank) == ranks[i] == lb.rank("b", members[i])


def test_a_rank_can_be_requested_for_a_window_and_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [("ann", 5), ("bob", 7)])
    today = lb.periods("b", "day")[0].label
    clock.set(NOW_MS + DAY_MS)
    assert (lb.rank("b", "ann"), lb.rank("b", "ann", window="day")) == (2, None)
    lb.submit("b", "ann", 1)
    assert lb.ranks("b", ["ann", "bob"], window="day") == [1, None]
    assert lb.ranks("b", ["ann", "bob"], window="day", period=today) == [2, 1]
    with pytest.raises(UnknownPeriod):
        lb.rank("b", "ann", period=today)
    with pytest.raises(UnknownWindow):
        lb.ranks("b", ["ann"], window="week")


def test_a_repeated_rank_query_shows_the_running_step_and_day(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day", "2h=rolling:2h/1h"]))

    def twice(window: str) -> set[tuple[object, ...]]:
        """Request the ranks one by one and together, each twice. Return the set of answers, which
        has one element if all agree."""
        pair = ["ann", "bob"]
        answers: set[tuple[object, ...]] = set()
        for _ in range(2):
            answers.add(tuple([lb.rank("b", member, window=window) for member in pair]))
            answers.add(tuple(lb.ranks("b", pair, window=window)))
        return answers

    lb.submit_many("b", [("ann", 5), ("bob", 7)])
    assert twice("2h") == twice("day") == twice("all") == {(2, 1)}
    clock.advance(HOUR_MS)
    lb.submit("b", "ann", 1)
    assert twice("2h") == {(2, 1)}
    clock.advance(HOUR_MS)
    assert twice("2h") == {(1, None)}
    assert twice("day") == {(2, 1)}
    clock.advance(HOUR_MS)
    assert twice("2h") == {(None, None)}
    clock.advance(DAY_MS)
    assert twice("day") == {(None, None)}
    assert twice("all") == {(2, 1)}


def test_a_rank_can_be_requested_for_a_scope(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[[], ["room"]], rank_by="room"))
    for member, value, room in [("ann", 5, "1"), ("bob", 7, "1"), ("ann", 4, "2")]:
        lb.submit("b", member, value, labels={"room": room})
    assert lb.ranks("b", ["ann", "bob"]) == [1, 2]
    assert lb.ranks("b", ["ann", "bob"], labels={"room": "1"}) == [2, 1]
    assert lb.rank("b", "bob", labels={"room": "2"}) is None
    assert lb.ranks("b", ["1", "2", "ann"], by="room") == [1, 2, None]


def test_ranks_follow_a_changed_or_recreated_board(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 5), ("bob", 7)])
    assert lb.rank("b", "ann") == 2
    lb.change("b", windows=["all", "day"])
    lb.submit("b", "ann", 1)
    assert (lb.rank("b", "ann", window="day"), lb.rank("b", "ann")) == (1, 2)
    lb.delete("b")
    lb.create(laurels.Board("b", windows=["day"]))
    assert lb.rank("b", "ann") is None
    lb.submit("b", "ann", 1)
    assert lb.rank("b", "ann") == 1
