"""Erasing a person from all boards."""

import msgspec
from msgspec import Struct

from laurels.core.erasing import Erasure
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire import requests

ROUTES = Routes()


class EraseFields(Struct, forbid_unknown_fields=True):
    """The member to be erased, and the reason, which is in the audit log."""

    member: str
    reason: str


@ROUTES.row(
    "POST", "/v1/erase", "admin", body=EraseFields, returns=Erasure, store_wide=True, audited=True
)
async def erase(context: RequestContext, _: NoQuery) -> object:
    """Erase a person: remove a member from every board, and put a random token in its place in the
    archive, in payouts and in the audit log. The answer lists what may still name the member. If a
    call fails midway, the next call completes it."""
    document = requests.document(context.raw, context.media_type)
    member, reason = requests.fields(document, "member", "reason")
    context.audited = msgspec.json.encode({"reason": reason})
    with context.server.admission.writing():
        erasure = await context.lb.erase(member, reason)
    context.audited = msgspec.json.encode({"reason": reason, "token": erasure.token})
    return erasure
