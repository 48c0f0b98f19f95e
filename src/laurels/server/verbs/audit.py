"""Read the audit log."""

from msgspec import Struct

from laurels.server.requests.context import RequestContext
from laurels.server.routing.route import Routes
from laurels.wire.audit_page import AuditPage

ROUTES = Routes()


class AuditQuery(Struct, forbid_unknown_fields=True):
    """`board`: only the entries of that board; `before`: the `next` of the previous answer."""

    board: str | None = None
    before: str | None = None
    limit: int = 100


@ROUTES.row("GET", "/v1/audit", "admin", query=AuditQuery, returns=AuditPage)
async def audit(context: RequestContext, query: AuditQuery) -> object:
    """The administrative calls, newest first. A key limited to some boards sees the
    entries of these boards."""
    return await context.server.audit.page(context.caller, query.board, query.before, query.limit)
