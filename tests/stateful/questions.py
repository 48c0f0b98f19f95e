"""Compare the answers of a deployment and the oracle to every kind of query about a ranking."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import laurels
from tests.comparison import assert_entries, assert_standing, public_score
from tests.definitions import ALL, Row, Scope, Score
from tests.oracle import Oracle
from tests.oracle_board import OracleBoard
from tests.stateful.choices import MEMBERS, VALUES
from tests.stateful.needs import Needs


@dataclass(frozen=True)
class Bookmark:
    """The end of a page that was read: its cursor, and its last entry as it was then."""

    board: OracleBoard
    cursor: str
    row: Row


Bookmarks = dict[tuple[str, str, str | None, Scope, bool], Bookmark]


class Questions:
    """Queries about one ranking. The answers of the deployment `lb` must equal those of the
    oracle."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        oracle: Oracle,
        name: str,
        window: str,
        label: str | None,
        scope: Scope = ALL,
    ) -> None:
        self.lb = lb
        self.oracle = oracle
        self.name = name
        self.board = oracle.boards[name]
        self.definition = self.board.definition
        self.places = oracle.places(name, window, label, scope)
        self.scope = scope
        self.members = MEMBERS if scope.by is None else tuple(dict.fromkeys(VALUES))
        self.place: dict[str, Any] = {"window": window, "period": label}
        self.where = {**self.place, **scope.arguments}

    def whole(self, rng: Random) -> None:
        """Compare every entry of the ranking, the data of its members, and some standings."""
        entries = list(self.lb.export(self.name, with_data=True, **self.where))
        assert_entries(entries, self.places, self.definition)
        carried = [self.board.profiles.get(place.member) for place in self.places]
        assert [entry.data for entry in entries] == carried
        for member in rng.sample(self.members, 3):
            standing = self.lb.standing(self.name, member, **self.where)
            assert_standing(standing, self.board.card(self.places, member), self.definition)

    def every(self, rng: Random) -> None:
        """Compare one random query of each kind."""
        for query in (
            self.top,
            self.around,
            self.friends,
            self.at_rank,
            self.gap_to_rank,
            self.needed,
            self.percentile,
            self.between,
        ):
            query(rng)

    def top(self, rng: Random) -> None:
        limit, offset, reverse = rng.randint(0, 5), rng.randint(0, 4), rng.random() < 0.5
        page = self.lb.top(self.name, limit=limit, offset=offset, reverse=reverse, **self.where)
        turned = self.places[::-1] if reverse else self.places
        assert_entries(page.entries, turned[offset : offset + limit], self.definition)
        assert page.total == len(self.places)
        assert (page.as_of.window, page.as_of.period) == (
            self.where["window"],
            self.where["period"],
        )
        labels = dict(self.scope.labels) if self.definition.labels else None
        assert (page.as_of.labels, page.as_of.by) == (labels, self.scope.by)

    def next_page(self, bookmarks: Bookmarks, rng: Random) -> None:
        """Compare the page that follows the last page read of this ranking. That page may have been
        read long ago."""
        reverse, limit = rng.random() < 0.5, rng.randint(1, 3)
        key = (self.name, self.where["window"], self.where["period"], self.scope, reverse)
        mark = bookmarks.pop(key, None)
        if mark is not None and mark.board is not self.board:
            mark = None
        cursor, row = (None, None) if mark is None else (mark.cursor, mark.row)
        page = self.lb.top(self.name, limit=limit, reverse=reverse, after=cursor, **self.where)
        following = self.oracle.top(
            self.name, limit=99, reverse=reverse, after=row, scope=self.scope, **self.place
        )
        assert_entries(page.entries, following[:limit], self.definition)
        assert (page.next is not None) == (len(following) > limit)
        if page.next is not None:
            bookmarks[key] = Bookmark(self.board, page.next, following[limit - 1].row)

    def around(self, rng: Random) -> None:
        member, radius = rng.choice(self.members), rng.randint(0, 4)
        page = self.lb.around(self.name, member, radius=radius, **self.where)
        expected = self.board.around(self.places, member, radius)
        assert (page is None) == (expected is None)
        if page is not None and expected is not None:
            assert_entries(page.entries, expected, self.definition)

    def friends(self, rng: Random) -> None:
        chosen = rng.sample(self.members, rng.randint(0, len(self.members)))
        entries = self.lb.standings(self.name, chosen, **self.where).entries
        expected = self.board.friends(self.places, chosen)
        assert_entries(entries, [place for place, _ in expected], self.definition)
        assert [entry.place for entry in entries] == [among.rank for _, among in expected]
        ranks = {place.member: place.rank for place in self.places}
        actual = self.lb.ranks(self.name, chosen, **self.where)
        assert actual == [ranks.get(member) for member in chosen]
        assert [self.lb.rank(self.name, each, **self.where) for each in chosen[:2]] == actual[:2]

    def at_rank(self, rng: Random) -> None:
        rank = rng.randint(1, len(self.places) + 2)
        standing = self.lb.at_rank(self.name, rank, **self.where)
        holder = self.places[rank - 1].member if rank <= len(self.places) else ""
        assert_standing(standing, self.board.card(self.places, holder), self.definition)

    def gap_to_rank(self, rng: Random) -> None:
        if not self.places:
            return
        rank, member = rng.randint(1, len(self.places) + 2), rng.choice(self.places).member
        standing = self.lb.standing(self.name, member, to_rank=rank, **self.where)
        assert standing is not None
        gap = self.board.gap_to_rank(self.places, member, rank)
        assert standing.to_rank == laurels.Gap(rank, public_score(gap, self.definition))

    def needed(self, rng: Random) -> None:
        """Compare `needed`. It is about one event in the current period, even if this ranking is of
        another period."""
        if self.scope.by is None:
            needs = Needs(
                self.lb,
                self.oracle,
                self.name,
                self.place["window"],
                self.scope,
                rng.choice(MEMBERS),
                rng.randint(1, len(self.places) + 2),
                rng.randrange(len(self.definition.columns)),
            )
            needs.check(rng)

    def percentile(self, rng: Random) -> None:
        percentile = rng.choice([0, 1, 50, 100, 33.3, 12.5])
        score = self.lb.score_at_percentile(self.name, percentile, **self.where)
        expected = self.board.at_percentile(self.places, Fraction(str(percentile)))
        assert score == public_score(expected, self.definition)

    def _bound(self, rng: Random, width: int) -> Score | None:
        """Return the first `width` columns of a random member's score, or sometimes None, for no
        bound."""
        score = rng.choice(self.places).score
        return None if rng.random() < 0.2 else type(score)(score[:width])

    def between(self, rng: Random) -> None:
        """Compare `count` and `range` between two bounds. A bound is the score of a member, or the
        first columns of such a score."""
        if not self.places:
            return
        width = rng.randint(1, len(self.definition.columns))
        low, high = (self._bound(rng, width) for _ in range(2))
        if low and high and len(self.definition.columns) == 1:
            low, high = sorted([low, high])
        inside = self.board.between(self.places, low, high)
        bounds = {
            "low": public_score(low, self.definition),
            "high": public_score(high, self.definition),
        }
        assert self.lb.count(self.name, **bounds, **self.where) == len(inside)
        limit, offset = rng.randint(0, 4), rng.randint(0, 3)
        page = self.lb.range(self.name, limit=limit, offset=offset, **bounds, **self.where)
        assert_entries(page.entries, inside[offset : offset + limit], self.definition)
