"""Reads a sorted set of another application, and a hash with data of its members, in pieces and
without writing.

The set is scanned (ZSCAN) and not read by rank. So every member that is in the set during the whole
scan is returned, even if the set changes; a member may be returned twice. An interrupted scan can
continue from its cursor as long as `process` returns the same server process. After a restart the
server returns members in another order.

Scores are parsed as doubles, since servers may print more digits than a double has.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .connection import Connection

BEGINNING = 0
"""The cursor at the beginning of a scan; the server also returns it at the end."""

_FIELDS_AT_ONCE = 1_000


class Scanned(NamedTuple):
    """A share of a scan: members with their scores, and the cursor of the next share."""

    entries: list[tuple[bytes, float]]
    cursor: int


class SortedSet:
    """A sorted set, at `key`, to be read. Every method raises the errors of
    `Connection.command`."""

    def __init__(self, connection: Connection, key: bytes) -> None:
        self.key = key
        self._connection = connection

    async def kind(self, key: bytes) -> str:
        """Return the type of a key: `zset`, `hash`, …, or `none`."""
        kind: bytes = await self._connection.command(b"TYPE", key, key=key)
        return kind.decode()

    async def size(self) -> int:
        """Return the number of members. O(1)."""
        return int(await self._connection.command(b"ZCARD", self.key, key=self.key))

    async def process(self) -> str:
        """Return the id of the server process that has the key. The id changes with each start of
        the server."""
        text: bytes = await self._connection.command(b"INFO", b"server", key=self.key)
        pairs = dict(line.partition(":")[::2] for line in text.decode().splitlines())
        return pairs.get("run_id", "")

    async def scan(self, cursor: int, count: int) -> Scanned:
        """Return the next share of about `count` members. A small set is returned whole."""
        parts = (b"ZSCAN", self.key, b"%d" % cursor, b"COUNT", b"%d" % count)
        after, flat = await self._connection.command(*parts, key=self.key)
        pairs = zip(flat[::2], map(float, flat[1::2]), strict=True)
        return Scanned(list(pairs), int(after))

    async def scores(self, members: Sequence[bytes]) -> list[float | None]:
        """Return the scores of members; None for a member that is not in the set. O(members)."""
        if not members:
            return []
        scores = await self._connection.command(b"ZMSCORE", self.key, *members, key=self.key)
        return [None if score is None else float(score) for score in scores]

    async def fields(self, key: bytes, members: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of members in the hash at `key`; None for a member without a value.
        O(members)."""
        values: list[bytes | None] = []
        for first in range(0, len(members), _FIELDS_AT_ONCE):
            part = members[first : first + _FIELDS_AT_ONCE]
            values += await self._connection.command(b"HMGET", key, *part, key=key)
        return values
