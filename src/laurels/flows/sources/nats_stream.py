"""A stream of NATS JetStream as a source, read in the order of its sequence numbers.

The reader creates an unnamed consumer that begins after a sequence number, and pulls from it.
Messages are not acknowledged: the positions of the boards record which messages were counted. The
consumer numbers its deliveries, so a lost message is detected, and a new consumer reads it again. A
new consumer is also created if the server no longer has the previous one, for example after a
restart.

A stream that was deleted and created again has another creation time, which is part of its
identity.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from laurels.errors.sources import (
    MissingNats,
    SourceDiverged,
    SourceExpired,
    SourceUnavailable,
    StreamMissing,
)
from laurels.flows.nats_connection import NatsConnection

from .jetstream import ConsumerInfo, JetStreamInfo, StreamConsumer, delivery_of, split_address
from .pull_inbox import PullInbox
from .reader import BATCH_BYTES, ZERO, Message, StoredPosition, StreamPosition, StreamState

if TYPE_CHECKING:
    from nats.aio.client import Client

T = TypeVar("T")

TIMEOUT_SECONDS = 5
"""The time within which the server has to answer."""
_WAIT_NS = 1_000_000_000
"""The time that the server waits for a message before it answers that there is none."""
_INACTIVE_NS = 300_000_000_000
"""The time after which the server removes a consumer that nobody pulls from."""
_SHORT_NS = 1_000_000_000
_NOT_FOUND = 404


class NatsReader:
    """Reads a stream of JetStream; `address` is `nats://host:port/STREAM`."""

    resumes = True
    ended = False

    def __init__(self, address: str) -> None:
        if find_spec("nats") is None:
            raise MissingNats("nats-py is not installed")
        self._url, self.name, self._stream = split_address(address)
        self._connection = NatsConnection()
        self._client: Client | None = None
        self._inbox: PullInbox | None = None
        self._reply = ""
        self._requests = 0
        self._consumer: StreamConsumer | None = None
        self._info = JetStreamInfo()
        self._loss_reported_to = 0
        """The sequence number up to which the loss of messages was already reported."""

    async def open(self) -> StreamState:
        self._info = await self._stream_info()
        state = self._info.state
        oldest = StreamPosition(max(0, state.first_seq - 1))
        newest = StreamPosition(state.last_seq)
        return StreamState(self._identity, oldest, newest, is_whole=oldest == ZERO)

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        return StoredPosition(self._identity, str(position))

    def mismatch(self, stored: StoredPosition) -> str | None:
        if stored.stream != self._identity:
            return f"it is {self._identity}, and {stored.stream} was read before"
        last = self._info.state.last_seq
        if stored.position.major > last:
            return f"its last message is {last:,}, and {stored.position.major:,} were read before"
        return None

    def is_expired(self, stored: StoredPosition) -> bool:
        last_removed = self._info.state.first_seq - 1
        if stored.position == ZERO or last_removed <= stored.position.major:
            return False
        self._loss_reported_to = last_removed
        return True

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        try:
            request = {"batch": limit, "no_wait": True, "max_bytes": BATCH_BYTES}
            messages = await self._pull(after.major, request)
            if not messages and wait:
                messages = await self._pull(after.major, {"batch": 1, "expires": _WAIT_NS})
        except SourceUnavailable:
            await self.close()
            raise
        if not messages:
            await self._ensure_same(after.major)
        elif messages[0].position.major > after.major + 1 and after != ZERO:
            await self._ensure_kept(after.major)
        return messages

    async def time_ms(self) -> int | None:
        try:
            info = await self._stream_info()
            # NATS before 2.10 reports the server's time only in its answer about a new consumer
            if (at := info.ts) is None:
                at = (await self._create_consumer(info.state.last_seq, _SHORT_NS)).created
        except SourceUnavailable:
            await self.close()
            raise
        return None if at is None else int(at.timestamp() * 1_000)

    async def close(self) -> None:
        client, self._client = self._client, None
        self._consumer = self._inbox = None
        if client is not None:
            await client.close()

    @property
    def _identity(self) -> str:
        return f"nats:{self._stream}@{self._info.created}"

    # Pulling messages

    async def _pull(self, after: int, request: Mapping[str, Any]) -> list[Message]:
        """Return the messages that the server sends for one request, in order and with none
        missing."""
        consumer = await self._consumer_after(after)
        client, inbox = await self._connected()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer.name}"
        self._requests += 1
        reply = f"{self._reply}.{self._requests}"
        await self._await_call(client.publish(subject, msgspec.json.encode(request), reply=reply))
        messages: list[Message] = []
        while len(messages) < request["batch"]:
            message = inbox.take()
            if message is None:
                message = await self._await_call(inbox.next(TIMEOUT_SECONDS))
            if message.headers and "Status" in message.headers and not message.reply:
                if message.subject != reply:
                    continue
                self._handle_status(message.headers["Status"])
                break
            delivery = delivery_of(message)
            if delivery.consumer != consumer.name:
                continue
            if delivery.number != consumer.number + 1:
                self._consumer = None
                break
            consumer.number, consumer.sequence = delivery.number, delivery.sequence
            messages.append(
                Message(
                    StreamPosition(delivery.sequence),
                    message.data,
                    delivery.taken_ns // 1_000_000,
                    subject=message.subject,
                )
            )
        return messages

    def _handle_status(self, status: str) -> None:
        """Drop the consumer if the server reports that it no longer exists."""
        if status not in ("404", "408"):
            self._consumer = None

    async def _consumer_after(self, after: int) -> StreamConsumer:
        """Return a consumer that continues after a message."""
        if self._consumer is not None and self._consumer.sequence == after:
            return self._consumer
        created = await self._create_consumer(after, _INACTIVE_NS)
        if created.error is not None:
            await self._ensure_same(after)
            raise SourceUnavailable(f"{self.name} refused a consumer: {created.error.description}")
        await self._ensure_same(after)
        self._consumer = StreamConsumer(created.name, after)
        return self._consumer

    async def _create_consumer(self, after: int, inactive_ns: int) -> ConsumerInfo:
        """Create a consumer that continues after a message. The server removes the consumer when it
        has not been used for `inactive_ns` nanoseconds."""
        start = {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
        config = {
            **(start if after else {"deliver_policy": "all"}),
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": inactive_ns,
            "mem_storage": True,
        }
        return await self._api(
            f"CONSUMER.CREATE.{self._stream}",
            {"stream_name": self._stream, "config": config},
            ConsumerInfo,
        )

    # The state of the stream

    async def _stream_info(self) -> JetStreamInfo:
        answer = await self._api(f"STREAM.INFO.{self._stream}", {}, JetStreamInfo)
        if answer.error is None:
            return answer
        if answer.error.code == _NOT_FOUND:
            raise StreamMissing(f"there is no stream at {self.name}")
        raise SourceUnavailable(f"{self.name} does not answer: {answer.error.description}")

    async def _ensure_same(self, after: int) -> None:
        """Raise SourceDiverged if the stream is not the one that was opened."""
        try:
            info = await self._stream_info()
        except StreamMissing as error:
            raise SourceDiverged(f"the stream at {self.name} no longer exists") from error
        if info.created != self._info.created or info.state.last_seq < after:
            raise SourceDiverged(f"the stream at {self.name} was created again while it was read")
        self._info = info

    async def _ensure_kept(self, after: int) -> None:
        """Raise SourceExpired if messages after a position were removed because they were the
        oldest of the stream; the deletion of single messages is not an error."""
        await self._ensure_same(after)
        last_removed = self._info.state.first_seq - 1
        if last_removed > max(after, self._loss_reported_to):
            raise SourceExpired(f"{self.name} no longer keeps all messages after {after:,}")

    # Calls to the server

    async def _api(self, verb: str, body: object, kind: type[T]) -> T:
        client, _ = await self._connected()
        answer = await self._await_call(
            client.request(f"$JS.API.{verb}", msgspec.json.encode(body), timeout=TIMEOUT_SECONDS)
        )
        return msgspec.json.decode(answer.data, type=kind)

    async def _connected(self) -> "tuple[Client, PullInbox]":
        if self._client is None or self._inbox is None:
            inbox = PullInbox()
            self._connection = NatsConnection()
            opening = self._connection.open(self._url, TIMEOUT_SECONDS)
            self._client = client = await self._await_call(opening)
            self._reply = client.new_inbox()
            await self._await_call(client.subscribe(f"{self._reply}.*", cb=inbox.put))
            self._inbox = inbox
        return self._client, self._inbox

    async def _await_call(self, call: Awaitable[T]) -> T:
        """Await a call of the library. Raises SourceUnavailable for its errors and timeouts, and if
        the connection is lost."""
        from nats.errors import Error  # noqa: PLC0415 (the package is optional)

        try:
            async with asyncio.timeout(2 * TIMEOUT_SECONDS), self._connection.waiting():
                return await call
        except (Error, OSError, TimeoutError) as error:
            await self.close()
            reason = str(error) or type(error).__name__
            raise SourceUnavailable(f"{self.name} does not answer: {reason}") from error
