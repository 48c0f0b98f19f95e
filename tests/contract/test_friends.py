"""Friends: the ranking of some members among themselves, with their ranks in the whole ranking."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

import laurels
from laurels.model.rules import RankStyle
from tests.contract.reading import members, ranks


@pytest.mark.parametrize(
    ("style", "expected", "places"),
    [
        ("ordinal", [2, 3, 5], [1, 2, 3]),
        ("competition", [2, 2, 5], [1, 1, 3]),
        ("dense", [2, 2, 4], [1, 1, 2]),
    ],
)
def test_friends_have_two_ranks(
    lb: laurels.Leaderboards, style: RankStyle, expected: list[int], places: list[int]
) -> None:
    lb.create(laurels.Board("b", rank=style, tie="member"))
    lb.submit_many("b", [("ann", 5), ("bob", 7), ("cid", 5), ("dan", 3), ("eve", 1)])
    page = lb.standings("b", ["eve", "nobody", "cid", "ann", "eve"])
    assert members(page) == ["ann", "cid", "eve"]
    assert ranks(page) == expected
    assert [entry.place for entry in page.entries] == places


def test_friends_without_a_ranked_member_are_an_empty_page(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.standings("b", ["ann", "bob"]).entries == []
    assert lb.standings("b", []).entries == []


def test_an_iterator_passed_as_members_may_use_the_store(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))

    def members() -> Iterator[str]:
        for name in ("ann", "bob"):
            lb.submit("b", name, 1)
            yield name

    assert [entry.member for entry in lb.standings("b", members()).entries] == ["ann", "bob"]


def test_an_endless_list_of_members_is_refused(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(laurels.errors.InvalidLimit):
        lb.standings("b", (f"m{i}" for i in count()))
