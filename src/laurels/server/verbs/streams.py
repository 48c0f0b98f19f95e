"""Answers that go on: the whole ranking line by line, and the live feed."""

from collections.abc import AsyncGenerator

from laurels.core.standing import Page
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidQuery
from laurels.model.validation import safe_repr
from laurels.server.asking import RequestContext, Streamed
from laurels.server.live import What
from laurels.server.route import Routes
from laurels.wire import requests
from laurels.wire.answers import lines, problem
from laurels.wire.requests import Scoped

from .questions import Listed, scope_of

ROUTES = Routes()
EXPORT_PAGE = 1_000
MOST_LIVE = 1_000
LEAST_INTERVAL_MS, MOST_INTERVAL_MS = 20, 60_000


@ROUTES.row("GET", "/v1/boards/{board}/export", "read", query=Listed, returns=bytes)
async def export(ask: RequestContext, query: Listed) -> object:
    """All entries in standing order, a line of JSON each (NDJSON). Members that do not move across
    the place read so far are seen exactly once. Where it cannot go on (a rolling window has turned,
    say), the last line is a problem document instead of an entry."""
    first = await _export_page(ask, query, None)

    async def parts() -> AsyncGenerator[bytes, None]:
        page = first
        yield lines(page.entries)
        try:
            while page.next is not None:
                page = await _export_page(ask, query, page.next)
                yield lines(page.entries)
        except LaurelsError as error:
            yield lines([problem(error, error.status, "")])

    return Streamed(parts(), requests.NDJSON)


async def _export_page(ask: RequestContext, query: Listed, after: str | None) -> Page:
    return await ask.lb.top(
        ask.board,
        window=query.window,
        period=query.period,
        limit=EXPORT_PAGE,
        after=after,
        with_data=query.with_data,
        **scope_of(query),
    )


class LiveQuery(Scoped):
    """The first `limit` of a window, or a `member`, in a scope; changes at most every `interval`
    ms."""

    window: str | None = None
    limit: int = 10
    interval: int | None = None
    member: str | None = None


@ROUTES.row("GET", "/v1/boards/{board}/live", "read", query=LiveQuery, returns=bytes)
async def live(ask: RequestContext, query: LiveQuery) -> object:
    """The live feed, Server-Sent Events: `top` with the list, then `change` with what changed; of a
    member, `standing` at each change. `Last-Event-ID` goes on where a stream ended."""
    interval_ms = query.interval
    if interval_ms is None:
        interval_ms = ask.server.settings.live_interval
    if not LEAST_INTERVAL_MS <= interval_ms <= MOST_INTERVAL_MS:
        raise InvalidQuery(
            f"interval is {safe_repr(interval_ms)}, not {LEAST_INTERVAL_MS} to "
            f"{MOST_INTERVAL_MS} ms"
        )
    if not 1 <= query.limit <= MOST_LIVE:
        raise InvalidQuery(f"limit is {safe_repr(query.limit)}, not 1 to {MOST_LIVE}")
    labels = tuple(sorted(requests.scope_read(query.labels).items()))
    what = What(ask.board, query.window, query.limit, interval_ms, query.member, query.by, labels)
    frames = await ask.server.hub.watch(what, ask.last_event_id, ask.caller.identity)
    return Streamed(frames, "text/event-stream")
