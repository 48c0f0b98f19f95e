"""The changes of a board: in pages, and as a stream."""

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.changes.answers import (
    ChangedBoards,
    ChangePage,
    DeletedBoard,
    without_reasons,
)
from laurels.core.changes.cursor import checked_limit
from laurels.server.live.change_stream import ChangeStream
from laurels.server.requests.context import RequestContext, Streamed
from laurels.server.routing.route import Routes

ROUTES = Routes()


class ChangesQuery(Struct, forbid_unknown_fields=True):
    """Up to `limit` changes after a cursor. Without a cursor they begin with the oldest change that
    is kept. With `after=now` there are only future changes. With `initial` all current entries come
    first, and then the changes after them."""

    after: str | None = None
    limit: int = 1_000
    initial: bool = False


class ChangedBoardsQuery(Struct, forbid_unknown_fields=True):
    """The cursor of the previous answer. Without a cursor, the boards of the answer are null."""

    after: str | None = None


class DeletedBoardsQuery(Struct, forbid_unknown_fields=True):
    """The source whose positions are in the answer, such as `sink:NAME`."""

    source: str | None = None


class ChangesStreamQuery(Struct, forbid_unknown_fields=True):
    """The changes after a cursor, or after `Last-Event-ID`. The parameters are the same as for
    pages of changes."""

    after: str | None = None
    initial: bool = False


@ROUTES.query("GET", "/v1/boards/{board}/changes", query=ChangesQuery, returns=ChangePage)
async def changes(context: RequestContext, query: ChangesQuery) -> object:
    """A page of changes. `cursor` is the `after` of the next page; `more` is true if there already
    are changes for the next page. Changes of the kinds `hide`, `disqualify` and `confirm` have
    `data` only for a key that administers."""
    limit = checked_limit(query.limit)
    page = await context.store.changes_async(
        context.board, query.after, limit, initial=query.initial
    )
    return page if context.caller.administers else without_reasons(page)


@ROUTES.query("GET", "/v1/changes", query=ChangedBoardsQuery, returns=ChangedBoards)
async def changed_boards(context: RequestContext, query: ChangedBoardsQuery) -> object:
    """The boards that have changes after a cursor and that the key may see. They are null if the
    store does not know which boards have changed; then read all boards. The answer may be
    incomplete, so also read all boards at long intervals."""
    changed = await context.lb.changed_boards(query.after)
    if changed.boards is None:
        return changed
    return replace(changed, boards=[name for name in changed.boards if context.caller.sees(name)])


@ROUTES.query("GET", "/v1/changes/deleted", query=DeletedBoardsQuery, returns=list[DeletedBoard])
async def deleted_boards(context: RequestContext, query: DeletedBoardsQuery) -> object:
    """The deleted boards whose changes are still kept and that the key may see. The changes of each
    are read with its `cursor`, at `/v1/boards/{name}/changes`."""
    deleted = await context.lb.deleted_boards(query.source)
    return [each for each in deleted if context.caller.sees(each.name)]


@ROUTES.row(
    "GET", "/v1/boards/{board}/changes/live", "read", query=ChangesStreamQuery, returns=bytes
)
async def watch_changes(context: RequestContext, query: ChangesStreamQuery) -> object:
    """Changes as Server-Sent Events, for as long as the client reads. An event `changes` has a page
    of changes, and its id is the page's cursor. `Last-Event-ID` continues an interrupted stream. If
    the stream cannot continue, its last event is `problem`."""
    server = context.server
    stream = ChangeStream(
        server.hub,
        context.store,
        context.board,
        context.caller.identity,
        shows_reasons=context.caller.administers,
    )
    after = context.last_event_id or query.after
    await stream.begin(after, initial=query.initial and not context.last_event_id)
    return Streamed(stream.frames(), "text/event-stream")
