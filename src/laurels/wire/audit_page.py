"""The audit log in pages, newest first."""

from collections.abc import Callable

from msgspec import Struct

from .audit_entry import AuditEntry, AuditStore

MAX_PAGE = 1_000
_CHUNK = 1_000


class AuditPage(Struct, frozen=True):
    """Entries, newest first; `next` is the `before` of the following page, null at the end."""

    entries: list[AuditEntry]
    next: str | None


async def page_of(
    store: AuditStore, is_wanted: Callable[[AuditEntry], bool], before: str | None, limit: int
) -> AuditPage:
    """Return up to `limit` entries for which `is_wanted` is true, older than the entry `before`."""
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
