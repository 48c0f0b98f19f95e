"""The entries of the audit log, the protocol of a store of entries, and the store in memory."""

from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, Protocol
from urllib.parse import quote

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


class ErasableAudit(AuditStore, Protocol):
    """An audit log whose entries can be rewritten."""

    def erase(self, member: str, token: str) -> int:
        """Replace a member by a token in the arguments of all calls, and return the number of
        entries that had it. Text such as a reason is not changed. When this returns, the log does
        not have the member in arguments any more. Raises StorageFailed."""


def without_member(entry: AuditEntry, member: str, token: str) -> AuditEntry:
    """Return an entry with a token in place of a member: in arguments that name members, and in the
    ids of payouts. Return the same object if the entry does not name the member."""
    changed = _replaced(entry.request, {member: token}, {quote(member, safe=""): token})
    return entry if changed == entry.request else replace(entry, request=changed)


def _replaced(request: Any, names: dict[str, str], parts: dict[str, str]) -> Any:
    """Return arguments in which members are replaced by tokens. `names` has the token of each
    member; `parts` has the same tokens by the form that the members have in the ids of payouts."""
    if isinstance(request, list):
        return [_replaced(each, names, parts) for each in request]
    if not isinstance(request, dict):
        return request
    replaced = {name: _replaced(each, names, parts) for name, each in request.items()}
    if isinstance(member := request.get("member"), str):
        replaced["member"] = names.get(member, member)
    if isinstance(members := request.get("members"), list):
        replaced["members"] = [
            names.get(each, each) if isinstance(each, str) else each for each in members
        ]
    if isinstance(payout := request.get("payout"), str):
        replaced["payout"] = "/".join([parts.get(each, each) for each in payout.split("/")])
    return replaced


class MemoryAudit:
    """Implementation of `ErasableAudit` in memory.

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

    def erase(self, member: str, token: str) -> int:
        with self._lock:
            erased = 0
            for at, encoded in enumerate(self._entries):
                entry = msgspec.json.decode(encoded, type=AuditEntry)
                if (changed := without_member(entry, member, token)) is not entry:
                    self._entries[at] = msgspec.json.encode(changed)
                    erased += 1
            return erased

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
