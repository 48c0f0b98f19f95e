"""Read a plain sorted set and a hash beside it, in pieces, without writing.

The set is scanned (ZSCAN) rather than read by rank: a member that is in the set from the beginning
of a scan to its end is returned, whatever else changes meanwhile, and some may be returned twice. A
scan that was interrupted continues from its cursor as long as the same process serves the key,
which `process` identifies; after a restart the buckets have another order.

Scores are parsed as doubles, since servers may print more digits than a double has.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .connection import Connection

BEGINNING = 0
"""The cursor at the beginning of a scan, which is also the one returned at its end."""

_FIELDS_AT_ONCE = 1_000


class Scanned(NamedTuple):
    """A share of a scan: members with their scores, and the cursor of the next share."""

    entries: list[tuple[bytes, float]]
    cursor: int


class SortedSet:
    """Reads the sorted set at `key`. Every method raises the errors of `Connection.command`."""

    def __init__(self, connection: Connection, key: bytes) -> None:
        self.key = key
        self._connection = connection

    async def kind(self, key: bytes) -> str:
        """Return the type of a key: `zset`, `hash`, …, or `none`."""
        found: bytes = await self._connection.command(b"TYPE", key, key=key)
        return found.decode()

    async def size(self) -> int:
        """Return the number of members. O(1)."""
        return int(await self._connection.command(b"ZCARD", self.key, key=self.key))

    async def process(self) -> str:
        """Return the id of the server process that has the key; it changes with each start."""
        text: bytes = await self._connection.command(b"INFO", b"server", key=self.key)
        pairs = dict(line.partition(":")[::2] for line in text.decode().splitlines())
        return pairs.get("run_id", "")

    async def scan(self, cursor: int, count: int) -> Scanned:
        """Return the next share of about `count` members; a small set comes whole."""
        parts = (b"ZSCAN", self.key, b"%d" % cursor, b"COUNT", b"%d" % count)
        after, flat = await self._connection.command(*parts, key=self.key)
        pairs = zip(flat[::2], map(float, flat[1::2]), strict=True)
        return Scanned(list(pairs), int(after))

    async def scores(self, members: Sequence[bytes]) -> list[float | None]:
        """Return the scores of members, None for those who are not there. O(members)."""
        if not members:
            return []
        found = await self._connection.command(b"ZMSCORE", self.key, *members, key=self.key)
        return [None if score is None else float(score) for score in found]

    async def fields(self, key: bytes, members: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of members in the hash at `key`, None where it has none. O(members)."""
        found: list[bytes | None] = []
        for first in range(0, len(members), _FIELDS_AT_ONCE):
            part = members[first : first + _FIELDS_AT_ONCE]
            found += await self._connection.command(b"HMGET", key, *part, key=key)
        return found
