"""The queries: every question about a board, each declared once.

Each query is a type, as `query.py` describes. The endpoints of the service, their OpenAPI
description and the client are made from these types. So a new query needs one more class here, in
`member_queries.py` or in `board_queries.py`, an item in `QUERIES`, and a verb of `Leaderboards`
that asks it.
"""

from typing import Any

from msgspec import Struct, field

from laurels.errors import InvalidLimit, InvalidOffset, InvalidRank
from laurels.errors.service import RankNotHeld
from laurels.model.score import Score

from .archive_pieces import ArchivePieces
from .archived import Archived
from .between import Bound, Percentile, percentile_share
from .board_queries import HiddenOn, Periods, Scopes
from .member_queries import (
    Around,
    Card,
    EntriesOf,
    NeededFor,
    RankOf,
    RanksOf,
    StandingOf,
    StandingsOf,
)
from .payout_queries import PayoutsOf
from .query import ListQuery, Query, RankingQuery
from .query_context import QueryContext
from .read_plan import MAX_LIMIT, ReadPlan
from .settling import Settle
from .standing import Page, Standing


class Top(ListQuery[Page], frozen=True, kw_only=True):
    """The first entries of a ranking. A cursor or an offset selects later entries."""

    verb = "top"
    path = "top"
    returns = Page
    shared = True
    cacheable = True

    limit: int = 10
    offset: int = 0
    reverse: bool = False
    after: str | None = None

    def __post_init__(self) -> None:
        self._ensure("limit", 0, MAX_LIMIT, InvalidLimit)
        self._ensure("offset", 0, None, InvalidOffset)

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[Page]:
        view = self._view(now, self.after)
        return view.top(self.limit, self.offset, self.reverse, self.with_data)


class Range(ListQuery[Page], frozen=True, kw_only=True):
    """The entries with scores from low to high."""

    verb = "range"
    path = "range"
    returns = Page
    cacheable = True

    low: Bound | None = None
    high: Bound | None = None
    limit: int = 100
    offset: int = 0
    after: str | None = None

    def __post_init__(self) -> None:
        self._ensure("limit", 0, MAX_LIMIT, InvalidLimit)
        self._ensure("offset", 0, None, InvalidOffset)

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[Page]:
        view = self._view(now, self.after)
        return view.range(self.low, self.high, self.limit, self.offset, self.with_data)


class AtRank(ListQuery[Standing | None], frozen=True, kw_only=True):
    """The member at a position of a ranking."""

    verb = "at_rank"
    path = "at-rank"
    returns = Standing
    cacheable = True
    absent = RankNotHeld

    rank: int

    def __post_init__(self) -> None:
        self._ensure("rank", 1, None, InvalidRank)

    def plan(self, now: QueryContext) -> ReadPlan[Standing | None]:
        return self._view(now).at_rank(self.rank, self.with_data)

    def to_answer(self, result: Standing | None) -> Standing:
        if result is None:
            raise RankNotHeld(f"no member has rank {self.rank}")
        return result


class ScoreAnswer(Struct, frozen=True):
    """A score; null on an empty ranking."""

    score: Score | None


class ScoreAtPercentile(RankingQuery[Score | None], frozen=True, kw_only=True):
    """The score at a percentile: at least this percentage of the members have this score or a worse
    one."""

    verb = "score_at_percentile"
    path = "percentile"
    returns = ScoreAnswer
    cacheable = True

    percentile: Percentile = field(name="percent")

    def __post_init__(self) -> None:
        percentile_share(self.percentile)

    def plan(self, now: QueryContext) -> ReadPlan[Score | None]:
        return self._view(now).score_at_percentile(self.percentile)

    def to_answer(self, result: Score | None) -> ScoreAnswer:
        return ScoreAnswer(result)

    def from_answer(self, answer: ScoreAnswer) -> Score | None:
        return answer.score


class CountAnswer(Struct, frozen=True):
    """A number of members."""

    count: int


class Count(RankingQuery[int], frozen=True, kw_only=True):
    """The number of members with scores from low to high."""

    verb = "count"
    path = "count"
    returns = CountAnswer
    cacheable = True

    low: Bound | None = None
    high: Bound | None = None

    def plan(self, now: QueryContext) -> ReadPlan[int]:
        return self._view(now).count(self.low, self.high)

    def to_answer(self, result: int) -> CountAnswer:
        return CountAnswer(result)

    def from_answer(self, answer: CountAnswer) -> int:
        return answer.count


QUERIES: tuple[type[Query[Any]], ...] = (
    Top,
    Around,
    StandingOf,
    RankOf,
    RanksOf,
    Card,
    NeededFor,
    StandingsOf,
    EntriesOf,
    Range,
    AtRank,
    ScoreAtPercentile,
    Count,
    Periods,
    Scopes,
    HiddenOn,
    Archived,
    ArchivePieces,
    Settle,
    PayoutsOf,
)
"""All queries, in the order of the documentation."""
