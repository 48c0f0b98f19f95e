"""The keys to a service, beside the definitions of the boards: in the same slot."""

from typing import Any

from .connection import Connection

_SECRET = b"secret"


class RedisKeys:
    """Implements `ServerKeys`."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:".encode()

    async def load(self) -> tuple[str | None, dict[str, bytes]]:
        """The secret, None where there is none yet, and all keys."""
        found: Any = await self._call(b"HGETALL", b"k")
        secret: Any = await self._call(b"GET", _SECRET)
        kept = {bytes(name).decode(): bytes(key) for name, key in found.items()}
        return None if secret is None else bytes(secret).decode(), kept

    async def add(self, name: str, key: bytes) -> bool:
        """Keeps a key; False where there is one of that name."""
        return bool(await self._call(b"HSETNX", b"k", name.encode(), key))

    async def remove(self, name: str) -> bool:
        """Takes a key away; whether it was there."""
        return bool(await self._call(b"HDEL", b"k", name.encode()))

    async def settle(self, secret: str) -> str:
        """Keeps a secret where there is none yet; the one that is kept."""
        await self._call(b"SETNX", _SECRET, secret.encode())
        return bytes(await self._call(b"GET", _SECRET)).decode()

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
