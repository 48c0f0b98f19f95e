"""The definitions of all boards, in one slot of the server."""

from typing import Any

import msgspec

from laurels.errors import FormatTooNew
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.sources import script_of

from .coding import as_text

FORMAT = 1
"""The version of the format of all keys on the server. It covers the names and the contents of the
keys."""
_PUT = script_of("put_definition")


def _packed(value: bytes | int | None) -> bytes:
    """Encode a value as msgpack; bytes are encoded as a string."""
    return msgspec.msgpack.encode(as_text(value) if isinstance(value, bytes) else value)


class RedisDefinitions:
    """Implementation of `Definitions`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:".encode()

    @property
    def key(self) -> bytes:
        """A key in the slot of the definitions."""
        return self._base + b"d"

    async def load(self) -> tuple[dict[str, bytes], int]:
        """Return all definitions, and the number of the next board."""
        definitions: Any = await self._call(b"HGETALL", b"d")
        number: Any = await self._call(b"GET", b"n")
        return {name.decode(): body for name, body in definitions.items()}, int(number or 1)

    async def put(
        self, name: str, old: bytes | None, new: bytes | None, number: int | None
    ) -> bool:
        """Replace a definition if the stored one is still `old` and the number of the next board is
        still `number`. Return whether it was replaced."""
        argument = b"\x94" + b"".join(map(_packed, (name.encode(), old, new, number)))
        return bool(await self._connection.script(_PUT, self._base + b"d", argument))

    async def deleted(self) -> list[bytes]:
        """Return the definitions of deleted boards that may still have rankings on the server."""
        definitions: list[bytes] = await self._call(b"HKEYS", b"g")
        return definitions

    async def cleared(self, body: bytes) -> None:
        """Remove a board from the list of `deleted`. Call it when all keys of the board are
        removed."""
        await self._call(b"HDEL", b"g", body)

    async def ensure_readable(self, *, create: bool) -> None:
        """Raise FormatTooNew if the format of the stored keys is newer than the format of this
        version. With `create`, store this version's format if none is stored yet."""
        kept = await self.note("format")
        if kept is None and create:
            kept = await self.first_note("format", str(FORMAT))
        if kept is not None and int(kept) > FORMAT:
            raise FormatTooNew(
                f"the boards on the server are in format {kept}, this version reads up to {FORMAT}"
            )

    async def note(self, key: str) -> str | None:
        """Return the note stored under `key`, or None."""
        text = await self._call(b"HGET", b"f", key.encode())
        return None if text is None else bytes(text).decode()

    async def set_note(self, key: str, value: str) -> None:
        """Store a note under `key`, replacing any earlier one."""
        await self._call(b"HSET", b"f", key.encode(), value.encode())

    async def first_note(self, key: str, value: str) -> str:
        """Store a note under `key` unless there is one; return the stored note."""
        await self._call(b"HSETNX", b"f", key.encode(), value.encode())
        return await self.note(key) or value

    async def clear_note(self, key: str) -> None:
        """Remove a note."""
        await self._call(b"HDEL", b"f", key.encode())

    async def take_number(self) -> int:
        """Return a number for a new board. No number is returned twice."""
        await self._call(b"SET", b"n", b"1", b"NX")
        return int(await self._call(b"INCR", b"n")) - 1

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
