"""The queries: every question about a board, each declared once.

Each query is a type, as `query.py` describes. The endpoints of the service, their OpenAPI
description and the client are made from these types. So a new query needs one more class here or in
`board_queries.py`, an item in `QUERIES`, and a verb of `Leaderboards` that asks it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from laurels.errors import (
    InvalidLimit,
    InvalidOffset,
    InvalidRadius,
    InvalidRank,
)
from laurels.errors.ledger import InvalidEntry
from laurels.errors.service import MemberNotRanked, RankNotHeld
from laurels.model.labels import (
    LabelPairs,
)
from laurels.model.score import Score
from laurels.model.validation import quoted, safe_repr

from .archived import Archived
from .between import Bound, Percentile, percentile_share
from .board_queries import HiddenOn, Periods, Scopes
from .index import Offset
from .mending import StoredEntry, stored_entry
from .payout_queries import PayoutsOf
from .query import ListQuery, Query, RankingQuery, ScopedQuery
from .query_context import QueryContext
from .query_members import checked_members, ensure_member
from .rank import Rank
from .read_plan import MAX_LIMIT, MAX_RADIUS, ReadPlan, final
from .requests import ReadRequest, ReadResult
from .settling import Settle
from .standing import Needed, Page, Standing, decode_data, words_at

T = TypeVar("T")


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


class _OfMember(ListQuery[T], frozen=True, kw_only=True):
    absent = MemberNotRanked

    member: str

    def __post_init__(self) -> None:
        ensure_member(self.member)

    def to_answer(self, result: T) -> Any:
        return _ranked(result, self.member)


class Around(_OfMember[Page | None], frozen=True, kw_only=True):
    """A member and its neighbours."""

    verb = "around"
    path = "around"
    returns = Page
    cacheable = True

    radius: int = 5

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure("radius", 0, MAX_RADIUS, InvalidRadius)

    @property
    def size(self) -> int:
        return self.radius

    def plan(self, now: QueryContext) -> ReadPlan[Page | None]:
        return self._view(now).around(self.member, self.radius, self.with_data)


class StandingOf(_OfMember[Standing | None], frozen=True, kw_only=True):
    """A member's rank, score, neighbours and gaps."""

    verb = "standing"
    path = "standing"
    returns = Standing
    cacheable = True

    to_rank: int | None = None

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("to_rank")

    def plan(self, now: QueryContext) -> ReadPlan[Standing | None]:
        view = self._view(now)
        return view.standing(self.member, self.to_rank, self.with_data, now.now_ms)


class RankAnswer(Struct, frozen=True):
    """A member's rank; below the head of a board it may be between two bounds."""

    rank: Rank


class RankOf(RankingQuery[Rank | None], frozen=True, kw_only=True):
    """A member's rank alone; faster than `standing`. Below the head of a board the rank may be
    estimated, with the bounds between which it lies."""

    verb = "rank"
    path = "rank"
    returns = RankAnswer
    cacheable = True
    absent = MemberNotRanked

    member: str

    def __post_init__(self) -> None:
        ensure_member(self.member)

    def plan(self, now: QueryContext) -> ReadPlan[Rank | None]:
        return self._view(now).rank(self.member)

    def to_answer(self, result: Rank | None) -> RankAnswer:
        rank: Rank = _ranked(result, self.member)
        return RankAnswer(rank)

    def from_answer(self, answer: RankAnswer) -> Rank | None:
        return answer.rank


class RanksAnswer(Struct, frozen=True):
    """Ranks in the order of the members; null for each member that is not ranked."""

    ranks: Sequence[Rank | None]


class RanksOf(RankingQuery[Sequence[Rank | None]], frozen=True, kw_only=True):
    """The ranks of several members, all from one state.

    The body has the members (an array, or `{"members": […]}`), and the ranks are in the order of
    the body. Below the head of a board a rank may be estimated.
    """

    verb = "ranks"
    path = "ranks"
    returns = RanksAnswer
    body = "members"

    members: Sequence[str]

    def __post_init__(self) -> None:
        force_setattr(self, "members", checked_members(self.members))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[Sequence[Rank | None]]:
        return self._view(now).ranks(self.members)

    def to_answer(self, result: Sequence[Rank | None]) -> RanksAnswer:
        return RanksAnswer(result)

    def from_answer(self, answer: RanksAnswer) -> Sequence[Rank | None]:
        return answer.ranks


class CardAnswer(Struct, frozen=True):
    """A member's standing in every window, all from one state; null for a window in which the
    member is not ranked.
    """

    member: str
    windows: dict[str, Standing | None]


class Card(ScopedQuery[dict[str, Standing | None]], frozen=True, kw_only=True):
    """A member's standing in the running period of every window, all from one state. It is null for
    each window in which the member is not ranked."""

    verb = "card"
    path = "card"
    returns = CardAnswer
    cacheable = True

    member: str
    to_rank: int | None = None
    with_data: bool = False

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("to_rank")

    def plan(self, now: QueryContext) -> ReadPlan[dict[str, Standing | None]]:
        windows = now.state.rules.windows
        plans = [
            now.view(window, None, labels=self.labels, by=self.by).standing(
                self.member, self.to_rank, self.with_data, now.now_ms
            )
            for window in windows
        ]
        requests = tuple(dict.fromkeys(request for plan in plans for request in plan.requests))

        def finish(results: Sequence[ReadResult], offset: Offset) -> dict[str, Standing | None]:
            by_request = dict(zip(requests, results, strict=True))
            return {
                window: final(
                    plan.finish([by_request[request] for request in plan.requests], offset)
                )
                for window, plan in zip(windows, plans, strict=True)
            }

        return ReadPlan(requests, finish)

    def to_answer(self, result: dict[str, Standing | None]) -> CardAnswer:
        return CardAnswer(self.member, result)

    def from_answer(self, answer: CardAnswer) -> dict[str, Standing | None]:
        return answer.windows


class NeededAnswer(Struct, frozen=True):
    """The value that one event needs; null if the member is at the position already."""

    needed: Needed | None


class NeededFor(Query[Needed | None], frozen=True, kw_only=True):
    """The value of one event that, counted now and alone, moves a member to a position or better:
    for a sum the smallest amount, for a last or best column the value that is easiest to reach.
    Other columns stay as they are. The member need not be ranked. On a board with a head the
    position is by default the last of the head."""

    verb = "needed"
    path = "needed"
    returns = NeededAnswer
    cacheable = True

    member: str
    rank: int | None = None
    window: str | None = None
    column: str | None = None
    labels: LabelPairs = ()

    def __post_init__(self) -> None:
        ensure_member(self.member)
        self._ensure_rank("rank")

    def plan(self, now: QueryContext) -> ReadPlan[Needed | None]:
        view = now.view(self.window, None, labels=self.labels)
        rank = self.rank or now.state.rules.head
        if not rank:
            raise InvalidRank("expected a rank: the board has no head")
        return view.needed(self.member, rank, self.column, now.now_ms)

    def to_answer(self, result: Needed | None) -> NeededAnswer:
        return NeededAnswer(result)

    def from_answer(self, answer: NeededAnswer) -> Needed | None:
        return answer.needed


class StandingsOf(ListQuery[Page], frozen=True, kw_only=True):
    """The entries of some members, such as a player's friends.

    The body has the members (an array, or `{"members": […]}`). Each entry also has the member's
    rank among the requested ones. Members that are not ranked are left out.
    """

    verb = "standings"
    path = "standings"
    returns = Page
    body = "members"

    members: Sequence[str]

    def __post_init__(self) -> None:
        force_setattr(self, "members", list(dict.fromkeys(checked_members(self.members))))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[Page]:
        return self._view(now).standings(self.members, self.with_data)


class EntriesOf(RankingQuery[list[StoredEntry]], frozen=True, kw_only=True):
    """The entries of some members as they are stored, with the times that decide between equal
    scores. The body has the members. A member that is not ranked has an entry without a score, but
    with its data."""

    verb = "entries"
    path = "entries"
    returns = list[StoredEntry]
    body = "members"

    members: Sequence[str]
    with_data: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "members", checked_members(self.members))

    @property
    def size(self) -> int:
        return len(self.members)

    def plan(self, now: QueryContext) -> ReadPlan[list[StoredEntry]]:
        view = self._view(now)
        if view.rules.windows[view.key.window].weighing is not None:
            raise InvalidEntry(
                f"the entries of the window {quoted(view.key.window)} change with time"
            )
        if not self.members:
            return ReadPlan((), lambda *_: [])
        request = ReadRequest(
            view.key,
            members=tuple(self.members),
            whole=True,
            data=self.with_data,
            revision=self.revision,
        )

        def finish(results: Sequence[ReadResult], _: Offset) -> list[StoredEntry]:
            located = results[0].located
            assert located is not None
            entries = [
                StoredEntry(member)
                if position < 0
                else stored_entry(member, words_at(located.words, i), view.rules)
                for i, (member, position) in enumerate(
                    zip(self.members, located.positions, strict=True)
                )
            ]
            if results[0].data is None:
                return entries
            data = decode_data(results[0].data[-1])
            return [replace(entry, data=each) for entry, each in zip(entries, data, strict=True)]

        return ReadPlan((request,), finish)


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
    Settle,
    PayoutsOf,
)
"""All queries, in the order of the documentation."""


def _ranked(result: Any, member: str) -> Any:
    """Return the result for a member. Raises MemberNotRanked if the result is None."""
    if result is None:
        raise MemberNotRanked(f"{safe_repr(member)} is not ranked there")
    return result
