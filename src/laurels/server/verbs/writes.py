"""Writes of scores."""

import asyncio
from typing import Any, Literal

from msgspec import Struct

from laurels.core.commands import SourcePosition, SubmitMany
from laurels.core.receipt import Receipt, Receipts
from laurels.errors import BatchRefused, BoardExists, LaurelsError
from laurels.errors.service import Forbidden, InvalidBody, InvalidQuery
from laurels.model.event import at_ms
from laurels.model.validation import safe_repr
from laurels.server.auth.caller import LEVEL
from laurels.server.requests.bodies import SMALL
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire import requests
from laurels.wire.answers import (
    BatchAnswer,
    BoardsAnswer,
    EventRefused,
    batch_answer,
    boards_answer,
)
from laurels.wire.parameters import read_label_names
from laurels.wire.requests import EventFields

ROUTES = Routes()
ON_LOOP = 1_000
"""The most receipts of a batch that are encoded on the event loop. More receipts are encoded in a
thread."""


class ScoresQuery(Struct, forbid_unknown_fields=True):
    """`receipts` says which receipts of a batch are listed. They show the score and rank in the
    scope that has the labels in `scope` (`zone,gender`), by default in the board's first scope.
    `position` is the progress of the source, which is committed together with the batch. With
    `position_before`, the batch is counted only if this text is the stored position of the source
    (empty: no position is stored). `position_behind` repairs a board whose shards have stored
    different positions (see the error `shards_differ`): only shards with the position
    `position_before` count their events, the others skip them. `arrived_ms` is the time at which
    the stream received the events; by this time the board decides whether they are late."""

    window: str | None = None
    ranks: bool = False
    all_or_nothing: bool = False
    receipts: Literal["all", "refused", "none"] = "all"
    position_source: str | None = None
    position: str | None = None
    position_before: str | None = None
    position_behind: bool = False
    scope: str | None = None
    arrived_ms: int | None = None


class SetQuery(Struct, forbid_unknown_fields=True):
    """The window and scope of the score and rank in the receipt. By default these are the first
    window and the first scope of the board."""

    window: str | None = None
    scope: str | None = None


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/scores",
    "write",
    query=ScoresQuery,
    body=(EventFields, list[EventFields]),
    returns=(Receipt, BatchAnswer),
    most_body=None,
    takes_submissions=True,
)
async def scores(context: RequestContext, query: ScoresQuery) -> object:
    """Report scores: one event, or up to 10,000 events in one commit. The answer to a refused
    single event has status 422. The answer to a batch has status 200 and a receipt for each event.
    A refused event does not affect the other events, except with `all_or_nothing`, where the whole
    batch is refused (409). The answer is sent when everything is on the disk."""
    events, single = await context.server.decoder.elements(
        context.raw, context.media_type, requests.events
    )
    position = _position_of(query)
    scope = read_label_names(query.scope)
    if context.caller.submission is not None:
        if not single or position is not None:
            raise Forbidden("the token permits one event at a time, without a position")
        events = [context.caller.submission.bound(events[0], context.caller.own_id)]
    if single and context.key is None and position is None and query.arrived_ms is None:
        with context.server.admission.writing():
            receipts, place = await context.store.submit_one(
                context.board, events[0], query.window, scope
            )
        return _counted(context, receipts, place)
    with context.server.admission.writing():
        try:
            batch = SubmitMany(
                context.board,
                events,
                query.window,
                ranks=query.ranks or single,
                all_or_nothing=query.all_or_nothing and not single,
                key=context.batch_key,
                position=position,
                scope=scope,
                arrived_ms=at_ms(query.arrived_ms),
                is_large=len(context.raw) > SMALL,
            )
            receipts = await context.store.write_async(batch)
        except BatchRefused as refused:
            context.server.metrics.submitted(refused.receipts)
            raise
    if single:
        return _counted(context, receipts, 0)
    context.server.metrics.submitted(receipts)
    context.show_written(receipts.offset)
    if len(events) > ON_LOOP:
        return await asyncio.to_thread(batch_answer, receipts, query.receipts)
    return batch_answer(receipts, query.receipts)


def _position_of(query: ScoresQuery) -> SourcePosition | None:
    """Return the position of a query; None if it has none. Raises InvalidQuery if a part of the
    position is missing."""
    source, text, before = query.position_source, query.position, query.position_before
    if source is None and text is None and before is None and not query.position_behind:
        return None
    if source is None or text is None:
        raise InvalidQuery("expected position and position_source together, got one of them")
    if query.position_behind:
        if before is None:
            raise InvalidQuery("expected position_before with position_behind, got none")
        return source, text, before, "behind"
    return (source, text) if before is None else (source, text, before)


def _counted(context: RequestContext, receipts: Receipts, place: int) -> Receipt:
    """Return the receipt of a single event, and add its outcome to the metrics. Raises
    EventRefused."""
    context.show_written(receipts.offset)
    receipt = receipts[place]
    context.server.metrics.counted(receipt.status)
    if receipt.status == "refused" and (error := receipts.error(place)) is not None:
        raise EventRefused(error)
    return receipt


class BoardEventFields(EventFields):
    """An event and its board."""

    board: str = ""


def _board_events(raw: bytes, kind: str) -> tuple[list[tuple[str, Any]], bool]:
    """Return the events of several boards, each with the name of its board. The second value is
    False: the body is always a list."""
    read = requests.document(raw, kind)
    if not isinstance(read, list):
        raise InvalidBody(f"expected a list of events, got {safe_repr(read)}")
    return [_board_event(event) for event in read], False


def _board_event(event: Any) -> tuple[str, Any]:
    if not isinstance(event, dict) or not isinstance(event.get("board"), str):
        raise InvalidBody(f"expected an event with a board, got {safe_repr(event)}")
    board = event.pop("board")
    return board, requests.timed(event)


@ROUTES.row(
    "POST",
    "/v1/scores",
    "write",
    body=list[BoardEventFields],
    returns=BoardsAnswer,
    most_body=None,
)
async def scores_of_boards(context: RequestContext, _: NoQuery) -> object:
    """Report scores on several boards. Each event names its board. The events of a board are one
    batch, in the order in which they were sent. If a board is unknown, the whole request is
    refused."""
    read, _is_single = await context.server.decoder.elements(
        context.raw, context.media_type, _board_events
    )
    requests.ensure_count(len(read))
    by_board: dict[str, list[Any]] = {}
    for name, event in read:
        by_board.setdefault(name, []).append(event)
    for name in by_board:
        context.caller.ensure(LEVEL["write"], name)
        await context.lb.get(name)
    answers: dict[str, BatchAnswer] = {}
    with context.server.admission.writing():
        for name, events in by_board.items():
            receipts = await context.store.write_async(
                SubmitMany(name, events, key=context.batch_key, is_large=len(context.raw) > SMALL)
            )
            context.server.metrics.submitted(receipts)
            answers[name] = await asyncio.to_thread(batch_answer, receipts, "all")
    return boards_answer(answers)


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/set",
    "write",
    query=SetQuery,
    body=EventFields,
    returns=Receipt,
    audited=True,
)
async def set_(context: RequestContext, query: SetQuery) -> object:
    """Set a member's score. On `sum` columns, this counts an event whose value is the
    difference."""
    events, single = requests.events(context.raw, context.media_type)
    if not single or not isinstance(events[0], (tuple, dict)):
        came = safe_repr(events[0]) if single else "a list of events"
        raise InvalidBody(f"expected one event, got {came}")
    member, value, at, id, labels = _parts(events[0])
    if id is None and context.key is not None:
        id = f"{context.batch_key}#0"
    with context.server.admission.writing():
        try:
            receipt = await context.lb.set(
                context.board,
                member,
                value,
                at=at,
                id=id,
                window=query.window,
                labels=labels,
                scope=read_label_names(query.scope),
            )
        except LaurelsError as error:
            if not _is_of_event(error):
                raise
            context.server.metrics.counted("refused")
            raise EventRefused(error) from None
    context.server.metrics.counted(receipt.status)
    return receipt


def _parts(event: Any) -> tuple[Any, Any, Any, Any, Any]:
    if isinstance(event, tuple):
        member, value, at, id, labels = (*event, None, None, None)[:5]
        return member, value, at, id, labels
    optional = ("at", "id", "labels")
    member, value, at, id, labels = requests.fields(event, "member", "value", optional=optional)
    return member, value, at, id, labels


def _is_of_event(error: LaurelsError) -> bool:
    """Return whether an error is about the event itself rather than about the request."""
    return error.status in (400, 409) and not isinstance(error, BoardExists)
