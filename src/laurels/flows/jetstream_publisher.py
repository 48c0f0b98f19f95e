"""A connection to NATS that publishes messages to JetStream, each acknowledged.

A message has an id, the header `Nats-Msg-Id`. A stream stores a message once, even if the message
is published twice within the duplicate window of the stream.
"""

import asyncio
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from laurels.errors.sinks import MissingDriver, TargetRefused, TargetUnavailable
from laurels.flows.nats_connection import NatsConnection

CONNECT_SECONDS, ANSWER_SECONDS = 5, 10.0
_ACCOUNT_FULL = 10_002
"""JetStream's code for an account at its limits. The error has the status 400, and no longer
occurs once messages are removed."""
_TOO_LONG = 10_054
"""JetStream's code for a message that is longer than its stream accepts."""
_HEADER_BYTES = 50
"""The maximum length of the header without the id. The server's limit applies to the header and the
content together."""


class MessageTooLong(TargetRefused):
    """The server or the stream accepts only shorter messages."""


class JetStreamPublisher:
    """Publishes messages to the streams of a server. A connection that is lost is made again by
    `connect`, not by `publish`."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._connection = NatsConnection()
        self._client: Any = None
        self._stream: Any = None

    @property
    def address(self) -> str:
        """The address of the server without a password."""
        return self._server.rsplit("@", 1)[-1]

    async def connect(self) -> None:
        """Connect, unless there is a connection. Raises TargetUnavailable, MissingDriver."""
        if self._client is not None and self._client.is_connected:
            return
        await self.close()
        if find_spec("nats") is None:
            raise MissingDriver("nats-py is not installed")
        from nats.errors import Error  # noqa: PLC0415 (an optional package)

        self._connection = NatsConnection()
        try:
            self._client = await self._connection.open(self._server, CONNECT_SECONDS)
        except (Error, OSError, TimeoutError) as error:
            raise TargetUnavailable(f"{self.address} does not answer: {error}") from error
        self._stream = self._client.jetstream()

    async def publish(self, subject: str, payload: bytes, id: str) -> None:
        """Publish a message over the connection, and wait until a stream has stored it. Raises
        TargetUnavailable, TargetRefused, MessageTooLong."""
        header = id.encode("unicode_escape").decode()
        if len(payload) + len(header) + _HEADER_BYTES > self._client.max_payload:
            raise MessageTooLong("a message is longer than the server's max_payload")
        try:
            async with self._connection.waiting():
                await self._stream.publish(
                    subject, payload, ANSWER_SECONDS, headers={"Nats-Msg-Id": header}
                )
        except Exception as error:
            raise _target_error(error) from error

    async def close(self) -> None:
        """Disconnect; the wait for a server that accepts no more bytes is bounded."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await client.close()


def _target_error(error: Exception) -> Exception:
    """Translate an error of the client into the corresponding error of a target."""
    from nats.js.errors import APIError, NoStreamResponseError  # noqa: PLC0415

    if isinstance(error, NoStreamResponseError):
        return TargetUnavailable("no stream receives the subject, or JetStream does not answer")
    if isinstance(error, APIError) and error.err_code == _ACCOUNT_FULL:
        return TargetUnavailable("the account has no room for more messages")
    if isinstance(error, APIError) and error.err_code == _TOO_LONG:
        return MessageTooLong(f"JetStream refused a message: {error.description}")
    if isinstance(error, APIError) and error.code is not None and 400 <= error.code < 500:
        return TargetRefused(f"JetStream refused a message: {error.description}")
    return TargetUnavailable(f"JetStream did not acknowledge a message: {error!r}")
