"""Compare boards that have a head with the oracle, which keeps all members in order. On every
store, the true rank has to be within the bounds, an exact rank has to equal the oracle's, and lists
have to end with the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import BeyondHead
from tests.comparison import assert_entries, board_of, public_score, typed
from tests.definitions import Definition, Place, Report
from tests.oracle import Oracle
from tests.oracle_board import OracleBoard

HEAD = 100


class Pair:
    """A board with a head, and the oracle, which keeps all members in order. `check` sends the
    queries about single members for `sampled` random members and those around the end of the
    head."""

    sampled = 8

    def __init__(
        self, lb: laurels.Leaderboards, clock: laurels.ManualClock, definition: Definition
    ) -> None:
        self.lb, self.clock, self.definition = lb, clock, definition
        self.name = definition.name
        self.oracle = Oracle(clock.now_ms)
        self.oracle.create(definition)
        lb.create(board_of(definition))

    @property
    def board(self) -> OracleBoard:
        return self.oracle.boards[self.name]

    @property
    def head(self) -> int:
        return self.definition.head

    def submit(self, events: list[tuple[Any, ...]]) -> None:
        self.lb.submit_many(self.name, events)
        self.oracle.submit_many(self.name, [Report(*event) for event in events])

    def remove(self, member: str) -> None:
        assert self.lb.remove(self.name, member) == self.oracle.remove(self.name, member)

    def change(self, head: int) -> None:
        self.definition = replace(self.definition, head=head)
        self.lb.change(self.name, head=head)
        self.oracle.change(self.definition)

    def hide_zero(self, *, hidden: bool) -> None:
        """Change whether members whose score is 0 are ranked."""
        self.definition = replace(self.definition, hide_zero=hidden)
        assert self.lb.change(self.name, hide_zero=hidden) == board_of(self.definition)
        self.oracle.change(self.definition)

    def places(self, window: str | None = None, period: str | None = None) -> list[Place]:
        return self.oracle.places(self.name, window, period)

    def check(self, rng: Random, window: str | None = None, period: str | None = None) -> None:
        """Send every query about one ranking, and compare the answers with the oracle's."""
        places = self.places(window, period)
        where: dict[str, Any] = {"window": window, "period": period}
        self._lists(places, where)
        members = [place.member for place in rng.sample(places, min(self.sampled, len(places)))]
        members += [place.member for place in places[self.head - 2 : self.head + 2]]
        for member in members:
            place = next(each for each in places if each.member == member)
            self._member(place, places, where)
        self._together(members, places, where)
        assert self.lb.standing(self.name, "nobody", **where) is None
        assert self.lb.rank(self.name, "nobody", **where) is None

    def _certain(self, page: laurels.Page, total: int) -> int:
        """Return how many positions of the ranking can be listed: `certain` of the page, or all
        positions if `certain` is None."""
        assert page.total == total
        if page.certain is None:
            assert not self.head or total <= self.head
            return total
        assert 0 <= page.certain <= self.head
        assert page.certain < total
        return page.certain

    def _lists(self, places: list[Place], where: dict[str, Any]) -> None:
        lb, total = self.lb, len(places)
        page = lb.top(self.name, limit=2 * HEAD + 50, **where)
        certain = self._certain(page, total)
        assert_entries(page.entries, places[:certain], self.definition)
        assert page.next is None
        walked = list(walk(lambda after: lb.top(self.name, limit=33, after=after, **where)))
        assert_entries(walked, places[:certain], self.definition)
        for position in (1, certain, certain + 1, total, total + 1):
            self._position(position, places, certain, where)
        if certain < total:
            if total > self.head:
                assert_beyond(lambda: lb.top(self.name, offset=self.head, **where))
            for below in (
                lambda: lb.top(self.name, reverse=True, **where),
                lambda: list(lb.export(self.name, **where)),
                lambda: lb.score_at_percentile(self.name, 0, **where),
            ):
                assert_beyond(below)
        else:
            assert_entries(
                lb.top(self.name, reverse=True, limit=5, **where).entries,
                places[::-1][:5],
                self.definition,
            )
            assert_entries(list(lb.export(self.name, **where)), places, self.definition)
        assert lb.count(self.name, **where) == total

    def _position(
        self, position: int, places: list[Place], certain: int, where: dict[str, Any]
    ) -> None:
        if position < 1:
            return
        if position > len(places):
            assert self.lb.at_rank(self.name, position, **where) is None
        elif position <= certain:
            holder = self.lb.at_rank(self.name, position, **where)
            assert holder is not None
            assert (holder.member, holder.exact) == (places[position - 1].member, True)
        else:
            assert_beyond(lambda: self.lb.at_rank(self.name, position, **where))

    def _member(self, place: Place, places: list[Place], where: dict[str, Any]) -> None:
        lb, member, total = self.lb, place.member, len(places)
        standing = lb.standing(self.name, member, **where)
        assert standing is not None
        assert typed(standing.score) == typed(public_score(place.score, self.definition))
        assert standing.total == total
        self._within(standing.rank_low, standing.rank_high, standing.grid_age, place)
        assert standing.rank == (standing.rank_low + standing.rank_high) // 2
        assert standing.exact == (standing.rank_low == standing.rank_high)
        certain = self._certain(lb.top(self.name, limit=0, **where), total)
        if place.position <= certain:
            assert standing.exact
            self._neighbours(standing, place, places[:certain])
            around = lb.around(self.name, member, radius=3, **where)
            assert around is not None
            listed = places[:certain]
            start = max(0, min(place.position - 4, len(listed) - 7))
            assert_entries(around.entries, listed[start : start + 7], self.definition)
            return
        assert (standing.above, standing.below) == (None, None)
        assert_beyond(lambda: lb.around(self.name, member, **where))
        if certain == self.head:
            last = places[self.head - 1]
            gap = public_score(self.board.gap(last.score, place.score), self.definition)
            assert standing.to_rank == laurels.Gap(self.head, gap)
        if self.head < total:
            assert_beyond(lambda: lb.standing(self.name, member, to_rank=self.head + 1, **where))

    def _neighbours(self, standing: laurels.Standing, place: Place, listed: list[Place]) -> None:
        at = place.position - 1
        above = listed[at - 1].member if at else None
        below = listed[at + 1].member if at + 1 < len(listed) else None
        assert (standing.above and standing.above.member) == above
        assert (standing.below and standing.below.member) == below

    def _together(self, members: list[str], places: list[Place], where: dict[str, Any]) -> None:
        """Check the ranks of several members that are requested together, and the order of these
        members."""
        by_member = {place.member: place for place in places}
        ranks = self.lb.ranks(self.name, [*members, "nobody"], **where)
        assert ranks[-1] is None
        for member, rank in zip(members, ranks, strict=False):
            for answer in (rank, self.lb.rank(self.name, member, **where)):
                self._within(*bounds(answer), None, by_member[member])
        friends = self.lb.standings(self.name, members, **where).entries
        expected = self.board.friends(places, members)
        assert [entry.member for entry in friends] == [place.member for place, _ in expected]
        assert [entry.place for entry in friends] == [own.rank for _, own in expected]
        for entry, (place, _) in zip(friends, expected, strict=True):
            low, high = entry.rank_low or entry.rank, entry.rank_high or entry.rank
            self._within(low, high, None, place)
            assert entry.rank == (low + high) // 2
        stored = self.lb.entries(self.name, members, **where)
        assert [entry.member for entry in stored] == members
        assert all(entry.score is not None for entry in stored)

    def _within(self, low: int, high: int, grid_age: int | None, place: Place) -> None:
        """Check that the true rank is between the bounds, and that the bounds are as close as
        documented."""
        assert low <= place.rank <= high
        if low != high and grid_age is not None:
            fresh = max(place.rank // 50, self.head // 50, 200)
            assert grid_age >= 0
            assert high - low <= fresh + grid_age


def bounds(rank: int | laurels.Estimate | None) -> tuple[int, int]:
    assert rank is not None
    return (rank, rank) if isinstance(rank, int) else (rank.low, rank.high)


def walk(page: Callable[[str | None], laurels.Page]) -> Iterator[laurels.Entry]:
    """Yield the entries of all pages."""
    after: str | None = None
    while True:
        current = page(after)
        yield from current.entries
        if (after := current.next) is None:
            return


def assert_beyond(query: Callable[[], object]) -> None:
    with pytest.raises(BeyondHead) as refused:
        query()
    assert (refused.value.code, refused.value.status) == ("beyond_head", 409)
