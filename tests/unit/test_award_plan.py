"""How much of a ranking is read to find the winners of its prizes."""

from __future__ import annotations

from typing import Any

import pytest

from laurels.core.award_plan import WinPage, plan_wins, prize_reading
from laurels.core.index import Slice
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest
from laurels.model.board import Board
from laurels.model.prizes import prizes_of

TOTAL = 10_000_000
KEY = RankingKey(1, "all", 0)


class WideRanking:
    """A ranking of ten million members, computed when it is read. Groups of `tied` members have
    equal columns: position p has the column p // tied. `read` counts the entries that were read."""

    def __init__(self, tied: int) -> None:
        self.tied = tied
        self.read = 0

    def size(self, key: RankingKey) -> int:
        return TOTAL

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        self.read += stop - start
        positions = range(start, stop)
        columns = [position // self.tied for position in positions]
        return Slice(start, [f"m{position}" for position in positions], positions, [columns])

    def bound(self, key: RankingKey, words: Any, member: object = None, *, right: bool) -> int:
        return int(min(TOTAL, self.tied * (words[0] + right)))


def read(index: Any, prizes: dict[str, Any], start: int = 0, limit: int = 1_000) -> WinPage:
    """Return a page of wins."""
    rules = Board("b", tie="member", columns=[{"order": "asc"}]).rules()
    reading = prize_reading(rules, ReadRequest(KEY), prizes_of(prizes), 0)
    return plan_wins(reading, start, limit, lambda page, _: page).run_local(index, 0)


@pytest.mark.parametrize(
    ("ties", "tied", "most"), [("all", 1, 11), ("all", 4, 13), ("first", 4, 11), ("split", 7, 15)]
)
def test_prizes_for_ten_read_ten_members_and_the_rest_of_the_last_tie(
    ties: str, tied: int, most: int
) -> None:
    index = WideRanking(tied)
    prizes = {"list": [{"name": "p", "ranks": [1, 10], "amount": 1}], "ties": ties}
    page = read(index, prizes)
    winners = 10 if ties == "first" else -(-10 // tied) * tied
    assert (page.winners, page.total, page.next) == (winners, TOTAL, None)
    assert index.read <= most


def test_a_page_in_the_middle_of_a_long_tie_reads_only_itself() -> None:
    index = WideRanking(1_000_000)
    prizes = {"list": [{"name": "p", "ranks": [1, 10]}]}
    page = read(index, prizes, start=500_000, limit=10)
    assert [win.position for win, _ in page.wins] == list(range(500_000, 500_010))
    assert (page.winners, page.next) == (1_000_000, 500_010)
    assert index.read <= 11


def test_prizes_for_a_score_count_the_members_that_have_reached_it() -> None:
    index = WideRanking(2)
    page = read(index, {"list": [{"name": "p", "at_least": 4}]}, start=8, limit=10)
    assert [win.member for win, _ in page.wins] == ["m8", "m9"]
    assert (page.winners, page.next) == (10, None)


def test_shares_of_a_tie_that_extends_over_pages_are_those_of_the_whole_tie() -> None:
    index = WideRanking(7)
    prizes = {"list": [{"name": "p", "ranks": [1, 10], "amount": 3}], "ties": "split"}
    units = [win.units for start in range(14) for win, _ in read(index, prizes, start, 1).wins]
    assert units == [3] * 7 + [2, 2, 1, 1, 1, 1, 1]
    assert sum(filter(None, units)) == 30
