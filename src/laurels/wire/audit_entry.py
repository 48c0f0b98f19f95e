"""The entries of the audit log, the protocol of a store of entries, and the store in memory."""

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from laurels.model.answer import Answer

MAX_ENTRIES = 100_000
"""The maximum number of entries that are kept. An entry has a few hundred bytes, at most a few
KiB."""

MAX_REQUEST_BYTES = 2_048
"""The maximum size of the arguments in an entry. For longer arguments the entry has only their
length."""


class AuditEntry(Answer, frozen=True, kw_only=True):
    """One administrative call.

    `by` is the name of the key, or the name of a program (such as the command line) with its user;
    `verb` is the operation, and `request` has its arguments. A `status` of 500 or more means that
    the call may have been carried out.
    """

    id: str = ""
    at_ms: int
    by: str
    verb: str
    board: str | None = None
    target: str | None = None
    """The name of the key that the call is about, None for other calls."""
    reason: str | None = None
    status: int = 200
    request: Any = None
    client: str | None = None
    request_id: str | None = None
    trace_id: str | None = None


def is_recorded(status: int) -> bool:
    """Return whether a call with this status was carried out, or may have been."""
    return status < 400 or status >= 500


class AuditStore(Protocol):
    """Stores the newest MAX_ENTRIES entries. The entries survive restarts, except those of
    `MemoryAudit`. The methods block, so any thread may call them except the thread of a store's
    event loop."""

    def create(self) -> None:
        """Create the log if it does not exist, so that an error occurs before a call is carried
        out. Raises the errors of `add`."""

    def add(self, entries: Sequence[AuditEntry]) -> None:
        """Append entries; they are durable when this returns. Raises StorageFailed, or the errors
        of an index server."""

    def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        """Return up to `limit` entries, newest first, older than the entry with the id `before`."""

    def close(self) -> None:
        """Release all resources."""


class MemoryAudit:
    """Implementation of `AuditStore` in memory.

    Entries are numbered from 1, and stored as JSON, which takes a fraction of the memory that
    objects take.
    """

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._lock = Lock()
        self._entries: deque[bytes] = deque(maxlen=most)
        self._added = 0

    def create(self) -> None:
        """Do nothing: this log needs no file."""

    def add(self, entries: Sequence[AuditEntry]) -> None:
        with self._lock:
            self._entries.extend([msgspec.json.encode(entry) for entry in entries])
            self._added += len(entries)

    def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        with self._lock:
            return list(self._newest(before, limit))

    def _newest(self, before: str | None, limit: int) -> Iterator[AuditEntry]:
        older_than = None if before is None else int(before.partition("-")[0])
        numbers = range(self._added, 0, -1)
        for number, encoded in zip(numbers, reversed(self._entries), strict=False):
            if limit <= 0:
                return
            if older_than is None or number < older_than:
                limit -= 1
                yield replace(msgspec.json.decode(encoded, type=AuditEntry), id=str(number))

    def close(self) -> None:
        with self._lock:
            self._entries.clear()
