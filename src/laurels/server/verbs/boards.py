"""Definitions of boards: create, change, show and delete."""

from decimal import Decimal
from typing import Any, Literal

import msgspec
from msgspec import Struct

from laurels.core.removed_boards import RestorableBoard
from laurels.errors import UnknownBoard
from laurels.errors.service import InvalidBody
from laurels.model.board import Board
from laurels.model.validation import quoted, safe_repr
from laurels.server.auth.caller import LEVEL
from laurels.server.requests.context import RequestContext, Response
from laurels.server.routing.route import CREATED, NO_CONTENT, NoQuery, Routes
from laurels.wire import requests

ROUTES = Routes()
DEFINITION_BYTES = 64 << 10


class PutQuery(Struct, forbid_unknown_fields=True):
    """`on_exists` says what happens if the board exists: change it where that is safe, accept it if
    it is equal, or refuse the request."""

    on_exists: Literal["change", "accept", "refuse"] = "change"


class ColumnFields(Struct):
    """A column as JSON; see `laurels.Column`."""

    name: str
    op: Literal["sum", "last", "best"] = "sum"
    order: Literal["desc", "asc"] = "desc"
    scale: int = 0
    min: int | Decimal | None = None
    max: int | Decimal | None = None
    measures: dict[str, int | Decimal] = {}


class BoardFields(Struct):
    """The definition of a board as JSON; see `laurels.Board`. The name may be left out if the path
    has it."""

    name: str = ""
    title: str = ""
    columns: list[ColumnFields] = []
    tie: Literal["first", "last", "member"] = "first"
    tie_resolution: str = "1ms"
    rank: Literal["ordinal", "competition", "dense"] = "ordinal"
    windows: list[str] = msgspec.field(default_factory=lambda: ["all"])
    tz: str = "UTC"
    week_start: str = "monday"
    grace: str = "5m"
    dedupe: str = "1h"
    dedupe_max: int = 1_000_000
    keep: int = 2
    shards: int = 1
    scopes: list[list[str]] = msgspec.field(default_factory=lambda: [[]])
    rank_by: str | list[str] = []
    labels: Literal["refuse", "ignore"] = "refuse"
    changes: str = ""
    changes_max: int = 10_000_000
    close_wait: str = "1d"
    starts: str = ""
    ends: str = ""
    retain: str = ""
    max_age: str = "0s"
    ledger: str = ""
    head: int = 0
    hide_zero: bool = False
    format: int = 1


def _definition(board: Board) -> msgspec.Raw:
    return msgspec.Raw(board.to_json())


def _definition_in(context: RequestContext) -> dict[str, Any]:
    fields = requests.document(context.raw, context.media_type)
    if not isinstance(fields, dict):
        raise InvalidBody(
            f"expected the definition of a board as an object, got {safe_repr(fields)}"
        )
    if fields.get("name", context.board) != context.board:
        raise InvalidBody(
            f"expected the name in the path, {quoted(context.board)}, got "
            f"{safe_repr(fields['name'])}"
        )
    return {**fields, "name": context.board}


@ROUTES.query("GET", "/v1/boards", returns=list[BoardFields])
async def boards(context: RequestContext, _: NoQuery) -> object:
    """All boards that the key may see, by name."""
    return [
        _definition(board) for board in await context.lb.boards() if context.caller.sees(board.name)
    ]


@ROUTES.query("GET", "/v1/boards/{board}", returns=BoardFields)
async def get(context: RequestContext, _: NoQuery) -> object:
    """The definition of a board."""
    return _definition(await context.lb.get(context.board))


@ROUTES.row(
    "PUT",
    "/v1/boards/{board}",
    "admin",
    query=PutQuery,
    body=BoardFields,
    returns=BoardFields,
    most_body=DEFINITION_BYTES,
)
async def create(context: RequestContext, query: PutQuery) -> object:
    """Create a board, or change the existing one where that is safe. The status is 201 if the board
    is new."""
    defined = Board.from_json(_definition_in(context))
    existing = await _existing(context)
    if query.on_exists == "change" and existing is not None:
        changes = msgspec.structs.asdict(defined)
        del changes["name"]
        return _definition(await context.lb.change(context.board, **changes))
    made = await context.lb.create(defined, exist_ok=query.on_exists != "refuse")
    return Response(_definition(made), CREATED if existing is None else 200)


async def _existing(context: RequestContext) -> Board | None:
    try:
        return await context.lb.get(context.board)
    except UnknownBoard:
        return None


@ROUTES.row(
    "PATCH",
    "/v1/boards/{board}",
    "admin",
    body=dict[str, Any],
    returns=BoardFields,
    most_body=DEFINITION_BYTES,
)
async def change(context: RequestContext, _: NoQuery) -> object:
    """Change the fields of a board that may change: `title`, `labels`, `keep`, `changes`,
    `changes_max`, `close_wait`, `head`, `hide_zero`, `starts`, `ends`, `retain`, `max_age`,
    `ledger`, and `windows`, `scopes` and `rank_by` (only to add some)."""
    fields = requests.document(context.raw, context.media_type)
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise InvalidBody(
            f"expected an object of fields of a board to change, got {safe_repr(fields)}"
        )
    return _definition(await context.lb.change(context.board, **fields))


@ROUTES.row("POST", "/v1/boards/{board}/clear", "admin", status=NO_CONTENT, audited=True)
async def clear(context: RequestContext, _: NoQuery) -> None:
    """Remove all members of a board, and keep its definition, its sealed periods and payouts, its
    hidden members, the ids of its events and the positions of its sources."""
    await context.lb.clear(context.board)


class UndeleteFields(Struct, forbid_unknown_fields=True):
    """The name that the restored board gets, by default the one in the path, and the unique id of
    the removed board, by default that of the board that was removed last."""

    name: str | None = None
    uid: str | None = None


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/undelete",
    "admin",
    body=UndeleteFields,
    returns=BoardFields,
    audited=True,
)
async def undelete(context: RequestContext, _: NoQuery) -> object:
    """Restore a board that was deleted, or removed by its `retain`, with its sealed periods and
    payouts and without its members: `{"name": …, "uid": …}`, both optional. A key that is limited
    to some boards needs both names."""
    document = requests.document(context.raw, context.media_type)
    fields = requests.typed(document, UndeleteFields)
    if fields.name is not None:
        context.caller.ensure(LEVEL["admin"], fields.name)
    board = await context.lb.undelete(context.board, name=fields.name, uid=fields.uid)
    return _definition(board)


@ROUTES.query("GET", "/v1/archive/removed", returns=list[RestorableBoard], scope="admin")
async def restorable_boards(context: RequestContext, _: NoQuery) -> object:
    """The removed boards that can be restored and that the key may see, in the order of their
    removal."""
    removed = await context.lb.restorable_boards()
    return [each for each in removed if context.caller.sees(each.name)]


@ROUTES.row("DELETE", "/v1/boards/{board}", "admin", status=NO_CONTENT)
async def delete(context: RequestContext, _: NoQuery) -> None:
    """Delete a board with all its data."""
    await context.lb.delete(context.board)
