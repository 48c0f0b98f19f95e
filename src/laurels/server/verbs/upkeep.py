"""Endpoints for the store as a whole, and for its keys."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from msgspec import Struct

from laurels.core.archived import VerifiedPeriod
from laurels.core.clock_status import ClockStatus
from laurels.core.stats import CheckReport, Sealed, Stats
from laurels.model.board_patterns import ALL_BOARDS
from laurels.server.auth.submission_rule import submission_rule
from laurels.server.requests.context import RequestContext, Response
from laurels.server.routing.route import CREATED, NO_CONTENT, NoQuery, Routes
from laurels.wire import requests
from laurels.wire.keys import Key, Scope

ROUTES = Routes()


@ROUTES.query("GET", "/v1/stats", returns=Stats)
async def stats(context: RequestContext, _: NoQuery) -> object:
    """Figures of the whole store. This needs a key that is not limited to some boards."""
    context.caller.ensure_unlimited()
    return await context.lb.stats()


@ROUTES.row("POST", "/v1/check", "admin", returns=CheckReport, store_wide=True)
async def check(context: RequestContext, _: NoQuery) -> object:
    """Check every data structure, and compare the rankings with the log. Writes wait, reads
    continue."""
    return await context.lb.check()


@ROUTES.row("POST", "/v1/rebuild", "admin", status=NO_CONTENT, store_wide=True)
async def rebuild(context: RequestContext, _: NoQuery) -> None:
    """Rebuild all rankings from the log. Writes wait."""
    await context.lb.rebuild()


class OffsetAnswer(Struct, frozen=True):
    """An offset of the log."""

    offset: int


@ROUTES.row("POST", "/v1/snapshot", "admin", returns=OffsetAnswer, store_wide=True)
async def snapshot(context: RequestContext, _: NoQuery) -> object:
    """Take a snapshot while the service continues."""
    return OffsetAnswer(await context.lb.snapshot())


@ROUTES.row("POST", "/v1/seal", "admin", returns=Sealed, store_wide=True)
async def seal(context: RequestContext, _: NoQuery) -> object:
    """Close all periods that are due, and write the closed ones to the archive. The service also
    does this by itself."""
    return await context.lb.seal()


class VerifyQuery(Struct, forbid_unknown_fields=True):
    """A sealed period. The window is by default the board's first; the window `all` of a board that
    has ended has one period, without a label."""

    window: str | None = None
    period: str | None = None


@ROUTES.row("POST", "/v1/boards/{board}/verify", "admin", query=VerifyQuery, returns=VerifiedPeriod)
async def verify(context: RequestContext, query: VerifyQuery) -> object:
    """Compute the digest of a sealed period once more, from the archive and from the log. Reads and
    writes continue."""
    return await context.lb.verify(context.board, window=query.window, period=query.period)


@ROUTES.query("GET", "/v1/clock", returns=ClockStatus)
async def clock_status(context: RequestContext, _: NoQuery) -> object:
    """The time that the boards use, and by how much it differs from the clock of the machine."""
    return await context.lb.clock_status()


@ROUTES.row("POST", "/v1/clock/accept", "admin", returns=ClockStatus, store_wide=True)
async def accept_clock(context: RequestContext, _: NoQuery) -> object:
    """Follow the clock of the machine from now on, even if it has leapt far."""
    return await context.lb.accept_clock()


class KeyDescription(Struct, frozen=True):
    """A key without its secret. `made_by` is the name of the key that made this one; it is null if
    the operator made this key, or if the key that made it is gone. After a rotation, the previous
    secret is accepted until `previous_until_ms`."""

    name: str
    scope: Scope
    boards: Sequence[str]
    created_ms: int
    rate: float | None
    expires_ms: int | None
    last_used_ms: int | None
    made_by: str | None
    previous_until_ms: int | None


class KeyMade(KeyDescription, frozen=True, kw_only=True):
    """A new key. Its secret `key` is not shown again."""

    key: str


class KeyFields(Struct):
    """The fields of a new key. `boards` are patterns, `rate` is in requests a second, and the key
    expires after `seconds`."""

    name: str
    scope: Scope = "read"
    boards: list[str] = msgspec.field(default_factory=lambda: ["*"])
    rate: float | None = None
    seconds: int | None = None


class RotationFields(Struct):
    """The fields of a rotation: for how many seconds the previous secret is still accepted."""

    grace_seconds: int = 3_600


class TokenFields(Struct):
    """The fields of a new token. It is for certain boards, and expires after `seconds`. Its
    requests and streams are charged to `subject`, which may make at most `rate` requests a second.
    A token with a `member` can only submit events of that member, with these `labels` and with
    values from `min` to `max`."""

    boards: list[str]
    seconds: int = 3_600
    subject: str | None = None
    rate: float | None = None
    member: str | None = None
    labels: dict[str, str] | None = None
    min: Decimal | None = None
    max: Decimal | None = None


class TokenMade(Struct, frozen=True):
    """A token, and the time of its expiry."""

    token: str
    expires_ms: int


async def _key_answer(context: RequestContext, keys: Sequence[Key]) -> list[KeyDescription]:
    used = await asyncio.to_thread(context.server.keys.last_used)
    names = {key.id: key.name for key in context.server.keys.listed(context.caller)}
    return [
        KeyDescription(
            key.name,
            key.scope,
            key.boards,
            key.created_ms,
            key.rate,
            key.expires_ms,
            used.get(key.id),
            names.get(key.issuer),
            key.previous_until_ms,
        )
        for key in keys
    ]


async def _made(context: RequestContext, key: Key, secret: str) -> KeyMade:
    (answer,) = await _key_answer(context, [key])
    return KeyMade(*msgspec.structs.astuple(answer), key=secret)


@ROUTES.row("GET", "/v1/keys", "admin", returns=list[KeyDescription])
async def keys(context: RequestContext, _: NoQuery) -> object:
    """The keys that permit no more than the key of the request, without their secrets. A key that
    is limited to some boards only sees itself and the keys that it made."""
    return await _key_answer(context, context.server.keys.listed(context.caller))


@ROUTES.row("POST", "/v1/keys", "admin", body=KeyFields, returns=KeyMade, status=CREATED)
async def create_key(context: RequestContext, _: NoQuery) -> object:
    """Make a key that permits no more than the key of the request. The new secret is in this
    answer, and stored nowhere."""
    document = requests.document(context.raw, context.media_type)
    optional = ("scope", "boards", "rate", "seconds")
    name, scope, boards_, rate, seconds = requests.fields(document, "name", optional=optional)
    key, secret = await asyncio.to_thread(
        context.server.keys.create,
        name,
        "read" if scope is None else scope,
        ALL_BOARDS if boards_ is None else boards_,
        requests.plain(rate),
        seconds,
        by=context.caller,
    )
    return Response(await _made(context, key, secret), CREATED)


@ROUTES.row("POST", "/v1/keys/{name}/rotate", "admin", body=RotationFields, returns=KeyMade)
async def rotate_key(context: RequestContext, _: NoQuery) -> object:
    """Give a key a new secret. The secret is in this answer, and stored nowhere. The previous
    secret is accepted for another `grace_seconds` seconds."""
    document = requests.document(context.raw, context.media_type) if context.raw else {}
    (grace,) = requests.fields(document, optional=("grace_seconds",))
    key, secret = await asyncio.to_thread(
        context.server.keys.rotate, context.part, 3_600 if grace is None else grace, context.caller
    )
    return await _made(context, key, secret)


@ROUTES.row("DELETE", "/v1/keys/{name}", "admin", status=NO_CONTENT)
async def revoke_key(context: RequestContext, _: NoQuery) -> None:
    """Revoke a key and its tokens at once. Their open streams end within a second."""
    await asyncio.to_thread(context.server.keys.revoke, context.part, context.caller)


@ROUTES.row("POST", "/v1/tokens", "read", body=TokenFields, returns=TokenMade, status=CREATED)
async def create_token(context: RequestContext, _: NoQuery) -> object:
    """Make a token for a browser or a game. It is for certain boards, and valid for at most a day.
    The token permits reading, or submitting for one member. It is sent as a Bearer token or, for
    streams, as `?token=`."""
    document = requests.document(context.raw, context.media_type)
    of_member = ("member", "labels", "min", "max")
    optional = ("seconds", "subject", "rate", *of_member)
    boards_, seconds, subject, rate, *rule = requests.fields(document, "boards", optional=optional)
    submission = None
    if any(each is not None for each in rule):
        submission = submission_rule(*rule)
    token, expires_ms = await asyncio.to_thread(
        context.server.keys.token,
        context.caller,
        boards_,
        3_600 if seconds is None else seconds,
        subject=subject,
        rate=requests.plain(rate),
        submission=submission,
    )
    return Response(TokenMade(token, expires_ms), CREATED)


@ROUTES.row("POST", "/v1/tokens/rotate", "admin", status=NO_CONTENT, store_wide=True)
async def rotate_signing(context: RequestContext, _: NoQuery) -> None:
    """Make a new secret for signing tokens. Tokens signed with the previous secret stay valid until
    they expire. After a second call, all tokens issued before the first call are invalid."""
    await asyncio.to_thread(context.server.keys.rotate_signing)
