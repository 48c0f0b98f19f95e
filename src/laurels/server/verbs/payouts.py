"""Confirm payouts, and correct sealed periods."""

from msgspec import Struct

from laurels.core.payouts import Payout, Revision
from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import NoQuery, Routes
from laurels.wire import requests

ROUTES = Routes()


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
