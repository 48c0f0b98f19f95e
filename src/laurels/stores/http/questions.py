"""The questions as the requests that stand for them; see `calls`."""

from collections.abc import Iterable, Mapping
from typing import Any

from laurels.core.between import Bound
from laurels.core.queries import friends, named
from laurels.core.question import MAX_LIMIT, MAX_RADIUS, whole
from laurels.core.standing import Page, PeriodInfo, Standing
from laurels.errors import (
    InvalidLimit,
    InvalidOffset,
    InvalidRadius,
    InvalidRank,
)
from laurels.errors.service import MemberNotRanked, RankNotHeld
from laurels.model.score import Score
from laurels.wire.answers import CardAnswer, ScopesAnswer, to_json

from .arguments import (
    board_path,
    bound,
    by_text,
    labels_text,
    member_text,
    percent,
    scope_after,
    scope_text,
    target,
    window_name,
)
from .call import Call, decoder, then

_page = decoder(Page)
_standing = decoder(Standing)
_card = then(decoder(CardAnswer), lambda found: found.windows)
_rank_alone = then(decoder(dict[str, int]), lambda found: found["rank"])
_ranks = then(decoder(dict[str, list[int | None]]), lambda found: found["ranks"])
_score = then(decoder(dict[str, Score | None]), lambda found: found["score"])
_count = then(decoder(dict[str, int]), lambda found: found["count"])
_periods = decoder(list[PeriodInfo])
_scopes = then(decoder(ScopesAnswer), lambda found: found.scopes)
_UNRANKED = {MemberNotRanked.code: None}


def top(
    board: str,
    *,
    window: str | None = None,
    limit: int = 10,
    offset: int = 0,
    reverse: bool = False,
    after: str | None = None,
    period: str | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Page]:
    path = target(
        board_path(board, "top"),
        window=window,
        limit=whole(limit, 0, MAX_LIMIT, InvalidLimit),
        offset=whole(offset, 0, None, InvalidOffset),
        reverse=bool(reverse),
        after=after,
        period=period,
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _page)


def around(
    board: str,
    member: str,
    *,
    radius: int = 5,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Page | None]:
    path = target(
        board_path(board, "around"),
        member=member_text(member),
        radius=whole(radius, 0, MAX_RADIUS, InvalidRadius),
        window=window,
        period=period,
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _page, otherwise=_UNRANKED)


def standing(
    board: str,
    member: str,
    *,
    window: str | None = None,
    period: str | None = None,
    to_rank: int | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Standing | None]:
    path = target(
        board_path(board, "standing"),
        member=member_text(member),
        window=window_name(window),
        period=period,
        to_rank=_rank(to_rank),
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _standing, otherwise=_UNRANKED)


def _rank(rank: int | None) -> int | None:
    return None if rank is None else whole(rank, 1, None, InvalidRank)


def card(
    board: str,
    member: str,
    *,
    to_rank: int | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[dict[str, Standing | None]]:
    path = target(
        board_path(board, "card"),
        member=member_text(member),
        to_rank=_rank(to_rank),
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _card)


def standings(
    board: str,
    members: Iterable[str],
    *,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Page]:
    path = target(
        board_path(board, "standings"),
        window=window,
        period=period,
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call(
        "POST",
        path,
        _page,
        body=to_json.encode(friends(members)),
    )


def rank(
    board: str,
    member: str,
    *,
    window: str | None = None,
    period: str | None = None,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[int | None]:
    path = target(
        board_path(board, "rank"),
        member=member_text(member),
        window=window,
        period=period,
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _rank_alone, otherwise=_UNRANKED)


def ranks(
    board: str,
    members: Iterable[str],
    *,
    window: str | None = None,
    period: str | None = None,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[list[int | None]]:
    path = target(
        board_path(board, "ranks"),
        window=window,
        period=period,
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("POST", path, _ranks, body=to_json.encode(named(members)))


def range(
    board: str,
    *,
    low: Bound | None = None,
    high: Bound | None = None,
    limit: int = 100,
    offset: int = 0,
    after: str | None = None,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Page]:
    path = target(
        board_path(board, "range"),
        low=bound(low),
        high=bound(high),
        limit=whole(limit, 0, MAX_LIMIT, InvalidLimit),
        offset=whole(offset, 0, None, InvalidOffset),
        after=after,
        window=window,
        period=period,
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _page)


def at_rank(
    board: str,
    rank: int,
    *,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Standing | None]:
    path = target(
        board_path(board, "at-rank"),
        rank=whole(rank, 1, None, InvalidRank),
        window=window,
        period=period,
        with_data=bool(with_data),
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call(
        "GET",
        path,
        _standing,
        otherwise={RankNotHeld.code: None},
    )


def score_at_percentile(
    board: str,
    percentile: Any,
    *,
    window: str | None = None,
    period: str | None = None,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[Score | None]:
    path = target(
        board_path(board, "percentile"),
        percent=percent(percentile),
        window=window,
        period=period,
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _score)


def count(
    board: str,
    *,
    low: Bound | None = None,
    high: Bound | None = None,
    window: str | None = None,
    period: str | None = None,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[int]:
    path = target(
        board_path(board, "count"),
        low=bound(low),
        high=bound(high),
        window=window,
        period=period,
        labels=labels_text(labels),
        by=by_text(by),
    )
    return Call("GET", path, _count)


def periods(
    board: str,
    window: str | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    by: str | None = None,
) -> Call[list[PeriodInfo]]:
    path = target(
        board_path(board, "periods"), window=window, labels=labels_text(labels), by=by_text(by)
    )
    return Call("GET", path, _periods)


def scopes(
    board: str, *labels: str, after: Mapping[str, str] | None = None, limit: int = 1_000
) -> Call[list[dict[str, str]]]:
    path = target(
        board_path(board, "scopes"),
        labels=scope_text(labels),
        after=scope_after(after),
        limit=whole(limit, 0, MAX_LIMIT, InvalidLimit),
    )
    return Call("GET", path, _scopes)
