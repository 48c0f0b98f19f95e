"""Every verb as the request that stands for it: pure functions, with the verbs' own signatures.

A write is sent again after a broken connection only where that cannot count twice: where each of
its events has an id, its own or by the batch key. One without may have been counted though no
answer came, and whoever sent it is told so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, overload

import msgspec

from laurels.core.clock_status import ClockStatus
from laurels.core.receipt import Receipt, Receipts
from laurels.core.stats import BoardStats, CheckReport, Stats
from laurels.errors import (
    BatchRefused,
)
from laurels.errors.service import InvalidBody
from laurels.model.board import Board
from laurels.model.event import Value
from laurels.model.validation import integer
from laurels.stores.intake.accept import batch_list, data_bytes, ensure_position
from laurels.wire.answers import BatchAnswer, to_json
from laurels.wire.receipts import RemoteReceipts, joined
from laurels.wire.requests import MAX_BATCH, BatchTooLong

from .arguments import (
    EventBatch,
    SubmittedEvent,
    batch,
    board_path,
    member_text,
    scope_text,
    target,
)
from .arguments import event as event_sent
from .call import Call, decoder, nothing, then
from .questions import (
    around,
    at_rank,
    card,
    count,
    periods,
    range,  # noqa: A004
    rank,
    ranks,
    scopes,
    score_at_percentile,
    standing,
    standings,
    top,
)

__all__ = [
    "SubmissionCalls",
    "accept_clock",
    "around",
    "at_rank",
    "boards",
    "card",
    "change",
    "check",
    "clock_status",
    "count",
    "create",
    "delete",
    "get",
    "periods",
    "position",
    "range",
    "rank",
    "ranks",
    "rebuild",
    "remove",
    "scopes",
    "score_at_percentile",
    "set",
    "set_data",
    "snapshot",
    "standing",
    "standings",
    "stats",
    "submit",
    "submit_many",
    "top",
]

_receipt = decoder(Receipt)
_batch = decoder(BatchAnswer)
_offset = then(decoder(dict[str, int]), lambda found: found["offset"])
_clock = decoder(ClockStatus)
_removed = then(decoder(dict[str, bool]), lambda found: found["removed"])
_position = then(decoder(dict[str, str | None]), lambda found: found["position"])
_stats = decoder(Stats)
_board_stats = decoder(BoardStats)
_report = decoder(CheckReport)
_definitions = then(
    decoder(list[msgspec.Raw]), lambda found: [Board.from_json(bytes(raw)) for raw in found]
)


# Boards


def create(board: Board | Mapping[str, Any], *, exist_ok: bool = False) -> Call[Board]:
    defined = board if isinstance(board, Board) else Board.from_json(board)
    on_exists = "accept" if exist_ok else "refuse"
    path = target(board_path(defined.name), on_exists=on_exists)
    return Call("PUT", path, Board.from_json, body=defined.to_json(), keyed=True)


def change(name: str, /, **changes: Any) -> Call[Board]:
    told = {name: v if (whole := integer(v)) is None else whole for name, v in changes.items()}
    try:
        body = to_json.encode(told)
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
    labels: Mapping[str, str] | None = None,
    scope: Sequence[str] | None = None,
) -> Call[Receipt]:
    path = target(board_path(board, "scores"), window=window, scope=scope_text(scope))
    return _of_event(path, event_sent(member, value, at, id, labels))


def set(
    board: str,
    member: str,
    value: Value,
    *,
    at: Any = None,
    id: str | None = None,
    window: str | None = None,
    labels: Mapping[str, str] | None = None,
    scope: Sequence[str] | None = None,
) -> Call[Receipt]:
    path = target(board_path(board, "set"), window=window, scope=scope_text(scope))
    return _of_event(path, event_sent(member, value, at, id, labels))


def _of_event(path: str, event: SubmittedEvent) -> Call[Receipt]:
    named = event.id is not None
    return Call("POST", path, _receipt, to_json.encode(event), repeats=named, keyed=named)


class SubmissionCalls(NamedTuple):
    """The requests of a batch: one, or of more than 10,000 events several, each a commit."""

    calls: list[Call[BatchAnswer]]
    batch: EventBatch

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
    scope: Sequence[str] | None = None,
) -> SubmissionCalls:
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
        scope=scope_text(scope),
    )
    calls = [
        Call("POST", path, _batch, body=body, repeats=read.repeats, keyed=read.repeats)
        for body in map(to_json.encode, read.parts(MAX_BATCH))
    ]
    return SubmissionCalls(calls, read)


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


def clock_status() -> Call[ClockStatus]:
    return Call("GET", "/v1/clock", _clock)


def accept_clock() -> Call[ClockStatus]:
    return Call("POST", "/v1/clock/accept", _clock)
