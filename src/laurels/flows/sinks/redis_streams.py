"""A Redis or Valkey stream as the target of a sink.

A script adds changes and moves the position in one step, so that each change is in the stream
exactly once, even after a kill. The position is in a hash in the same cluster slot as the stream.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha1

import msgspec

from laurels.errors import LaurelsError, Unavailable
from laurels.errors.index_server import IndexDenied, IndexFailed
from laurels.errors.sinks import InvalidTarget, SinkOvertaken, TargetRefused, TargetUnavailable
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.connection.urls import RedisAddress
from laurels.stores.redis.scripts import Script

from .mapping import FieldMapping
from .target import SinkPage

LIMIT = 1_000
_SOURCE = """
-- KEYS[1]: the hash of positions. ARGV[1]: a field of it, its expected and its new value, the key
-- of the stream, the maximum length of the stream (0: none), and the documents to add.
local field, before, after, stream, most, documents = unpack(cmsgpack.unpack(ARGV[1]))
local stored = redis.call('HGET', KEYS[1], field) or ''
if stored == after then return 1 end
if stored ~= before then return 0 end
for _, document in ipairs(documents) do
  if most > 0 then
    redis.call('XADD', stream, 'MAXLEN', '~', most, '*', 'id', document[1], 'change', document[2])
  else
    redis.call('XADD', stream, '*', 'id', document[1], 'change', document[2])
  end
end
redis.call('HSET', KEYS[1], field, after)
return 1
"""
_SCRIPT = Script("sink", _SOURCE, sha1(_SOURCE.encode(), usedforsecurity=False).hexdigest())


class RedisStreamTarget:
    """Adds each change to a stream, as an entry with the change's id (`id`) and JSON (`change`)."""

    keeps_positions = True
    holds_state = False
    limit = LIMIT

    def __init__(
        self, address: RedisAddress, key: str, sink: str, mapping: FieldMapping, max_length: int = 0
    ) -> None:
        self._address = address
        self._stream = key.encode()
        tagged_key = key if "{" in key else f"{{{key}}}"
        self._positions = f"{tagged_key}:laurels-sinks".encode()
        if address.cluster and "{" in key and "}" not in key:
            raise InvalidTarget(f"expected a closed hash tag in the key {key!r}")
        self._sink = sink
        self._mapping = mapping
        self._max_length = max_length
        self._connection: Connection | None = None

    async def open(self) -> None:
        async with self._connected():
            pass

    async def position(self, board: str) -> str | None:
        field = self._field(board)
        async with self._connected() as connection:
            stored = await connection.command(b"HGET", self._positions, field, key=self._positions)
        return None if stored is None else bytes(stored).decode()

    async def deliver(self, page: SinkPage) -> None:
        documents = [
            (change.id, document.decode())
            for change in page.changes
            if (document := self._mapping.encode(change)) is not None
        ]
        argument = msgspec.msgpack.encode(
            [
                *(self._field(page.board).decode(), page.before or "", page.after),
                self._stream.decode(),
                *(self._max_length, documents),
            ]
        )
        async with self._connected() as connection:
            is_added = await connection.script(_SCRIPT, self._positions, argument)
        if not is_added:
            raise SinkOvertaken(f"another runner of the sink {self._sink!r} has continued")

    async def reset(self, board: str, position: str | None) -> None:
        field = self._field(board)
        if position is None:
            parts = [b"HDEL", self._positions, field]
        else:
            parts = [b"HSET", self._positions, field, position.encode()]
        async with self._connected() as connection:
            await connection.command(*parts, key=self._positions)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _field(self, board: str) -> bytes:
        return f"{self._sink}/{board}".encode()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Connect if there is no connection, and translate the errors within the context. If the
        server does not answer, disconnect, so that the next call connects again. An attempt to
        connect reports at once why the server cannot be reached; a call over the old connection
        would wait until the time limit of the client library."""
        from laurels.stores.redis.connection.connection import connect  # noqa: PLC0415

        try:
            if self._connection is None:
                self._connection = await connect(self._address)
            yield self._connection
        except LaurelsError as error:
            if isinstance(error, Unavailable):
                await self.close()
            raise _target_error(error) from error


def _target_error(error: LaurelsError) -> LaurelsError:
    """Translate an error of the index server into the corresponding error of a target."""
    if isinstance(error, Unavailable):
        return TargetUnavailable(error.what)
    if isinstance(error, (IndexDenied, IndexFailed)):
        return TargetRefused(error.what)
    return error
