"""The audit log in pages, newest first."""

import re
from collections.abc import Callable

from msgspec import Struct

from laurels.errors.service import InvalidQuery
from laurels.model.validation import safe_repr

from .audit_entry import AuditEntry, AuditStore

MAX_PAGE = 1_000
_CHUNK = 1_000
_ID = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")
_ID_BITS = 63
"""Both SQLite and Redis take integers of this size."""


class AuditPage(Struct, frozen=True):
    """Entries, newest first; `next` is the `before` of the following page, null at the end."""

    entries: list[AuditEntry]
    next: str | None


async def page_of(
    store: AuditStore, is_wanted: Callable[[AuditEntry], bool], before: str | None, limit: int
) -> AuditPage:
    """Return up to `limit` entries for which `is_wanted` is true, older than the entry `before`.
    Raise InvalidQuery if that is no id of an entry."""
    if before is not None and not _is_id(before):
        raise InvalidQuery(f"expected the `next` of an answer for before, got {safe_repr(before)}")
    found: list[AuditEntry] = []
    while True:
        chunk = await store.page(before, _CHUNK)
        for entry in chunk:
            if is_wanted(entry):
                found.append(entry)
                if len(found) > limit:
                    return AuditPage(found[:limit], found[limit - 1].id)
        if len(chunk) < _CHUNK:
            return AuditPage(found, None)
        before = chunk[-1].id


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and all(
        int(part) < 1 << _ID_BITS for part in text.split("-")
    )
