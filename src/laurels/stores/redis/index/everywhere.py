"""The members that are hidden on all boards, stored in the slot of the definitions."""

from typing import Any

import msgspec

from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.everywhere import EverywhereChange, StoredEverywhere
from laurels.stores.redis.sources import script_of

from .coding import as_text
from .hidings import decode_stored, encode_stored

_HIDE = script_of("hide_everywhere")
_changes = msgspec.msgpack.Decoder(EverywhereChange)


class RedisEverywhere:
    """Implementation of `ServerEverywhere`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:h".encode()

    async def version(self) -> int:
        """Return the version of the list; 0 if it was never changed."""
        return int(await self._call(b"GET", b"v") or 0)

    async def load(self) -> StoredEverywhere:
        """Return the list. The version is read before the list, so the list is never older than the
        version."""
        version = await self.version()
        hidings: Any = await self._call(b"HGETALL", b"h")
        pending: Any = await self._call(b"HGETALL", b"p")
        return StoredEverywhere(
            version,
            {bytes(member): decode_stored(hiding) for member, hiding in hidings.items()},
            next((_changes.decode(body) for body in pending.values()), None),
        )

    async def change(self, known: int, change: EverywhereChange) -> str:
        """Carry out a change; see `ServerEverywhere`."""
        parts = [
            known,
            change.version,
            change.member.decode(),
            False if change.hiding is None else encode_stored(change.hiding),
            as_text(msgspec.msgpack.encode(change)),
        ]
        argument = msgspec.msgpack.encode(parts)
        return bytes(await self._connection.script(_HIDE, self._base + b"v", argument)).decode()

    async def taken_up(self, version: int) -> None:
        """Store that all boards have taken up a change."""
        await self._call(b"HDEL", b"p", b"%d" % version)

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
