"""The audit log in pages, newest first."""

import re
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex, overload

from laurels.errors import InvalidCursor, InvalidLimit
from laurels.model.answer import Answer
from laurels.model.validation import safe_repr

from .audit_entry import AuditEntry, AuditStore

MAX_PAGE = 1_000
_CHUNK = 1_000
_ID = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?")
_ID_BITS = 63
"""The maximum number of bits of an integer in an id. SQLite and Redis both accept integers of this
size."""


class AuditPage(Answer, frozen=True):
    """Entries, newest first. `next` is the argument `before` for the next page, null on the last
    page."""

    entries: list[AuditEntry]
    next: str | None

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[AuditEntry]:
        return iter(self.entries)

    @overload
    def __getitem__(self, at: SupportsIndex) -> AuditEntry: ...
    @overload
    def __getitem__(self, at: slice) -> list[AuditEntry]: ...
    @overload
    def __getitem__(self, at: str) -> Any: ...
    def __getitem__(self, at: SupportsIndex | slice | str) -> Any:
        return super().__getitem__(at) if isinstance(at, str) else self.entries[at]


def page_of(
    store: AuditStore, is_wanted: Callable[[AuditEntry], bool], before: str | None, limit: int
) -> AuditPage:
    """Return up to `limit` entries for which `is_wanted` is true, older than the entry `before`.
    Raises InvalidCursor if `before` cannot be the id of an entry, and InvalidLimit if `limit` is
    not from 1 to 1,000. Blocks."""
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidLimit(
            f"expected an integer from 1 to {MAX_PAGE:,} for limit, got {safe_repr(limit)}"
        )
    if before is not None and not (isinstance(before, str) and _is_id(before)):
        raise InvalidCursor(f"expected the `next` of an answer for before, got {safe_repr(before)}")
    entries: list[AuditEntry] = []
    while True:
        chunk = store.page(before, _CHUNK)
        for entry in chunk:
            if is_wanted(entry):
                entries.append(entry)
                if len(entries) > limit:
                    return AuditPage(entries[:limit], entries[limit - 1].id)
        if len(chunk) < _CHUNK:
            return AuditPage(entries, None)
        before = chunk[-1].id


def about(board: str | None) -> Callable[[AuditEntry], bool]:
    """Return a predicate for `page_of`, which is true for the entries about a board or, if `board`
    is None, for all entries."""
    return lambda entry: board in (None, entry.board)


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None and all(
        int(part) < 1 << _ID_BITS for part in text.split("-")
    )
