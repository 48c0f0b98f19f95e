"""The audit log of a server, asked of it."""

from typing import Any

import msgspec

from laurels.wire.audit_page import AuditPage
from laurels.wire.parameters import target

from .call import Call

_page: Any = msgspec.json.Decoder(AuditPage).decode


def audit(board: str | None, before: str | None, limit: int) -> Call[AuditPage]:
    """Return the call for up to `limit` entries, newest first. Raises Forbidden when sent with a
    key that does not administer."""
    return Call("GET", target("/v1/audit", board=board, before=before, limit=limit), _page)
