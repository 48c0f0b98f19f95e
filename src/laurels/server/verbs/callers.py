"""What the key or token of the caller permits, so that a page offers only permitted operations."""

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
    """What the key or token of the request permits: its scope, and its boards as patterns (null:
    all boards). `member` is the only member for which a token may submit; the scope of such a token
    is `write`. `member` is null for keys and other tokens."""

    name: str
    scope: Scope
    boards: Sequence[str] | None
    member: str | None


@ROUTES.query("GET", "/v1/me", returns=CallerAnswer, takes_submissions=True)
async def me(context: RequestContext, _: NoQuery) -> object:
    """The permissions of the caller: the scope of its key or token, and its boards."""
    caller = context.caller
    if caller.submission is not None:
        return CallerAnswer(caller.name, "write", caller.boards, caller.submission.member)
    return CallerAnswer(caller.name, _SCOPE_OF[caller.level], caller.boards, None)
