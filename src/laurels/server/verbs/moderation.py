"""Moderation: hiding members of a board, and showing them again."""

from msgspec import Struct

from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NO_CONTENT, NoQuery, Routes
from laurels.wire import requests

from .writes import MemberFields

ROUTES = Routes()


class HideFields(Struct, forbid_unknown_fields=True):
    """A member, the reason for which it is hidden, and the time at which it is shown again, in
    milliseconds since 1970 UTC; null: it stays hidden until it is shown."""

    member: str
    reason: str
    until: int | None = None


@ROUTES.row(
    "POST", "/v1/boards/{board}/hide", "admin", body=HideFields, status=NO_CONTENT, audited=True
)
async def hide(context: RequestContext, _: NoQuery) -> None:
    """Hide a member: it is still counted, but it is in no ranking until it is shown again."""
    document = requests.document(context.raw, context.media_type)
    member, reason, until = requests.fields(document, "member", "reason", optional=("until",))
    with context.server.admission.writing():
        await context.lb.hide(context.board, member, reason, until=requests.plain(until))


class Shown(Struct, frozen=True):
    """Whether the member was hidden before it was shown."""

    shown: bool


@ROUTES.row(
    "POST", "/v1/boards/{board}/show", "admin", body=MemberFields, returns=Shown, audited=True
)
async def show(context: RequestContext, _: NoQuery) -> object:
    """Show a hidden member again, `{"member": …}`."""
    (member,) = requests.fields(requests.document(context.raw, context.media_type), "member")
    with context.server.admission.writing():
        return Shown(await context.lb.show(context.board, member))
