"""Moderation: hiding members of a board, and showing them again."""

from datetime import datetime

from msgspec import Struct

from laurels.core.hiding import HiddenMember
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NO_CONTENT, NoQuery, Routes
from laurels.wire import requests

from .members import MemberFields

ROUTES = Routes()


class HideFields(Struct, forbid_unknown_fields=True):
    """A member, the reason for which it is hidden, and the time at which it is shown again, in
    milliseconds since 1970 UTC or as RFC 3339; null: it stays hidden until it is shown."""

    member: str
    reason: str
    until: int | datetime | None = None


@ROUTES.row(
    "POST", "/v1/boards/{board}/hide", "admin", body=HideFields, status=NO_CONTENT, audited=True
)
async def hide(context: RequestContext, _: NoQuery) -> None:
    """Hide a member: it is still counted, but it is in no ranking until it is shown again."""
    await _hide(context, context.board)


async def _hide(context: RequestContext, board: str | None) -> None:
    document = requests.document(context.raw, context.media_type)
    fields = requests.typed(document, HideFields)
    with context.server.admission.writing():
        await context.lb.hide(board, fields.member, fields.reason, until=fields.until)


class Shown(Struct, frozen=True):
    """Whether the member was hidden before it was shown."""

    shown: bool


@ROUTES.row(
    "POST", "/v1/boards/{board}/show", "admin", body=MemberFields, returns=Shown, audited=True
)
async def show(context: RequestContext, _: NoQuery) -> object:
    """Show a hidden member again, `{"member": …}`."""
    return await _show(context, context.board)


async def _show(context: RequestContext, board: str | None) -> Shown:
    (member,) = requests.fields(requests.document(context.raw, context.media_type), "member")
    with context.server.admission.writing():
        return Shown(await context.lb.show(board, member))


@ROUTES.row(
    "POST", "/v1/hide", "admin", body=HideFields, status=NO_CONTENT, store_wide=True, audited=True
)
async def hide_everywhere(context: RequestContext, _: NoQuery) -> None:
    """Hide a member on all boards, those created later included."""
    await _hide(context, None)


@ROUTES.row(
    "POST", "/v1/show", "admin", body=MemberFields, returns=Shown, store_wide=True, audited=True
)
async def show_everywhere(context: RequestContext, _: NoQuery) -> object:
    """End the hiding of a member on all boards. A hiding on a single board is not affected."""
    return await _show(context, None)


class HiddenQuery(Struct, forbid_unknown_fields=True):
    """`after` is the last member of the previous page."""

    after: str | None = None
    limit: int = 1_000


@ROUTES.row(
    "GET",
    "/v1/hidden",
    "admin",
    query=HiddenQuery,
    returns=list[HiddenMember],
    store_wide=True,
)
async def hidden_everywhere(context: RequestContext, query: HiddenQuery) -> object:
    """The members that are hidden on all boards, in the order of their ids."""
    return await context.lb.hidden(after=query.after, limit=query.limit)
