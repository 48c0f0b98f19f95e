"""Turns queries and commands into requests. All functions are pure.

After a broken connection, a write is repeated only if it cannot count twice: if each of its events
has an id, its own or one that is derived from the batch key. If an event has no id, the write is
not repeated, and the error says that the write may have counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import (
    ChangeBoard,
    ClearBoard,
    Command,
    ConfirmPayout,
    CreateBoard,
    DeleteBoard,
    DisqualifyMember,
    EraseMember,
    HideEverywhere,
    HideMember,
    Mend,
    RemoveMember,
    SetData,
    ShowEverywhere,
    ShowMember,
    Submit,
    SubmitMany,
    UndeleteBoard,
)
from laurels.core.due_payouts import WaitingPayouts
from laurels.core.erasing import Erasure
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import HotReport
from laurels.core.payouts import Payout, PayoutPage, Revision
from laurels.core.query import Query
from laurels.core.receipt import Receipt, Receipts
from laurels.core.removed_boards import RestorableBoard
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats
from laurels.errors import BatchRefused
from laurels.errors.service import InvalidBody
from laurels.model.board import Board
from laurels.model.validation import integer
from laurels.stores.intake.accept import batch_list, data_bytes, ensure_position
from laurels.stores.intake.hiding import reason_text
from laurels.wire.answers import BatchAnswer, to_json
from laurels.wire.audit_page import AuditPage
from laurels.wire.parameters import board_path, target, write_label_names
from laurels.wire.queries import decode_answer, query_target
from laurels.wire.receipts import RemoteReceipts, joined
from laurels.wire.requests import MAX_BATCH, BatchTooLong
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

from .arguments import EventBatch, batch, event, member_text
from .call import Call, decoder, mapped, nothing

T = TypeVar("T")

_receipt = decoder(Receipt)
_batch = decoder(BatchAnswer)
_offset = mapped(decoder(dict[str, int]), lambda payload: payload["offset"])
_clock = decoder(ClockStatus)
_removed = mapped(decoder(dict[str, bool]), lambda payload: payload["removed"])
_hidden = decoder(list[HiddenMember])
_erasure = decoder(Erasure)
_shown = mapped(decoder(dict[str, bool]), lambda payload: payload["shown"])
_mended = mapped(decoder(dict[str, int]), lambda payload: payload["mended"])
_position = mapped(decoder(dict[str, str | None]), lambda payload: payload["position"])
_positions = mapped(decoder(dict[str, dict[str, str]]), lambda payload: payload["positions"])
_changes = decoder(ChangePage)
_deleted_boards = decoder(list[DeletedBoard])
_restorable_boards = decoder(list[RestorableBoard])
_changed_boards = decoder(ChangedBoards)
_audit = decoder(AuditPage)
_hot = decoder(HotReport)
_payout = decoder(Payout)
_revision = decoder(Revision)
_payout_page = decoder(PayoutPage)
_waiting_payouts = decoder(list[WaitingPayouts])
_sinks = decoder(list[SinkReport])
_sources = decoder(list[SourceReport])
_stats = decoder(Stats)
_board_stats = decoder(BoardStats)
_report = decoder(CheckReport)
_sealed = decoder(Sealed)
_verified = decoder(VerifiedPeriod)
_definitions = mapped(
    decoder(list[msgspec.Raw]), lambda payload: [Board.from_json(bytes(raw)) for raw in payload]
)


def query_call(board: str, query: Query[T]) -> Call[T]:
    """Return the request for a query."""
    path = query_target(board, query)
    error_results: dict[str, Any] = {} if query.absent is None else {query.absent.code: None}
    decode = partial(decode_answer, query)
    if query.body is None:
        return Call("GET", path, decode, error_results=error_results, board=board)
    body = to_json.encode(getattr(query, query.body))
    return Call("POST", path, decode, body=body, error_results=error_results, board=board)


def _raw(data: Any) -> Any:
    """Return the data of a member as encoded JSON, for the body of a request."""
    written = data_bytes(data)
    return None if written is None else msgspec.Raw(written)


def command_call(command: Command[Any]) -> Call[Any]:
    """Return the request for any command except `SubmitMany`, which may need several."""
    match command:
        case Submit(board, event_fields, window, scope, absolute):
            sent = event(*event_fields)
            verb = "set" if absolute else "scores"
            path = target(board_path(board, verb), window=window, scope=write_label_names(scope))
            has_id = sent.id is not None
            body = to_json.encode(sent)
            return Call(
                "POST",
                path,
                _receipt,
                body,
                is_repeatable=has_id,
                needs_idempotency_key=has_id,
                board=board,
            )
        case SetData(board, member, data, before):
            fields = {"member": member_text(member), "data": _raw(data)}
            has_before = before is not msgspec.UNSET
            if has_before:
                fields["before"] = _raw(before)
            body = to_json.encode(fields)
            return Call(
                "PUT",
                board_path(board, "data"),
                nothing,
                body=body,
                needs_idempotency_key=has_before,
            )
        case RemoveMember(board, member):
            body = to_json.encode({"member": member_text(member)})
            return Call(
                "POST", board_path(board, "remove"), _removed, body=body, needs_idempotency_key=True
            )
        case HideMember(board, member, reason, until_ms):
            body = _hide_fields(member, reason, until_ms)
            return Call("POST", board_path(board, "hide"), nothing, body=body, is_repeatable=True)
        case HideEverywhere(member, reason, until_ms):
            body = _hide_fields(member, reason, until_ms)
            return Call("POST", "/v1/hide", nothing, body=body, is_repeatable=True)
        case EraseMember(member, reason):
            body = to_json.encode({"member": member_text(member), "reason": reason})
            return Call("POST", "/v1/erase", _erasure, body=body, needs_idempotency_key=True)
        case ShowMember(board, member):
            body = to_json.encode({"member": member_text(member)})
            return Call(
                "POST", board_path(board, "show"), _shown, body=body, needs_idempotency_key=True
            )
        case ShowEverywhere(member):
            body = to_json.encode({"member": member_text(member)})
            return Call("POST", "/v1/show", _shown, body=body, needs_idempotency_key=True)
        case Mend(board, rankings, at_ms):
            body = to_json.encode({"rankings": rankings, "at_ms": at_ms})
            return Call("POST", board_path(board, "mend"), _mended, body=body, is_repeatable=True)
        case ConfirmPayout(board, payout, reference):
            body = to_json.encode({"payout": payout, "reference": reference})
            return Call("POST", board_path(board, "payouts/confirm"), _payout, body=body)
        case DisqualifyMember(board, member, window, period, labels, reason):
            path = board_path(board, "disqualify")
            fields = {"member": member_text(member), "reason": reason, "labels": labels}
            body = to_json.encode({**fields, "window": window, "period": period})
            return Call("POST", path, _revision, body=body, needs_idempotency_key=True)
        case CreateBoard(defined, exist_ok):
            on_exists = "accept" if exist_ok else "refuse"
            path = target(board_path(defined.name), on_exists=on_exists)
            return Call(
                "PUT", path, Board.from_json, body=defined.to_json(), needs_idempotency_key=True
            )
        case ChangeBoard(name, changes):
            return Call("PATCH", board_path(name), Board.from_json, body=_changed_fields(changes))
        case ClearBoard(name):
            return Call("POST", board_path(name, "clear"), nothing, needs_idempotency_key=True)
        case UndeleteBoard(name, new_name, uid):
            path = board_path(name, "undelete")
            body = to_json.encode({"name": new_name, "uid": uid})
            return Call("POST", path, Board.from_json, body=body, needs_idempotency_key=True)
        case DeleteBoard(name):
            return Call("DELETE", board_path(name), nothing, needs_idempotency_key=True)
    raise TypeError(f"expected a command that takes one request, got {command!r}")


def _hide_fields(member: str, reason: str, until_ms: int | None) -> bytes:
    fields = {"member": member_text(member), "reason": reason_text(reason)}
    until = {} if until_ms is None else {"until": until_ms}
    return to_json.encode({**fields, **until})


def _changed_fields(changes: Mapping[str, Any]) -> bytes:
    plain = {name: v if (whole := integer(v)) is None else whole for name, v in changes.items()}
    try:
        return to_json.encode(plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidBody(f"the changes cannot be written as JSON ({error})") from error


class SubmissionCalls(NamedTuple):
    """The requests of a batch. A batch of up to 10,000 events has one request, a larger batch
    several. The service commits each request separately."""

    calls: list[Call[BatchAnswer]]
    batch: EventBatch

    def join(self, answers: list[BatchAnswer]) -> Receipts:
        """Return the receipts of the whole batch from the answers to its requests."""
        return self._with_local_errors(joined(answers))

    @contextmanager
    def adding_local_errors(self) -> Iterator[None]:
        """If the service refuses the whole batch within this context, BatchRefused is raised. Add
        to the receipts of this error the events that were not sent, since this process had already
        refused them."""
        try:
            yield
        except BatchRefused as error:
            if isinstance(error.receipts, RemoteReceipts):
                error.receipts = self._with_local_errors(error.receipts)
            raise

    def _with_local_errors(self, receipts: RemoteReceipts) -> Receipts:
        read = self.batch
        return receipts.with_errors(read.errors, read.members) if read.errors else receipts


def batch_calls(command: SubmitMany) -> SubmissionCalls:
    """Return the requests for a batch. Raises BatchTooLong for a batch that must be one commit but
    needs several requests."""
    events = batch_list(command.events)
    position = command.position
    ensure_position(position, command.arrived_ms)
    if len(events) > MAX_BATCH and (command.all_or_nothing or position is not None):
        raise BatchTooLong(
            f"expected at most {MAX_BATCH:,} events in one commit over HTTP, got {len(events):,}"
        )
    sent = batch(events, command.key)
    source, text = (None, None) if position is None else position[:2]
    before = None if position is None or len(position) == 2 else position[2] or ""
    path = target(
        board_path(command.board, "scores"),
        window=command.window,
        ranks=True if command.ranks else None,
        all_or_nothing=True if command.all_or_nothing else None,
        position_source=source,
        position=text,
        position_before=before,
        position_behind=True if position is not None and len(position) == 4 else None,
        scope=write_label_names(command.scope),
        arrived_ms=command.arrived_ms,
    )
    calls = [
        Call(
            "POST",
            path,
            _batch,
            body=body,
            is_repeatable=sent.is_repeatable,
            needs_idempotency_key=sent.is_repeatable,
            board=command.board,
        )
        for body in map(to_json.encode, sent.parts(MAX_BATCH))
    ]
    return SubmissionCalls(calls, sent)


def definition(name: str) -> Call[Board]:
    return Call("GET", board_path(name), Board.from_json)


def definitions() -> Call[list[Board]]:
    return Call("GET", "/v1/boards", _definitions)


def position(board: str, source: str) -> Call[str | None]:
    return Call("GET", target(board_path(board, "position"), source=source), _position)


def positions(board: str) -> Call[dict[str, str]]:
    return Call("GET", board_path(board, "positions"), _positions)


def changes(board: str, after: str | None, limit: int, *, initial: bool) -> Call[ChangePage]:
    path = target(
        board_path(board, "changes"), after=after, limit=limit, initial=True if initial else None
    )
    return Call("GET", path, _changes)


def restorable_boards() -> Call[list[RestorableBoard]]:
    """Return the request for the removed boards that can be restored."""
    return Call("GET", "/v1/archive/removed", _restorable_boards)


def deleted_boards(source: str | None) -> Call[list[DeletedBoard]]:
    return Call("GET", target("/v1/changes/deleted", source=source), _deleted_boards)


def changed_boards(after: str | None) -> Call[ChangedBoards]:
    return Call("GET", target("/v1/changes", after=after), _changed_boards)


def due_payouts(boards: Sequence[str] | None, after: str | None, limit: int) -> Call[PayoutPage]:
    path = target("/v1/payouts", boards=_patterns(boards), after=after, limit=limit)
    return Call("GET", path, _payout_page)


def waiting_payouts(boards: Sequence[str] | None, after: str | None) -> Call[list[WaitingPayouts]]:
    path = target("/v1/payouts/waiting", boards=_patterns(boards), after=after)
    return Call("GET", path, _waiting_payouts)


def payout_positions() -> Call[dict[str, str]]:
    return Call("GET", "/v1/payouts/positions", _positions)


def move_payout_position(reader: str, before: str | None, position: str | None) -> Call[None]:
    body = to_json.encode({"reader": reader, "before": before, "position": position})
    return Call("POST", "/v1/payouts/positions", nothing, body)


def _patterns(boards: Sequence[str] | None) -> str | None:
    return None if boards is None else ",".join(boards)


def sinks() -> Call[list[SinkReport]]:
    """Return the call for the state of the sinks that the service runs."""
    return Call("GET", "/v1/sinks", _sinks)


def sources() -> Call[list[SourceReport]]:
    """Return the call for the state of the sources that the service runs."""
    return Call("GET", "/v1/sources", _sources)


def audit(board: str | None, before: str | None, limit: int) -> Call[AuditPage]:
    return Call("GET", target("/v1/audit", board=board, before=before, limit=limit), _audit)


def hidden_everywhere(after: str | None, limit: int) -> Call[list[HiddenMember]]:
    return Call("GET", target("/v1/hidden", after=after, limit=limit), _hidden)


def hot() -> Call[HotReport]:
    return Call("GET", "/v1/hot", _hot)


def stats() -> Call[Stats]:
    return Call("GET", "/v1/stats", _stats)


def board_stats(board: str) -> Call[BoardStats]:
    return Call("GET", board_path(board, "stats"), _board_stats)


def check() -> Call[CheckReport]:
    return Call("POST", "/v1/check", _report, no_timeout=True)


def rebuild() -> Call[None]:
    return Call("POST", "/v1/rebuild", nothing, no_timeout=True)


def snapshot() -> Call[int]:
    return Call("POST", "/v1/snapshot", _offset, no_timeout=True)


def seal() -> Call[Sealed]:
    return Call("POST", "/v1/seal", _sealed, no_timeout=True)


def verify_period(board: str, window: str | None, period: str | None) -> Call[VerifiedPeriod]:
    path = target(board_path(board, "verify"), window=window, period=period)
    return Call("POST", path, _verified, no_timeout=True)


def clock_status() -> Call[ClockStatus]:
    return Call("GET", "/v1/clock", _clock)


def accept_clock() -> Call[ClockStatus]:
    return Call("POST", "/v1/clock/accept", _clock)
