"""Questions: who leads, where somebody stands, who is around."""

from typing import Any

from msgspec import Struct

from laurels.core.standing import Page, PeriodInfo, Standing
from laurels.core.stats import BoardStats
from laurels.errors.service import InvalidBody, InvalidQuery, MemberNotRanked, RankNotHeld
from laurels.model.score import Score
from laurels.model.validation import safe_repr
from laurels.server.asking import RequestContext
from laurels.server.route import NoQuery, Routes
from laurels.wire import requests
from laurels.wire.answers import CardAnswer, ScopesAnswer
from laurels.wire.requests import Scoped

ROUTES = Routes()
ALL_WINDOWS = "*"
MEMBERS_VALUES = 10_100
"""The most members that a question takes, and what is around them."""
MEMBERS_BYTES = 4 << 20
"""They have 128 bytes each at the most, and three times that where they are escaped."""


class RankingQuery(Scoped):
    window: str | None = None
    period: str | None = None


class Listed(RankingQuery):
    with_data: bool = False


class WindowQuery(Scoped):
    """`window`: by default the board's first."""

    window: str | None = None


class ScopesQuery(Struct, forbid_unknown_fields=True):
    """`labels`: the names of the labels of the scopes, as `zone,gender`; `after`: the `next` of the
    answer before."""

    labels: str = ""
    after: str | None = None
    limit: int = 1_000


def scope_of(query: Scoped) -> dict[str, Any]:
    """The scope that a question is about, as the verbs take it."""
    return {"labels": requests.scope_read(query.labels), "by": query.by}


class TopQuery(Listed):
    """A page: from the top, with `reverse` from the bottom, after `offset` entries or a cursor."""

    limit: int = 10
    offset: int = 0
    reverse: bool = False
    after: str | None = None


class AroundQuery(Listed, kw_only=True):
    """`radius` neighbours on each side."""

    member: str
    radius: int = 5


class StandingQuery(Listed, kw_only=True):
    """`to_rank` asks for the gap to that position."""

    member: str
    to_rank: int | None = None


class MemberQuery(RankingQuery, kw_only=True):
    """A member of a ranking."""

    member: str


class CardQuery(Scoped, kw_only=True):
    """`to_rank` asks for the gap to that position in each window."""

    member: str
    to_rank: int | None = None
    with_data: bool = False


class RangeQuery(Listed):
    """From `low` to `high`, ends included; bounds of several columns are written `10,3`."""

    low: str | None = None
    high: str | None = None
    limit: int = 100
    offset: int = 0
    after: str | None = None


class RankQuery(Listed, kw_only=True):
    """`rank`: a position, from 1."""

    rank: int


class PercentQuery(RankingQuery, kw_only=True):
    """`percent`: 0 to 100."""

    percent: str


class CountQuery(RankingQuery):
    """From `low` to `high`, ends included."""

    low: str | None = None
    high: str | None = None


@ROUTES.question("GET", "/v1/boards/{board}/top", query=TopQuery, returns=Page, shared=True)
async def top(ask: RequestContext, query: TopQuery) -> object:
    """Who leads."""
    return await ask.lb.top(
        ask.board,
        window=query.window,
        limit=query.limit,
        offset=query.offset,
        reverse=query.reverse,
        after=query.after,
        period=query.period,
        with_data=query.with_data,
        **scope_of(query),
    )


@ROUTES.question("GET", "/v1/boards/{board}/around", query=AroundQuery, returns=Page)
async def around(ask: RequestContext, query: AroundQuery) -> object:
    """A member and its neighbours."""
    page = await ask.lb.around(
        ask.board,
        query.member,
        radius=query.radius,
        window=query.window,
        period=query.period,
        with_data=query.with_data,
        **scope_of(query),
    )
    return _ranked(page, query.member)


def _ranked(found: Struct | None, member: str) -> Struct:
    if found is None:
        raise MemberNotRanked(f"{safe_repr(member)} is not ranked there")
    return found


@ROUTES.question("GET", "/v1/boards/{board}/standing", query=StandingQuery, returns=Standing)
async def standing(ask: RequestContext, query: StandingQuery) -> object:
    """Where a member stands: rank, score, neighbours and gaps."""
    if query.window == ALL_WINDOWS:
        raise InvalidQuery(f"expected one window, got {ALL_WINDOWS}: for all of them ask …/card")
    found = await ask.lb.standing(
        ask.board,
        query.member,
        window=query.window,
        period=query.period,
        to_rank=query.to_rank,
        with_data=query.with_data,
        **scope_of(query),
    )
    return _ranked(found, query.member)


class RankAnswer(Struct, frozen=True):
    """A member's rank."""

    rank: int


@ROUTES.question("GET", "/v1/boards/{board}/rank", query=MemberQuery, returns=RankAnswer)
async def rank(ask: RequestContext, query: MemberQuery) -> object:
    """A member's rank and nothing else, in a fraction of the time of `standing`."""
    found = await ask.lb.rank(
        ask.board,
        query.member,
        window=query.window,
        period=query.period,
        **scope_of(query),
    )
    return _ranked(None if found is None else RankAnswer(found), query.member)


class RanksAnswer(Struct, frozen=True):
    """Ranks in the order of the members; null for each that is not ranked."""

    ranks: list[int | None]


@ROUTES.question(
    "POST",
    "/v1/boards/{board}/ranks",
    query=RankingQuery,
    body=list[str],
    returns=RanksAnswer,
    most_body=MEMBERS_BYTES,
)
async def ranks(ask: RequestContext, query: RankingQuery) -> object:
    """The ranks of the members in the body (an array, or `{"members": […]}`), in their order and
    all of one moment."""
    found = await ask.lb.ranks(
        ask.board,
        await _members(ask),
        window=query.window,
        period=query.period,
        **scope_of(query),
    )
    return RanksAnswer(found)


@ROUTES.question("GET", "/v1/boards/{board}/card", query=CardQuery, returns=CardAnswer)
async def card(ask: RequestContext, query: CardQuery) -> object:
    """A member's standing in the running period of every window, all of one moment; null for each
    window that it is not ranked in."""
    found = await ask.lb.card(
        ask.board,
        query.member,
        to_rank=query.to_rank,
        with_data=query.with_data,
        **scope_of(query),
    )
    return CardAnswer(query.member, found)


@ROUTES.question(
    "POST",
    "/v1/boards/{board}/standings",
    query=Listed,
    body=list[str],
    returns=Page,
    most_body=MEMBERS_BYTES,
)
async def standings(ask: RequestContext, query: Listed) -> object:
    """Friends: those of the members in the body (an array, or `{"members": […]}`) who are ranked,
    ranked among themselves too."""
    return await ask.lb.standings(
        ask.board,
        await _members(ask),
        window=query.window,
        period=query.period,
        with_data=query.with_data,
        **scope_of(query),
    )


async def _members(ask: RequestContext) -> list[Any]:
    """The members that a body names. Raises InvalidBody."""
    members = await ask.server.decoder.document(ask.raw, ask.media_type, MEMBERS_VALUES)
    if isinstance(members, dict):
        (members,) = requests.fields(members, "members")
    if not isinstance(members, list):
        raise InvalidBody(f"{safe_repr(members)} is no list of members")
    return members


@ROUTES.question("GET", "/v1/boards/{board}/range", query=RangeQuery, returns=Page)
async def range_(ask: RequestContext, query: RangeQuery) -> object:
    """The entries with scores from low to high."""
    return await ask.lb.range(
        ask.board,
        low=_bound(query.low),
        high=_bound(query.high),
        limit=query.limit,
        offset=query.offset,
        after=query.after,
        window=query.window,
        period=query.period,
        with_data=query.with_data,
        **scope_of(query),
    )


def _bound(text: str | None) -> str | tuple[str, ...] | None:
    return tuple(text.split(",")) if text is not None and "," in text else text


@ROUTES.question("GET", "/v1/boards/{board}/at-rank", query=RankQuery, returns=Standing)
async def at_rank(ask: RequestContext, query: RankQuery) -> object:
    """Who stands at a position."""
    found = await ask.lb.at_rank(
        ask.board,
        query.rank,
        window=query.window,
        period=query.period,
        with_data=query.with_data,
        **scope_of(query),
    )
    if found is None:
        raise RankNotHeld(f"nobody stands at {query.rank}")
    return found


class ScoreAnswer(Struct, frozen=True):
    """A score; null on an empty ranking."""

    score: Score | None


@ROUTES.question(
    "GET",
    "/v1/boards/{board}/percentile",
    query=PercentQuery,
    returns=ScoreAnswer,
)
async def score_at_percentile(ask: RequestContext, query: PercentQuery) -> object:
    """The score that this percent of the members do not exceed."""
    return ScoreAnswer(
        await ask.lb.score_at_percentile(
            ask.board,
            query.percent,
            window=query.window,
            period=query.period,
            **scope_of(query),
        )
    )


class CountAnswer(Struct, frozen=True):
    """How many members."""

    count: int


@ROUTES.question("GET", "/v1/boards/{board}/count", query=CountQuery, returns=CountAnswer)
async def count(ask: RequestContext, query: CountQuery) -> object:
    """How many members have scores from low to high."""
    return CountAnswer(
        await ask.lb.count(
            ask.board,
            low=_bound(query.low),
            high=_bound(query.high),
            window=query.window,
            period=query.period,
            **scope_of(query),
        )
    )


@ROUTES.question(
    "GET",
    "/v1/boards/{board}/periods",
    query=WindowQuery,
    returns=list[PeriodInfo],
)
async def periods(ask: RequestContext, query: WindowQuery) -> object:
    """The periods of a window that can be read, newest first."""
    return await ask.lb.periods(ask.board, query.window, **scope_of(query))


@ROUTES.question(
    "GET",
    "/v1/boards/{board}/scopes",
    query=ScopesQuery,
    returns=ScopesAnswer,
)
async def scopes(ask: RequestContext, query: ScopesQuery) -> object:
    """The scopes of some labels that hold anybody, in the order of their values."""
    names = requests.scope_names(query.labels) or []
    after = None if query.after is None else requests.scope_read(query.after)
    found = await ask.lb.scopes(ask.board, *names, after=after, limit=query.limit)
    more = requests.scope_written(found[-1]) if found and len(found) == query.limit else None
    return ScopesAnswer(found, more)


@ROUTES.question("GET", "/v1/boards/{board}/stats", returns=BoardStats)
async def board_stats(ask: RequestContext, _: NoQuery) -> object:
    """Figures of a board."""
    return await ask.lb.stats(ask.board)
