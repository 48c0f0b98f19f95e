"""What has changed on a board: in pages, and as a stream that goes on."""

import asyncio
from collections.abc import AsyncGenerator

from msgspec import Struct

from laurels.core.changes.answers import ChangePage
from laurels.core.changes.cursor import checked_limit
from laurels.errors import LaurelsError, Unavailable
from laurels.server.asking import RequestContext, Streamed
from laurels.server.live import END, HEARTBEAT, HEARTBEAT_SECONDS, frame
from laurels.server.route import Routes
from laurels.wire.answers import problem
from laurels.wire.live import RETRY_MS

ROUTES = Routes()
LOOK_SECONDS = 0.05
"""How often a stream looks for changes where there were none."""
STREAM_PAGE = 500


class ChangesQuery(Struct, forbid_unknown_fields=True):
    """Up to `limit` changes after a cursor; without one from the oldest that is kept, with
    `after=now` only those to come, with `initial` every present entry and then what changed."""

    after: str | None = None
    limit: int = 1_000
    initial: bool = False


class ChangesStreamQuery(Struct, forbid_unknown_fields=True):
    """The changes after a cursor, or after `Last-Event-ID`; see the pages."""

    after: str | None = None
    initial: bool = False


@ROUTES.question("GET", "/v1/boards/{board}/changes", query=ChangesQuery, returns=ChangePage)
async def changes(ask: RequestContext, query: ChangesQuery) -> object:
    """A page of changes. `cursor` is the `after` of the next page, `more` whether there is one
    already."""
    limit = checked_limit(query.limit)
    return await ask.store.changes_async(ask.board, query.after, limit, initial=query.initial)


@ROUTES.row(
    "GET", "/v1/boards/{board}/changes/live", "read", query=ChangesStreamQuery, returns=bytes
)
async def watch_changes(ask: RequestContext, query: ChangesStreamQuery) -> object:
    """Changes as Server-Sent Events, for as long as the reader stays: `changes` with a page of
    them, whose id is its cursor. `Last-Event-ID` goes on where a stream ended. Where they cannot go
    on, the last event is `problem`."""
    after = ask.last_event_id or query.after
    first = await ask.store.changes_async(
        ask.board, after, STREAM_PAGE, initial=query.initial and not ask.last_event_id
    )
    return Streamed(_pages(ask, first), "text/event-stream")


async def _pages(ask: RequestContext, page: ChangePage) -> AsyncGenerator[bytes, None]:
    """Yield pages as events, as they come, and a heartbeat where none does for long."""
    yield b"retry: %d\n\n" % RETRY_MS
    seen: object = None
    quiet_looks = 0
    while not ask.server.hub.stopping:
        if page.changes:
            quiet_looks = 0
            yield frame("changes", page.cursor, page)
        elif not page.more:
            if quiet_looks * LOOK_SECONDS >= HEARTBEAT_SECONDS:
                quiet_looks = 0
                yield HEARTBEAT
            quiet_looks += 1
            await asyncio.sleep(LOOK_SECONDS)
        try:
            token = ask.store.change_token(ask.board) if ask.store.is_exact else None
            if page.changes or page.more or token is None or token != seen:
                seen = token
                page = await ask.store.changes_async(ask.board, page.cursor, STREAM_PAGE)
        except Unavailable:
            await asyncio.sleep(LOOK_SECONDS)
        except LaurelsError as error:
            yield frame("problem", page.cursor, problem(error, error.status, ""))
            return
    yield END
