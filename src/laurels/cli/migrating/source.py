"""Opens a sorted set to import, checks its type, and reads it."""

import os
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from laurels.cli.errors import SourceMissing, SourceWrongType
from laurels.cli.texts import readable
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.sources import SourceUnavailable
from laurels.stores.redis.connection.connection import Connection, RedisAddress, connect
from laurels.stores.redis.connection.loop import LoopThread
from laurels.stores.redis.connection.sorted_set import BEGINNING, Scanned, SortedSet

__all__ = ["BEGINNING", "RedisSource", "opened_redis"]

MEMBER_DATA = ":member_data"
"""The suffix of the key of the hash with the members' data. It is the default of the library
`leaderboard` by agoragames, whose options `member_data_namespace` and `global_member_data` change
it."""
_TIMEOUT_MS = 5_000

T = TypeVar("T")


class RedisSource:
    """Reads a sorted set, synchronously. `data_key` is the key of the hash with the members' data,
    or None.

    Its methods raise SourceUnavailable if the server is not reachable, and the other errors of a
    connection.
    """

    def __init__(self, loop: LoopThread, sorted_set: SortedSet, data_key: bytes | None) -> None:
        self.data_key = data_key
        self._loop = loop
        self._set = sorted_set

    def size(self) -> int:
        return self._call(self._set.size())

    def process(self) -> str:
        """Return the id of the server process. Cursors are valid only while it runs."""
        return self._call(self._set.process())

    def scan(self, cursor: int, count: int) -> Scanned:
        return self._call(self._set.scan(cursor, count))

    def scores(self, members: Sequence[str]) -> list[float | None]:
        return self._call(self._set.scores([member.encode() for member in members]))

    def data(self, members: Sequence[str]) -> list[bytes | None]:
        """Return the data of each member, or None for a member without data."""
        if self.data_key is None:
            return [None] * len(members)
        return self._call(self._set.fields(self.data_key, [member.encode() for member in members]))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return _run(self._loop, coroutine)


@contextmanager
def opened_redis(
    address: RedisAddress, key: str, data_key: str | None, *, with_data: bool
) -> Iterator[RedisSource]:
    """Open the sorted set at `key`, with the members' data in the hash at `data_key`.

    The default of `data_key` is `KEY:member_data`, if this key exists.

    Raises SourceMissing, SourceWrongType, SourceUnavailable, MissingRedis, IndexDenied, WrongServer
    and IndexTooOld.
    """
    loop = LoopThread("laurels-import")
    connection: Connection | None = None
    try:
        connection = _run(loop, connect(address, timeout_ms=_TIMEOUT_MS))
        sorted_set = SortedSet(connection, os.fsencode(key))
        _ensure_type(loop, sorted_set, os.fsencode(key), "zset", "sorted set", address)
        yield RedisSource(
            loop, sorted_set, _hash(loop, sorted_set, key, data_key, address, with_data)
        )
    finally:
        if connection is not None:
            loop.run(connection.close())
        loop.close()


def _hash(
    loop: LoopThread,
    sorted_set: SortedSet,
    key: str,
    named: str | None,
    address: RedisAddress,
    with_data: bool,
) -> bytes | None:
    """Return the key of the hash with the members' data, or None if there is none. A hash that the
    user named must exist."""
    if not with_data:
        return None
    place = os.fsencode(named or f"{key}{MEMBER_DATA}")
    if named is None and _run(loop, sorted_set.kind(place)) == "none":
        return None
    _ensure_type(loop, sorted_set, place, "hash", "hash", address)
    return place


def _ensure_type(
    loop: LoopThread,
    sorted_set: SortedSet,
    key: bytes,
    expected: str,
    type_name: str,
    address: RedisAddress,
) -> None:
    name, actual = readable(os.fsdecode(key)), _run(loop, sorted_set.kind(key))
    if actual == "none":
        raise SourceMissing(f"expected a {type_name} at the key {name!r} of {address}, got nothing")
    if actual != expected:
        raise SourceWrongType(
            f"expected a {type_name} at the key {name!r} of {address}, got the type {actual}"
        )


def _run(loop: LoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        return loop.run(coroutine)
    except IndexUnavailable as error:
        error.note_read_only()
        raise SourceUnavailable(error.what) from error
