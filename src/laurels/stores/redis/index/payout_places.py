"""Stores which ledgers have payouts of a store, and the positions of the readers of due payouts.
The keys are in the slot of the definitions."""

from typing import Any

import msgspec

from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.sources import script_of

_MOVE = script_of("payout_position")


class RedisPayoutPlaces:
    """Implementation of `PayoutPlaces`. Keys: `pl`, the set of the ledgers with payouts of this
    store; `pl:<board>`, the set of the ledgers with payouts of boards of this name; `pp`, a hash
    with the positions of readers; `pa`, a hash with the ledgers of the sealed periods of deleted
    boards, by the unique ids of the boards."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._base = f"{prefix}{{boards}}:".encode()

    async def add_ledger(self, board: str, ledger: str) -> None:
        await self._call(b"SADD", b"pl:" + board.encode(), ledger.encode())
        await self._call(b"SADD", b"pl", ledger.encode())

    async def ledgers(self, board: str | None = None) -> list[str]:
        name = b"pl" if board is None else b"pl:" + board.encode()
        return sorted([bytes(each).decode() for each in await self._call(b"SMEMBERS", name)])

    async def add_archive(self, uid: str, ledger: str) -> None:
        await self._call(b"HSET", b"pa", uid.encode(), ledger.encode())

    async def archives(self) -> dict[str, str]:
        archives: Any = await self._call(b"HGETALL", b"pa")
        return {bytes(uid).decode(): bytes(ledger).decode() for uid, ledger in archives.items()}

    async def positions(self) -> dict[str, str]:
        positions: Any = await self._call(b"HGETALL", b"pp")
        return {bytes(name).decode(): bytes(at).decode() for name, at in positions.items()}

    async def move(self, reader: str, before: str, position: str) -> str | None:
        argument = msgspec.msgpack.encode([reader, position, before])
        stored = await self._connection.script(_MOVE, self._base + b"pp", argument)
        return None if stored is None else bytes(stored).decode()

    async def _call(self, command: bytes, name: bytes, *rest: bytes) -> Any:
        key = self._base + name
        return await self._connection.command(command, key, *rest, key=key)
