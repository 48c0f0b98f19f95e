"""A Redis stream as a source: its entries in the order of their ids, which are positions.

If an entry has a single field that holds a JSON object, this object is the message. Otherwise the
fields of the entry are the fields of the message. Ids begin with the time at which the server took
an entry, in milliseconds.

A Redis stream has no creation time. A stream that was created again usually continues with later
ids, so nothing is counted twice. The new stream is detected if its newest id, or the number of
entries ever added to it, is lower than before. Entries that were trimmed or deleted before they
were read are detected by counting: each position is stored with the number of entries up to it. On
Redis 6, which does not count entries, such a loss is not detected.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laurels.errors import LaurelsError
from laurels.errors.index_server import IndexFailed, IndexUnavailable
from laurels.errors.sources import (
    InvalidStream,
    SourceDiverged,
    SourceExpired,
    SourceUnavailable,
    StreamMissing,
)
from laurels.flows.stream_url import split_stream_url
from laurels.stores.redis.connection.connection import Connection, connect, redis_address

from .batches import MessageBatch
from .reader import BATCH_BYTES, ZERO, Message, StoredPosition, StreamPosition, StreamState

TIMEOUT_MS = 10_000
_BLOCK_MS = 1_000
"""The time that the server waits for an entry before it answers that there is none."""

_ASSUMED_BYTES = 1 << 22
"""The length that entries are assumed to have before the first one has been read."""


_numbers = msgspec.json.Decoder(list[int]).decode


class StreamInfo(msgspec.Struct, frozen=True):
    """The state of a stream on its server: `added` is the number of entries ever added, 0 before
    Redis 7, and `removed` the number of those that are no longer in the stream."""

    newest: StreamPosition = ZERO
    oldest: StreamPosition = ZERO
    added: int = 0
    removed: int = 0


class EntryCounts:
    """Tells how many entries a stream has up to a position. The number is known for the positions
    in `single`, and for each message of the last two batches. `messages` is the last batch, and
    `before` the number of entries before it; `earlier` has the counts of the batch before it."""

    def __init__(
        self,
        single: dict[StreamPosition, int] | None = None,
        messages: Sequence[Message] = (),
        before: int = 0,
        earlier: "EntryCounts | None" = None,
    ) -> None:
        self._single = single or {}
        self._messages = messages
        self._position_before = before
        self._earlier = earlier
        if earlier is not None:
            earlier._earlier = None

    def begin(self, position: StreamPosition, count: int) -> None:
        """Record the number of entries up to a position."""
        self._single[position] = count

    def up_to(self, position: StreamPosition) -> int | None:
        """Return the number of entries up to a position, None if it is not known. O(log of the
        number of messages)."""
        at = bisect_left(self._messages, position, key=_position_of)
        if at < len(self._messages) and self._messages[at].position == position:
            return self._position_before + at + 1
        if position in self._single or self._earlier is None:
            return self._single.get(position)
        return self._earlier.up_to(position)


class RedisStreamReader:
    """Reads the stream at a key of an index server; `address` is `redis://host:port/0/KEY`."""

    resumes = True
    ended = False

    def __init__(self, address: str) -> None:
        url, key = split_stream_url(address, InvalidStream)
        self._key = key.encode()
        self._address = redis_address(url)
        text = str(self._address).removesuffix(f"/{self._address.database}")
        self.name = f"{text}/{self._address.database}/{self._key.decode(errors='replace')}"
        self._connection: Connection | None = None
        self._info: StreamInfo | None = None
        self._counts = EntryCounts()
        self._longest = _ASSUMED_BYTES
        """The length of the longest entry of the last read."""

    async def open(self) -> StreamState:
        info = await self._stream_info()
        self._info = info
        if info is None:
            return StreamState(self._identity, ZERO, ZERO)
        is_whole = info.added > 0 and not info.removed
        return StreamState(self._identity, info.oldest, info.newest, is_whole)

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        count = self._counts.up_to(position)
        check_value = "" if count is None else str(count)
        return StoredPosition(self._identity, str(position), check_value)

    def mismatch(self, stored: StoredPosition) -> str | None:
        info = self._info or StreamInfo()
        if stored.stream != self._identity:
            return f"the position belongs to {stored.stream}"
        if stored.position > ZERO and self._info is None:
            return "the stream no longer exists"
        if stored.position > info.newest:
            return f"its newest id is {info.newest}, and {stored.at} was read before"
        if info.added < int(stored.check_value or 0):
            count = int(stored.check_value)
            return f"it has had {info.added:,} entries, and {count:,} were read before"
        return None

    def is_expired(self, stored: StoredPosition) -> bool:
        if not stored.check_value or self._info is None:
            return False
        count = int(stored.check_value)
        self._counts.begin(stored.position, count)
        return self._info.removed > count

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        block = (b"BLOCK", b"%d" % _BLOCK_MS) if wait else ()
        since = f"{after.major}-{after.minor}".encode()
        most = max(1, min(limit, BATCH_BYTES // self._longest))
        parts = (b"XREAD", b"COUNT", b"%d" % most, *block, b"STREAMS", self._key, since)
        messages = _messages(await self._command(*parts))
        if messages:
            self._longest = max(map(len, messages.raws))
        else:
            await self._ensure_same(after)
        self._count(after, messages)
        return messages

    async def time_ms(self) -> int | None:
        seconds, micros = await self._command(b"TIME")
        return int(seconds) * 1_000 + int(micros) // 1_000

    def _count(self, after: StreamPosition, messages: Sequence[Message]) -> None:
        """Record the number of entries up to each message."""
        info = self._info
        before = 0 if after == ZERO else self._counts.up_to(after)
        if before is None or (info is not None and not info.added):
            self._counts = EntryCounts()
            return
        before = max(before, 0 if info is None else info.removed)
        self._counts = EntryCounts({after: before}, messages, before, self._counts)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    @property
    def _identity(self) -> str:
        return f"redis:{self._key.decode(errors='backslashreplace')}"

    async def _stream_info(self) -> StreamInfo | None:
        """Return the state of the stream, None if it does not exist."""
        kind = (await self._command(b"TYPE", self._key)).decode()
        if kind == "none":
            return None
        if kind != "stream":
            raise StreamMissing(f"expected a stream at {self.name}, got a key of type {kind}")
        answer = _as_dict(await self._command(b"XINFO", b"STREAM", self._key))
        first, added = answer.get(b"first-entry"), int(answer.get(b"entries-added", 0))
        newest = _position(answer[b"last-generated-id"])
        return StreamInfo(
            newest=newest,
            oldest=_position_before(_position(first[0])) if first else newest,
            added=added,
            removed=max(0, added - int(answer[b"length"])),
        )

    async def _ensure_same(self, after: StreamPosition) -> None:
        """Raise SourceDiverged if the stream was deleted or created again while it was read, and
        SourceExpired if entries were deleted before they were read."""
        info = await self._stream_info()
        before = self._info or StreamInfo()
        if info is None and self._info is not None:
            raise SourceDiverged(f"the stream at {self.name} no longer exists")
        if info is not None and (info.newest < after or info.added < before.added):
            raise SourceDiverged(f"the stream at {self.name} was created again while it was read")
        if info is not None and info.newest == after and info.added:
            counted = self._counts.up_to(after)
            if counted is not None and info.added > counted:
                raise SourceExpired(
                    f"{info.added - counted:,} entries of {self.name} were deleted "
                    "before they were read"
                )
            self._counts = EntryCounts({after: info.added})
        self._info = info

    async def _command(self, *parts: bytes) -> Any:
        try:
            if self._connection is None:
                self._connection = await connect(self._address, timeout_ms=TIMEOUT_MS)
            return await self._connection.command(*parts, key=self._key)
        except IndexUnavailable as error:
            await self._disconnect()
            raise SourceUnavailable(f"{self.name} does not answer: {error.what}") from error
        except IndexFailed as error:
            raise StreamMissing(f"{self.name} cannot be read: {error.what}") from error

    async def _disconnect(self) -> None:
        try:
            await self.close()
        except LaurelsError:
            self._connection = None


def _messages(answer: Any) -> MessageBatch:
    """Return the entries of an answer to XREAD about one stream."""
    if not answer:
        return MessageBatch.of(())
    (pairs,) = answer.values() if isinstance(answer, Mapping) else [pair[1] for pair in answer]
    entries = pairs if isinstance(pairs, Mapping) else dict(pairs)
    numbers = _numbers(b"[%b]" % b",".join(entries).replace(b"-", b","))
    times, places = numbers[::2], numbers[1::2]
    only = [each[0][1] for each in entries.values() if type(each) is list and len(each) == 1]
    if len(only) < len(entries) or len([each for each in only if each[:1] == b"{"]) < len(only):
        positions = map(StreamPosition, times, places)
        return MessageBatch.of(list(map(_message, positions, entries.values())))

    def message(at: int) -> Message:
        return Message(StreamPosition(times[at], places[at]), only[at], times[at])

    return MessageBatch(only, times, message)


def _position_of(message: Message) -> StreamPosition:
    return message.position


def _message(position: StreamPosition, entry: Any) -> Message:
    pairs = _as_dict(entry)
    if len(pairs) == 1:
        (only,) = pairs.values()
        if only.lstrip().startswith(b"{"):
            return Message(position, only, position.major)
    # Bytes that are not UTF-8 become surrogates in the fields, so that the board refuses the event;
    # in `raw` they are escaped.
    fields = _decoded(pairs, "surrogateescape")
    raw = msgspec.json.encode(_decoded(pairs, "backslashreplace"))
    return Message(position, raw, position.major, fields)


def _decoded(pairs: Mapping[bytes, Any], errors: str) -> dict[str, str]:
    return {
        name.decode(errors=errors): value.decode(errors=errors) for name, value in pairs.items()
    }


def _as_dict(answer: Any) -> dict[bytes, Any]:
    """Return the pairs of an answer as a dict; the form of the answer depends on the protocol."""
    if isinstance(answer, Mapping):
        return dict(answer)
    if answer and isinstance(answer[0], (list, tuple)):
        return dict(answer)
    return dict(zip(answer[::2], answer[1::2], strict=True))


def _position(id: bytes) -> StreamPosition:
    major, _, minor = id.partition(b"-")
    return StreamPosition(int(major), int(minor))


def _position_before(position: StreamPosition) -> StreamPosition:
    """Return the position right before an entry."""
    if position.minor:
        return StreamPosition(position.major, position.minor - 1)
    return StreamPosition(max(0, position.major - 1), (1 << 64) - 1)
