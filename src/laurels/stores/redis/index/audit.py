"""The audit log on an index server: a stream in the same slot as the definitions of the boards.

Every process appends to it; the server numbers the entries and drops the oldest ones.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from laurels.stores.redis.connection.connection import Connection
from laurels.wire.audit_entry import MAX_ENTRIES, AuditEntry

_FIELD = b"e"


class RedisAudit:
    """The stream of entries, for coroutines on the loop of the connection."""

    def __init__(self, connection: Connection, prefix: str, most: int = MAX_ENTRIES) -> None:
        self._connection = connection
        self._key = f"{prefix}{{boards}}:audit".encode()
        self._most = str(most).encode()

    async def add(self, entries: Sequence[AuditEntry]) -> None:
        for entry in entries:
            body = msgspec.json.encode(entry)
            await self._call(b"XADD", b"MAXLEN", b"~", self._most, b"*", _FIELD, body)

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
