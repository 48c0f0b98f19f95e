"""The audit log on an index server: a stream in the same slot as the definitions of the boards.

Every process appends to it; the server numbers the entries and drops the oldest ones.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.sources import script_of
from laurels.wire.audit_entry import MAX_ENTRIES, AuditEntry, without_member

from .coding import as_text

_FIELD = b"e"
_PAGE = 500
"""The number of entries that one call reads or writes when a member is erased."""
_REWRITE = script_of("audit_rewrite")


class RedisAudit:
    """The stream of entries, for coroutines on the loop of the connection."""

    def __init__(self, connection: Connection, prefix: str, most: int = MAX_ENTRIES) -> None:
        self._connection = connection
        self._key = f"{prefix}{{boards}}:audit".encode()
        self._rewrites = self._key + b":rewrites"
        self._most = str(most).encode()

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            body = msgspec.json.encode(entry)
            await self._call(b"XADD", b"MAXLEN", b"~", self._most, b"*", _FIELD, body)

    async def erase(self, member: str, token: str) -> int:
        """Put a token in the place of a member in all entries, and return how many named the
        member. The entries are written to a new stream, which then takes the place of this one.
        Several processes may do this at once. O(entries)."""
        while True:
            stored = await self._connection.command(b"GET", self._rewrites, key=self._key)
            rewrites = b"0" if stored is None else bytes(stored)
            entries = [entry async for entry in self._rewritten(member, token)]
            changed = sum([is_changed for _, _, is_changed in entries])
            if not changed:
                return 0
            target = f"{self._key.decode()}:{token}:{new_tag()}"
            for first in range(0, len(entries), _PAGE):
                some = entries[first : first + _PAGE]
                flat = [as_text(text) for number, body, _ in some for text in (number, body)]
                await self._rewrite(target, flat, as_text(rewrites))
            last = as_text(entries[-1][0])
            if await self._rewrite(target, [], as_text(rewrites), last, len(entries)):
                return changed
            await self._connection.command(b"UNLINK", target.encode(), key=self._key)

    async def _rewritten(self, member: str, token: str) -> AsyncIterator[tuple[bytes, bytes, bool]]:
        """Yield each entry with a token in place of the member: the entry's number, its body, and
        whether the body differs from the stored one."""
        start = b"-"
        while True:
            answer: Any = await self._call(b"XRANGE", start, b"+", b"COUNT", b"%d" % _PAGE)
            rows = list(answer.items() if isinstance(answer, dict) else answer or ())
            for number, fields in rows:
                ((_, body),) = fields.items() if isinstance(fields, dict) else fields
                entry = msgspec.json.decode(bytes(body), type=AuditEntry)
                erased = without_member(entry, member, token)
                is_changed = erased is not entry
                yield (
                    bytes(number),
                    msgspec.json.encode(erased) if is_changed else bytes(body),
                    is_changed,
                )
            if len(rows) < _PAGE:
                return
            start = b"(" + bytes(rows[-1][0])

    async def _rewrite(self, target: str, entries: list[msgspec.Raw], *rest: object) -> bool:
        argument = msgspec.msgpack.encode([target, entries, *rest])
        return bool(await self._connection.script(_REWRITE, self._key, argument))

    async def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        end = b"+" if before is None else f"({before}".encode()
        answer: Any = await self._call(b"XREVRANGE", end, b"-", b"COUNT", str(limit).encode())
        rows = answer.items() if isinstance(answer, dict) else answer or ()
        return [_entry(bytes(number), fields) for number, fields in rows]

    async def _call(self, command: bytes, *rest: bytes) -> Any:
        return await self._connection.command(command, self._key, *rest, key=self._key)


class ServerAudit:
    """Implementation of `AuditStore`. `run` runs a coroutine on the loop of the connection and
    waits for it."""

    def __init__(self, audit: RedisAudit, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._audit = audit
        self._run = run

    def create(self) -> None:
        """Do nothing, since the server creates the stream with its first entry."""

    def add(self, entries: Sequence[AuditEntry]) -> None:
        self._run(self._audit.add(entries))

    def page(self, before: str | None, limit: int) -> list[AuditEntry]:
        entries: list[AuditEntry] = self._run(self._audit.page(before, limit))
        return entries

    def close(self) -> None:
        """Do nothing, since the connection belongs to the store."""


def _entry(number: bytes, fields: Any) -> AuditEntry:
    ((_, body),) = fields.items() if isinstance(fields, dict) else fields
    return replace(msgspec.json.decode(bytes(body), type=AuditEntry), id=number.decode())
