"""List the due payouts of all boards, confirm payouts, and correct sealed periods."""

import asyncio

from msgspec import Struct

from laurels.core.due_payouts import BoardSelection, WaitingPayouts
from laurels.core.payouts import Payout, PayoutPage, Revision
from laurels.errors.service import InvalidKey, InvalidQuery
from laurels.model.board_patterns import parse_patterns
from laurels.server.auth.caller import Caller
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NO_CONTENT, NoQuery, Routes
from laurels.wire import requests

ROUTES = Routes()


class DuePayoutsQuery(Struct, forbid_unknown_fields=True):
    """Up to `limit` due payouts after a cursor. `boards` are patterns of boards, separated by
    commas; without them the payouts are those of all boards that the key may see."""

    boards: str | None = None
    after: str | None = None
    limit: int = 1_000


class WaitingPayoutsQuery(Struct, forbid_unknown_fields=True):
    """The payouts after a cursor. `boards` are patterns of boards, separated by commas."""

    boards: str | None = None
    after: str | None = None


class ReaderPositions(Struct, frozen=True):
    """Cursors by the names of the readers that stored them."""

    positions: dict[str, str]


class PositionFields(Struct, forbid_unknown_fields=True):
    """The name of a reader, the cursor that is stored, and the one to store; null is none."""

    reader: str
    before: str | None = None
    position: str | None = None


@ROUTES.query("GET", "/v1/payouts", query=DuePayoutsQuery, returns=PayoutPage, scope="admin")
async def due_payouts(context: RequestContext, query: DuePayoutsQuery) -> object:
    """The due payouts of all boards, in the order in which they were due. The list grows only at
    its end: continue from the `cursor` of the last page. While `next` is not null there are more,
    even if a page has none."""
    boards = _selected(context.caller, query.boards)
    due = context.store.due_payouts
    return await asyncio.to_thread(due.page, query.after, query.limit, boards)


@ROUTES.query(
    "GET",
    "/v1/payouts/waiting",
    query=WaitingPayoutsQuery,
    returns=list[WaitingPayouts],
    scope="admin",
)
async def waiting_payouts(context: RequestContext, query: WaitingPayoutsQuery) -> object:
    """How many due payouts of each board come after a cursor, and when the first of them was
    due."""
    boards = _selected(context.caller, query.boards)
    return await asyncio.to_thread(context.store.due_payouts.waiting, query.after, boards)


@ROUTES.query("GET", "/v1/payouts/positions", returns=ReaderPositions, scope="admin")
async def payout_positions(context: RequestContext, _: NoQuery) -> object:
    """The cursors that readers of the due payouts have stored. A key that is limited to some boards
    sees only those that it has stored."""
    stored = await asyncio.to_thread(context.store.due_payouts.positions)
    own = _own_prefix(context.caller)
    return ReaderPositions(
        {name.removeprefix(own): at for name, at in stored.items() if name.startswith(own)}
    )


@ROUTES.row(
    "POST",
    "/v1/payouts/positions",
    "admin",
    body=PositionFields,
    status=NO_CONTENT,
    audited=False,
)
async def move_payout_position(context: RequestContext, _: NoQuery) -> None:
    """Store a cursor of the due payouts under the name of a reader: `{"reader": …, "before": …,
    "position": …}`. The request is refused (409) if the stored cursor is not `before`, so only one
    of two processes continues."""
    document = requests.document(context.raw, context.media_type)
    fields = requests.typed(document, PositionFields)
    reader = _own_prefix(context.caller) + fields.reader
    due = context.store.due_payouts
    with context.server.admission.writing():
        await asyncio.to_thread(due.move, reader, fields.before, fields.position)


def _own_prefix(caller: Caller) -> str:
    """Return the prefix of the names of a caller's readers. A key that is limited to some boards
    has its own prefix, so it cannot move the positions of others."""
    return "" if caller.is_unlimited else f"key/{caller.key_id}/"


def _selected(caller: Caller, boards: str | None) -> BoardSelection:
    """Return the boards of a query that the caller may see. Raises InvalidQuery."""
    try:
        patterns = None if boards is None else parse_patterns(boards.split(","))
    except InvalidKey as error:
        raise InvalidQuery(error.what) from error
    return BoardSelection(patterns, None if caller.is_unlimited else caller.sees)


class ConfirmFields(Struct, forbid_unknown_fields=True):
    """The id of a payout, and the reference of its payment."""

    payout: str
    reference: str


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/payouts/confirm",
    "admin",
    body=ConfirmFields,
    returns=Payout,
    audited=True,
)
async def confirm(context: RequestContext, _: NoQuery) -> object:
    """Record that a payout was paid: `{"payout": …, "reference": …}`. Repeating the request changes
    nothing; another reference for the same payout is refused (409)."""
    document = requests.document(context.raw, context.media_type)
    payout, reference = requests.fields(document, "payout", "reference")
    with context.server.admission.writing():
        return await context.lb.confirm(context.board, payout, reference)


class DisqualifyFields(Struct, forbid_unknown_fields=True):
    """A member, the reason, and the period to be corrected. With `labels` only the ranking of this
    scope is corrected, otherwise those of all scopes."""

    member: str
    reason: str
    window: str | None = None
    period: str | None = None
    labels: dict[str, str] | None = None


@ROUTES.row(
    "POST",
    "/v1/boards/{board}/disqualify",
    "admin",
    body=DisqualifyFields,
    returns=Revision,
    audited=True,
)
async def disqualify(context: RequestContext, _: NoQuery) -> object:
    """Make a new revision of a sealed period without a member: `{"member": …, "reason": …,
    "window": …, "period": …}`. Payouts that change and are not due yet are superseded; for the
    others the difference becomes a payout of its own."""
    document = requests.document(context.raw, context.media_type)
    fields = requests.typed(document, DisqualifyFields)
    with context.server.admission.writing():
        return await context.lb.disqualify(
            context.board,
            fields.member,
            fields.reason,
            window=fields.window,
            period=fields.period,
            labels=fields.labels,
        )
