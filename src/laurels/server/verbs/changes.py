"""The changes of a board: in pages, and as a stream."""

import asyncio
from collections.abc import AsyncGenerator

from msgspec import Struct

from laurels.core.changes.answers import ChangePage
from laurels.core.changes.cursor import checked_limit
from laurels.errors import LaurelsError, Unavailable
from laurels.server.context import RequestContext, Streamed
from laurels.server.live.channel import HEARTBEAT_SECONDS
from laurels.server.live.frames import END, HEARTBEAT, frame
from laurels.server.route import Routes
from laurels.wire.answers import problem
from laurels.wire.live import RETRY_MS

ROUTES = Routes()
POLL_SECONDS = 0.05
"""How often a stream looks for changes after it found none."""
STREAM_PAGE = 500


class ChangesQuery(Struct, forbid_unknown_fields=True):
    """Up to `limit` changes after a cursor. Without a cursor they begin with the oldest that is
    kept; with `after=now` only future ones follow; with `initial` all present entries come first,
    then their changes."""

    after: str | None = None
    limit: int = 1_000
    initial: bool = False


class ChangesStreamQuery(Struct, forbid_unknown_fields=True):
    """The changes after a cursor, or after `Last-Event-ID`; the parameters are those of the
    pages."""

    after: str | None = None
    initial: bool = False


@ROUTES.question("GET", "/v1/boards/{board}/changes", query=ChangesQuery, returns=ChangePage)
async def changes(context: RequestContext, query: ChangesQuery) -> object:
    """A page of changes. `cursor` is the `after` of the next page; `more` is true if that page has
    changes already."""
    limit = checked_limit(query.limit)
    return await context.store.changes_async(
        context.board, query.after, limit, initial=query.initial
    )


@ROUTES.row(
    "GET", "/v1/boards/{board}/changes/live", "read", query=ChangesStreamQuery, returns=bytes
)
async def watch_changes(context: RequestContext, query: ChangesStreamQuery) -> object:
    """Changes as Server-Sent Events, for as long as the client reads. An event `changes` has a page
    of changes, and its id is the page's cursor. `Last-Event-ID` continues an interrupted stream. If
    the stream cannot continue, its last event is `problem`."""
    after = context.last_event_id or query.after
    first = await context.store.changes_async(
        context.board, after, STREAM_PAGE, initial=query.initial and not context.last_event_id
    )
    return Streamed(_pages(context, first), "text/event-stream")


async def _pages(context: RequestContext, page: ChangePage) -> AsyncGenerator[bytes, None]:
    """Yield each page as an event, and a heartbeat if there is none for a while."""
    yield b"retry: %d\n\n" % RETRY_MS
    seen: object = None
    empty_polls = 0
    while not context.server.hub.stopping:
        if page.changes:
            empty_polls = 0
            yield frame("changes", page.cursor, page)
        elif not page.more:
            if empty_polls * POLL_SECONDS >= HEARTBEAT_SECONDS:
                empty_polls = 0
                yield HEARTBEAT
            empty_polls += 1
            await asyncio.sleep(POLL_SECONDS)
        try:
            token = context.store.change_token(context.board) if context.store.is_exact else None
            if page.changes or page.more or token is None or token != seen:
                seen = token
                page = await context.store.changes_async(context.board, page.cursor, STREAM_PAGE)
        except Unavailable:
            await asyncio.sleep(POLL_SECONDS)
        except LaurelsError as error:
            yield frame("problem", page.cursor, problem(error, error.status, ""))
            return
    yield END
