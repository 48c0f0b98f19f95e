"""Requests for the audit log of a service."""

from typing import Any

import msgspec

from laurels.wire.audit_page import AuditPage
from laurels.wire.parameters import target

from .call import Call

_page: Any = msgspec.json.Decoder(AuditPage).decode


def audit(board: str | None, before: str | None, limit: int) -> Call[AuditPage]:
    """Return the call for up to `limit` entries, newest first. When sent, it raises Forbidden for a
    key without the scope `admin`."""
    return Call("GET", target("/v1/audit", board=board, before=before, limit=limit), _page)
