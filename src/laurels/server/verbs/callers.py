"""The caller itself: what a key or token may do, for programs that offer no more than that."""

from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from laurels.server.asking import RequestContext
from laurels.server.auth.caller import LEVEL
from laurels.server.route import NoQuery, Routes
from laurels.wire.keys import Scope

ROUTES = Routes()

_SCOPE_OF: dict[int, Scope] = {LEVEL[scope]: scope for scope in get_args(Scope)}


class CallerAnswer(Struct, frozen=True):
    """What the key or token of the request may do: its scope, on which boards (patterns, null for
    all). `member` is the only one a token for submissions may submit for, null without that
    limit."""

    name: str
    scope: Scope
    boards: Sequence[str] | None
    member: str | None


@ROUTES.question("GET", "/v1/me", returns=CallerAnswer)
async def me(ask: RequestContext, _: NoQuery) -> object:
    """What the caller may do: the scope of its key or token, and the boards it reaches."""
    caller = ask.caller
    member = None if caller.submission is None else caller.submission.member
    return CallerAnswer(caller.name, _SCOPE_OF[caller.level], caller.boards, member)
