"""Write calls of the service to the audit log in batches, and read the entries that a caller may
see."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from msgspec import Struct
from msgspec.structs import replace

from laurels.api.recording import BatchedAudit
from laurels.errors import LaurelsError
from laurels.errors.service import InvalidQuery
from laurels.server.auth.caller import Caller
from laurels.wire import requests
from laurels.wire.audit_entry import MAX_REQUEST_BYTES, AuditEntry, AuditStore
from laurels.wire.audit_page import AuditPage, page_of

MAX_REASON = 500
ANOTHER_KEY = "another key"
"""The name shown in place of other callers' names to a caller that may not see these names. No key
can have it."""
_log = structlog.get_logger("laurels")


class AuditedCall(Struct, frozen=True):
    """A call to be recorded, with the data of its request."""

    caller: Caller
    verb: str
    of_board: bool
    part: str
    status: int
    reason: str | None
    raw: bytes
    media_type: str
    client: str
    request_id: str
    trace_id: str | None


def entry_of(call: AuditedCall, at_ms: int) -> AuditEntry:
    """Return the audit entry of a call. Its reason comes from the query string or, if the call
    itself takes a reason, from the body."""
    request = _request(call.raw, call.media_type)
    return AuditEntry(
        at_ms=at_ms,
        by=call.caller.name,
        verb=call.verb,
        board=call.part if call.of_board else None,
        target=None if call.of_board else call.part or None,
        reason=call.reason or _reason_of(request),
        status=call.status,
        request=request,
        client=call.client,
        request_id=call.request_id,
        trace_id=call.trace_id,
    )


def reason_in(query: str) -> tuple[str | None, str]:
    """Return the parameter `reason` of a query string, None if it is absent or empty, and the rest
    of the query. Raises InvalidQuery if the reason is repeated, too long or not UTF-8."""
    parts = query.split("&")
    reasons = [part for part in parts if part.startswith("reason=")]
    if len(reasons) > 1:
        raise InvalidQuery("expected the parameter 'reason' once, got it twice")
    rest = "&".join([part for part in parts if not part.startswith("reason=")])
    if not reasons:
        return None, rest
    try:
        reason = unquote_to_bytes(reasons[0].removeprefix("reason=").replace("+", " ")).decode()
    except UnicodeDecodeError as error:
        raise InvalidQuery("the query is not UTF-8") from error
    if len(reason) > MAX_REASON:
        raise InvalidQuery(f"expected a reason of up to {MAX_REASON} characters, got {len(reason)}")
    return reason or None, rest


def _request(raw: bytes, media_type: str) -> Any:
    """Return the body of a call as a document, or its length in bytes if it is large or malformed;
    None if it is empty."""
    if not raw:
        return None
    if len(raw) <= MAX_REQUEST_BYTES:
        with suppress(LaurelsError):
            return requests.document(raw, media_type)
    return {"bytes": len(raw)}


def _reason_of(request: Any) -> str | None:
    reason = request.get("reason") if isinstance(request, dict) else None
    return reason if isinstance(reason, str) else None


class Auditor:
    """The audit log of a server.

    Calls that are answered at the same time share one write. An entry that cannot be stored is
    written to the server's log instead; its call has been carried out, and is answered as usual.
    """

    def __init__(self, store: AuditStore, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._batched = BatchedAudit(store, self._report)
        self._now_ms = now_ms
        self.lost = 0
        """The number of entries that could not be stored."""

    async def add(self, call: AuditedCall) -> None:
        """Write the entry of a call. On return the entry is durable, unless it could not be
        stored."""
        await self._batched.add(entry_of(call, self._now_ms()))

    def _report(self, entries: Sequence[AuditEntry], error: Exception) -> None:
        self.lost += len(entries)
        for entry in entries:
            _log.error(
                "audit entry could not be stored",
                error=str(error),
                by=entry.by,
                verb=entry.verb,
                board=entry.board,
                target=entry.target,
                reason=entry.reason,
                request_id=entry.request_id,
            )

    async def page(
        self, caller: Caller, board: str | None, before: str | None, limit: int
    ) -> AuditPage:
        """Return the entries that a caller may see. A caller limited to some boards sees the
        entries of these boards, without the names and addresses of other callers."""
        page = await asyncio.to_thread(
            page_of,
            self._store,
            lambda entry: _may_see(caller, entry) and board in (None, entry.board),
            before,
            limit,
        )
        if caller.is_unlimited:
            return page
        return AuditPage([_redacted(caller, entry) for entry in page.entries], page.next)

    async def close(self) -> None:
        """Write the waiting entries."""
        await self._batched.close()


def _may_see(caller: Caller, entry: AuditEntry) -> bool:
    if caller.is_unlimited:
        return True
    return entry.board is not None and caller.sees(entry.board)


def _redacted(caller: Caller, entry: AuditEntry) -> AuditEntry:
    """Return an entry as a caller limited to some boards sees it. If another key made the call, the
    entry does not show which key this was, or from which address the call came."""
    if entry.by == caller.name or entry.by.startswith((f"{caller.name}.", f"{caller.name}/")):
        return entry
    return replace(entry, by=ANOTHER_KEY, client="", request_id="", trace_id=None)
