"""Every verb as the request that stands for it: pure functions, with the verbs' own signatures.

A write is sent again after a broken connection only where that cannot count twice: where each of
its events has an id, its own or by the batch key. One without may have been counted though no
answer came, and whoever sent it is told so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, overload

import msgspec

from laurels.accept import batch_list, data_bytes, ensure_position
from laurels.board import Board
from laurels.errors import (
    BatchRefused,
    InvalidLimit,
    InvalidOffset,
    InvalidRadius,
    InvalidRank,
)
from laurels.event import Value
from laurels.http.answers import BatchAnswer, CardAnswer, to_json
from laurels.http.refusals import InvalidBody, MemberNotRanked, RankNotHeld
from laurels.http.requests import MAX_BATCH, BatchTooLong
from laurels.queries import MAX_LIMIT, MAX_RADIUS, Bound, friends, whole
from laurels.receipt import Receipt, Receipts
from laurels.score import Score
from laurels.standing import Page, PeriodInfo, Standing
from laurels.stats import BoardStats, CheckReport, Stats

from .call import Call, nothing, then
from .given import Batch, batch, board_path, bound, member_text, percent, target, window_name
from .given import event as event_sent
from .receipts import RemoteReceipts, joined

T = TypeVar("T")


def _decoder(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


_page = _decoder(Page)
_standing = _decoder(Standing)
_receipt = _decoder(Receipt)
_batch = _decoder(BatchAnswer)
_card_windows = then(_decoder(CardAnswer), lambda found: found.windows)
_score = then(_decoder(dict[str, Score | None]), lambda found: found["score"])
_count = then(_decoder(dict[str, int]), lambda found: found["count"])
_offset = then(_decoder(dict[str, int]), lambda found: found["offset"])
_removed = then(_decoder(dict[str, bool]), lambda found: found["removed"])
_position = then(_decoder(dict[str, str | None]), lambda found: found["position"])
_periods = _decoder(list[PeriodInfo])
_stats = _decoder(Stats)
_board_stats = _decoder(BoardStats)
_report = _decoder(CheckReport)
_definitions = then(
    _decoder(list[msgspec.Raw]), lambda found: [Board.from_json(bytes(raw)) for raw in found]
)
_UNRANKED = {MemberNotRanked.code: None}


# Boards


def create(board: Board | Mapping[str, Any], *, exist_ok: bool = False) -> Call[Board]:
    defined = board if isinstance(board, Board) else Board.from_json(board)
    on_exists = "accept" if exist_ok else "refuse"
    path = target(board_path(defined.name), on_exists=on_exists)
    return Call("PUT", path, Board.from_json, body=defined.to_json(), keyed=True)


def change(name: str, /, **changes: Any) -> Call[Board]:
    try:
        body = to_json.encode(changes)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidBody(f"the changes cannot be written as JSON ({error})") from error
    return Call("PATCH", board_path(name), Board.from_json, body=body)


def get(name: str) -> Call[Board]:
    return Call("GET", board_path(name), Board.from_json)


def boards() -> Call[list[Board]]:
    return Call("GET", "/v1/boards", _definitions)


def delete(name: str) -> Call[None]:
    return Call("DELETE", board_path(name), nothing, keyed=True)


# Writes


def submit(
    board: str,
    member: str,
    value: Value,
    *,
    at: Any = None,
    id: str | None = None,
    window: str | None = None,
) -> Call[Receipt]:
    path = target(board_path(board, "scores"), window=window)
    return _of_event(path, member, value, at, id)


def set(
    board: str,
    member: str,
    value: Value,
    *,
    at: Any = None,
    id: str | None = None,
    window: str | None = None,
) -> Call[Receipt]:
    path = target(board_path(board, "set"), window=window)
    return _of_event(path, member, value, at, id)


def _of_event(path: str, member: str, value: Value, at: Any, id: str | None) -> Call[Receipt]:
    body = to_json.encode(event_sent(member, value, at, id))
    named = id is not None
    return Call("POST", path, _receipt, body=body, repeats=named, keyed=named)


class Submission(NamedTuple):
    """The requests of a batch: one, or of more than 10,000 events several, each a commit."""

    calls: list[Call[BatchAnswer]]
    batch: Batch

    def join(self, answers: list[BatchAnswer]) -> Receipts:
        """The receipts of the whole batch."""
        return self._judged(joined(answers))

    @contextmanager
    def seen_through(self) -> Iterator[None]:
        """Has the refusal of a whole batch tell the reasons that were found here, too."""
        try:
            yield
        except BatchRefused as refusal:
            if isinstance(refusal.receipts, RemoteReceipts):
                refusal.receipts = self._judged(refusal.receipts)
            raise

    def _judged(self, receipts: RemoteReceipts) -> Receipts:
        read = self.batch
        return receipts.with_refusals(read.refusals, read.members) if read.refusals else receipts


def submit_many(
    board: str,
    events: Iterable[Any],
    *,
    window: str | None = None,
    ranks: bool = False,
    all_or_nothing: bool = False,
    key: str | None = None,
    position: tuple[str, str] | None = None,
) -> Submission:
    """The requests of a batch. Raises BatchTooLong where several have to be one commit."""
    given = batch_list(events)
    ensure_position(position)
    if len(given) > MAX_BATCH and (all_or_nothing or position is not None):
        raise BatchTooLong(
            f"{len(given):,} events are to be one commit, over HTTP the limit is {MAX_BATCH:,}"
        )
    read = batch(given, key)
    source, text = position or (None, None)
    path = target(
        board_path(board, "scores"),
        window=window,
        ranks=True if ranks else None,
        all_or_nothing=True if all_or_nothing else None,
        position_source=source,
        position=text,
    )
    calls = [
        Call("POST", path, _batch, body=body, repeats=read.repeats, keyed=read.repeats)
        for body in map(to_json.encode, read.parts(MAX_BATCH))
    ]
    return Submission(calls, read)


def set_data(board: str, member: str, data: Any) -> Call[None]:
    written = data_bytes(data)
    said = {
        "member": member_text(member),
        "data": None if written is None else msgspec.Raw(written),
    }
    return Call("PUT", board_path(board, "data"), nothing, body=to_json.encode(said))


def remove(board: str, member: str) -> Call[bool]:
    body = to_json.encode({"member": member_text(member)})
    return Call("POST", board_path(board, "remove"), _removed, body=body, keyed=True)


def position(board: str, source: str) -> Call[str | None]:
    return Call("GET", target(board_path(board, "position"), source=source), _position)


# Questions


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
) -> Call[Page | None]:
    path = target(
        board_path(board, "around"),
        member=member_text(member),
        radius=whole(radius, 0, MAX_RADIUS, InvalidRadius),
        window=window,
        period=period,
        with_data=bool(with_data),
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
) -> Call[Standing | None]:
    path = target(
        board_path(board, "standing"),
        member=member_text(member),
        window=window_name(window),
        period=period,
        to_rank=_rank(to_rank),
        with_data=bool(with_data),
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
) -> Call[dict[str, Standing | None] | None]:
    """None stands for a member that is in no window."""
    path = target(
        board_path(board, "standing"),
        member=member_text(member),
        window="*",
        to_rank=_rank(to_rank),
        with_data=bool(with_data),
    )
    return Call("GET", path, _card_windows, otherwise=_UNRANKED)


def standings(
    board: str,
    members: Iterable[str],
    *,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
) -> Call[Page]:
    path = target(
        board_path(board, "standings"), window=window, period=period, with_data=bool(with_data)
    )
    return Call("POST", path, _page, body=to_json.encode(friends(members)))


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
    )
    return Call("GET", path, _page)


def at_rank(
    board: str,
    rank: int,
    *,
    window: str | None = None,
    period: str | None = None,
    with_data: bool = False,
) -> Call[Standing | None]:
    path = target(
        board_path(board, "at-rank"),
        rank=whole(rank, 1, None, InvalidRank),
        window=window,
        period=period,
        with_data=bool(with_data),
    )
    return Call("GET", path, _standing, otherwise={RankNotHeld.code: None})


def score_at_percentile(
    board: str,
    percentile: Any,
    *,
    window: str | None = None,
    period: str | None = None,
) -> Call[Score | None]:
    path = target(
        board_path(board, "percentile"), percent=percent(percentile), window=window, period=period
    )
    return Call("GET", path, _score)


def count(
    board: str,
    *,
    low: Bound | None = None,
    high: Bound | None = None,
    window: str | None = None,
    period: str | None = None,
) -> Call[int]:
    path = target(
        board_path(board, "count"), low=bound(low), high=bound(high), window=window, period=period
    )
    return Call("GET", path, _count)


def periods(board: str, window: str | None = None) -> Call[list[PeriodInfo]]:
    return Call("GET", target(board_path(board, "periods"), window=window), _periods)


@overload
def stats() -> Call[Stats]: ...
@overload
def stats(board: str) -> Call[BoardStats]: ...
def stats(board: str | None = None) -> Call[Stats] | Call[BoardStats]:
    if board is None:
        return Call("GET", "/v1/stats", _stats)
    return Call("GET", board_path(board, "stats"), _board_stats)


# Keeping it in order


def check() -> Call[CheckReport]:
    return Call("POST", "/v1/check", _report, patient=True)


def rebuild() -> Call[None]:
    return Call("POST", "/v1/rebuild", nothing, patient=True)


def snapshot() -> Call[int]:
    return Call("POST", "/v1/snapshot", _offset, patient=True)
