"""Streamed answers: the export of a whole ranking line by line, and the live feed."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from laurels.core.queries import Top
from laurels.core.query import ListQuery
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidQuery
from laurels.model.validation import safe_repr
from laurels.server.live.channel import WatchedList
from laurels.server.requests.context import RequestContext, Streamed
from laurels.server.routing.route import Routes
from laurels.wire import requests
from laurels.wire.answers import lines, problem
from laurels.wire.parameters import read_labels
from laurels.wire.queries import LABELS, parameters_of, read_fields

ROUTES = Routes()
EXPORT_PAGE = 1_000
EXPORT_COST = 250
"""The cost of reading one page of an export in the fair queue, as a number of entries of a live
feed. A page has four times as many entries. But an entry of an export costs less than an entry of a
feed, which is also compared with the previous list."""
MOST_LIVE = 1_000
LEAST_INTERVAL_MS, MOST_INTERVAL_MS = 20, 60_000


@ROUTES.row(
    "GET", "/v1/boards/{board}/export", "read", query=parameters_of(ListQuery), returns=bytes
)
async def export(context: RequestContext, parameters: Struct) -> object:
    """All entries in the order of the ranking, one line of JSON each (NDJSON). A member that does
    not move across the current position of the export appears exactly once. If the export cannot
    continue (for example, a rolling window has moved on), the last line is a problem document."""
    query = Top(**read_fields(ListQuery, parameters), limit=EXPORT_PAGE)
    hub, payer = context.server.hub, context.caller.identity

    async def read(query: Top) -> tuple[bytes, str | None]:
        page = await context.store.ask_async(context.board, query)
        return lines(page.entries), page.next

    content, after = await hub.work(payer, EXPORT_COST, partial(read, query))

    async def parts() -> AsyncGenerator[bytes, None]:
        nonlocal content, after
        yield content
        try:
            while after is not None:
                content, after = await hub.work(
                    payer, EXPORT_COST, partial(read, replace(query, after=after))
                )
                yield content
        except LaurelsError as error:
            yield lines([problem(error, error.status, "")])

    return Streamed(parts(), requests.NDJSON)


class LiveQuery(Struct, forbid_unknown_fields=True):
    """The first `limit` entries of a window in a scope, or a `member` and the value it needs to
    reach the position `to_rank`. There is at most one update every `interval` ms."""

    labels: Annotated[str, Meta(description=LABELS)] | None = None
    by: str | None = None
    window: str | None = None
    limit: int = 10
    interval: int | None = None
    member: str | None = None
    to_rank: int | None = None


@ROUTES.row("GET", "/v1/boards/{board}/live", "read", query=LiveQuery, returns=bytes)
async def live(context: RequestContext, query: LiveQuery) -> object:
    """The live feed as Server-Sent Events. For a list, the first event is `top` with the list, and
    each change is an event `change`. For a member, each change is an event `standing`; a change of
    the value that the member needs to reach the position `to_rank` counts, too. `Last-Event-ID`
    continues an interrupted stream."""
    interval_ms = query.interval
    if interval_ms is None:
        interval_ms = context.server.settings.live_interval
    if not LEAST_INTERVAL_MS <= interval_ms <= MOST_INTERVAL_MS:
        raise InvalidQuery(
            f"expected an integer from {LEAST_INTERVAL_MS} to {MOST_INTERVAL_MS} ms for interval, "
            f"got {safe_repr(interval_ms)}"
        )
    if not 1 <= query.limit <= MOST_LIVE:
        raise InvalidQuery(
            f"expected an integer from 1 to {MOST_LIVE} for limit, got {safe_repr(query.limit)}"
        )
    to_rank = query.to_rank
    if to_rank is not None and (query.member is None or to_rank < 1):
        raise InvalidQuery(
            f"expected a member and a position from 1 for to_rank, got {safe_repr(to_rank)}"
        )
    labels = read_labels(query.labels)
    what = WatchedList(
        context.board,
        query.window,
        query.limit,
        interval_ms,
        query.member,
        query.by,
        labels,
        to_rank,
    )
    frames = await context.server.hub.watch(what, context.last_event_id, context.caller.identity)
    return Streamed(frames, "text/event-stream")
