"""The store as a whole, and the keys to it."""

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from laurels.clock_status import ClockStatus
from laurels.http import requests
from laurels.http.asking import Answer, Ask
from laurels.http.key_store import Key, Scope
from laurels.http.route import CREATED, NO_CONTENT, NoQuery, Routes
from laurels.stats import CheckReport, Stats

ROUTES = Routes()


@ROUTES.question("GET", "/v1/stats", returns=Stats)
async def stats(ask: Ask, _: NoQuery) -> object:
    """Figures of the whole store."""
    return await ask.lb.stats()


@ROUTES.row("POST", "/v1/check", "admin", returns=CheckReport)
async def check(ask: Ask, _: NoQuery) -> object:
    """Checks every structure, and the rankings against the log. Writes wait, reads go on."""
    return await ask.lb.check()


@ROUTES.row("POST", "/v1/rebuild", "admin", status=NO_CONTENT)
async def rebuild(ask: Ask, _: NoQuery) -> None:
    """Derives all rankings anew from the log. Writes wait."""
    await ask.lb.rebuild()


class OffsetAnswer(Struct, frozen=True):
    """An offset of the log."""

    offset: int


@ROUTES.row("POST", "/v1/snapshot", "admin", returns=OffsetAnswer)
async def snapshot(ask: Ask, _: NoQuery) -> object:
    """Takes a snapshot while serving."""
    return OffsetAnswer(await ask.lb.snapshot())


@ROUTES.question("GET", "/v1/clock", returns=ClockStatus)
async def clock_status(ask: Ask, _: NoQuery) -> object:
    """The time the boards go by, and how it stands to the clock of the machine."""
    return await ask.lb.clock_status()


@ROUTES.row("POST", "/v1/clock/accept", "admin", returns=ClockStatus)
async def accept_clock(ask: Ask, _: NoQuery) -> object:
    """Follows the clock of the machine from now on, wherever it has leapt."""
    return await ask.lb.accept_clock()


class KeyShown(Struct, frozen=True):
    """A key without its secret."""

    name: str
    scope: Scope
    boards: Sequence[str]
    created_ms: int
    rate: float | None


class KeyMade(KeyShown, frozen=True, kw_only=True):
    """A new key; `key` is told this once."""

    key: str


class KeyFields(Struct):
    """A key to be made: `boards` are patterns, `rate` requests a second."""

    name: str
    scope: Scope = "read"
    boards: list[str] = msgspec.field(default_factory=lambda: ["*"])
    rate: float | None = None


class TokenFields(Struct):
    """A token to be made: for these boards, for so many seconds."""

    boards: list[str]
    seconds: int = 3_600


class TokenMade(Struct, frozen=True):
    """A token that only reads, and when it ends."""

    token: str
    expires_ms: int


def _shown(key: Key) -> KeyShown:
    return KeyShown(key.name, key.scope, key.boards, key.created_ms, key.rate)


@ROUTES.row("GET", "/v1/keys", "admin", returns=list[KeyShown])
async def keys(ask: Ask, _: NoQuery) -> object:
    """The keys there are, without their secrets."""
    return [_shown(key) for key in ask.server.keys.listed(ask.caller)]


@ROUTES.row("POST", "/v1/keys", "admin", body=KeyFields, returns=KeyMade, status=CREATED)
async def create_key(ask: Ask, _: NoQuery) -> object:
    """Makes a key. Its secret is in this answer and nowhere else."""
    said = requests.document(ask.raw, ask.media_type)
    name, scope, boards_, rate = requests.fields(said, "name", optional=("scope", "boards", "rate"))
    key, secret = await asyncio.to_thread(
        ask.server.keys.create,
        name,
        "read" if scope is None else scope,
        ["*"] if boards_ is None else boards_,
        requests.plain(rate),
        by=ask.caller,
    )
    shown_ = _shown(key)
    return Answer(
        KeyMade(
            shown_.name, shown_.scope, shown_.boards, shown_.created_ms, shown_.rate, key=secret
        ),
        CREATED,
    )


@ROUTES.row("DELETE", "/v1/keys/{name}", "admin", status=NO_CONTENT)
async def revoke_key(ask: Ask, _: NoQuery) -> None:
    """Takes a key away at once."""
    await asyncio.to_thread(ask.server.keys.revoke, ask.part, ask.caller)


@ROUTES.row("POST", "/v1/tokens", "read", body=TokenFields, returns=TokenMade, status=CREATED)
async def create_token(ask: Ask, _: NoQuery) -> object:
    """Makes a token for a browser: read-only, for some boards and at most a day. It is given as a
    Bearer token or, for live feeds, as `?token=`."""
    said = requests.document(ask.raw, ask.media_type)
    boards_, seconds = requests.fields(said, "boards", optional=("seconds",))
    token, expires_ms = await asyncio.to_thread(
        ask.server.keys.token, ask.caller, boards_, 3_600 if seconds is None else seconds
    )
    return Answer(TokenMade(token, expires_ms), CREATED)
