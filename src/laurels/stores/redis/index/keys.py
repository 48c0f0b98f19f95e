"""The keys of a service, stored in the same slot as the definitions of the boards."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.keys import StoredKeys
from laurels.stores.redis.sources import script_of

_LOAD = script_of("keys_load")
_REPLACE = script_of("keys_replace")
_NEEDS_KEYS = b"needs_keys"


class RedisKeys:
    """Implementation of `ServerKeys`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:".encode()

    async def load(self) -> StoredKeys:
        version, signing, flat = await self._connection.script(_LOAD, self._base + b"k", b"")
        keys = {bytes(flat[i]).decode(): bytes(flat[i + 1]) for i in range(0, len(flat), 2)}
        return StoredKeys(
            None if version is None else bytes(version).decode(),
            None if signing is None else bytes(signing),
            keys,
        )

    async def version(self) -> str | None:
        version = await self._call(b"GET", b"kv")
        return None if version is None else bytes(version).decode()

    async def replace(
        self,
        old_version: str | None,
        new_version: str,
        signing: bytes,
        put: Mapping[str, bytes],
        remove: Sequence[str],
    ) -> bool:
        fields = [part for name, key in put.items() for part in (name, key.decode())]
        argument = [old_version, new_version, signing.decode(), fields, list(remove)]
        encoded = msgspec.msgpack.encode(argument)
        return bool(await self._connection.script(_REPLACE, self._base + b"k", encoded))

    async def needs_keys(self) -> bool:
        return bool(await self._call(b"HEXISTS", b"f", _NEEDS_KEYS)) or bool(
            await self._call(b"EXISTS", b"k")
        )

    async def last_used(self) -> Mapping[str, int]:
        times: Any = await self._call(b"HGETALL", b"ku")
        return {bytes(id).decode(): int(used_ms) for id, used_ms in times.items()}

    async def store_last_used(self, used_ms: Mapping[str, int]) -> None:
        fields = [part for id, ms in used_ms.items() for part in (id.encode(), b"%d" % ms)]
        await self._call(b"HSET", b"ku", *fields)

    async def forget_last_used(self, key_id: str) -> None:
        await self._call(b"HDEL", b"ku", key_id.encode())

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
