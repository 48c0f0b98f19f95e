"""The caller itself: what its key or token permits, so that a page can offer only what is
permitted."""

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from laurels.server.auth.caller import LEVEL
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire.keys import Scope

ROUTES = Routes()

_SCOPE_OF: dict[int, Scope] = {LEVEL[scope]: scope for scope in get_args(Scope)}


class CallerAnswer(Struct, frozen=True):
    """What the key or token of the request permits: its scope, and the boards (patterns, null for
    all). For a token that submits for one member, `member` is that member, otherwise null."""

    name: str
    scope: Scope
    boards: Sequence[str] | None
    member: str | None


@ROUTES.query("GET", "/v1/me", returns=CallerAnswer)
async def me(context: RequestContext, _: NoQuery) -> object:
    """The permissions of the caller: the scope of its key or token, and its boards."""
    caller = context.caller
    member = None if caller.submission is None else caller.submission.member
    return CallerAnswer(caller.name, _SCOPE_OF[caller.level], caller.boards, member)
