"""A subject of NATS JetStream for messages that were not counted.

A message of the subject has the same content as a line of a rejects file. Its id identifies the
reject, so a reject that is published again within the duplicate window of the stream behind the
subject is stored once.

A run continues to read only when a stream has acknowledged all rejects so far. Rejects that were
not delivered when the run ends are written to a file: the next run does not read their messages
again.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec.structs import replace

from laurels.errors.sinks import TargetRefused, TargetUnavailable
from laurels.errors.sources import InvalidRejects, RejectsRefused, RejectsUnavailable
from laurels.flows.jetstream_publisher import JetStreamPublisher, MessageTooLong
from laurels.flows.stream_url import split_subject_url

from .rejects import JsonRejects, RejectedMessage

AT_ONCE = 500
"""The number of rejects that are published before the first of them is acknowledged."""


class SubjectRejects:
    """Publishes rejects to nats://HOST:PORT/SUBJECT; has to be closed. Rejects that are not
    delivered at the end are written to `spare`, and `warn` is called if there are any."""

    def __init__(self, url: str, spare: JsonRejects, warn: Callable[[str], None]) -> None:
        server, self._subject, self.address = split_subject_url(url, InvalidRejects)
        self._publisher = JetStreamPublisher(server)
        self._spare = spare
        self._warn = warn
        self._pending: list[RejectedMessage] = []
        self._turn = asyncio.Lock()

    def write(self, rejects: list[RejectedMessage]) -> None:
        """Keep the rejects until the next call of `deliver`."""
        self._pending += rejects

    async def deliver(self) -> None:
        """Publish all rejects and wait until they are stored."""
        async with self._turn:
            while self._pending:
                try:
                    await self._publish(self._pending[:AT_ONCE])
                except TargetUnavailable as error:
                    raise RejectsUnavailable(f"{self.address}: {error.what}") from error
                except TargetRefused as error:
                    raise RejectsRefused(f"{self.address}: {error.what}") from error

    async def close(self) -> None:
        """Disconnect; write to the file what has not been delivered. Raises OSError."""
        left, self._pending = self._pending, []
        try:
            self._spare.write(left)
            if left:
                self._warn(
                    f"{len(left):,} rejected messages were not delivered to {self.address}; they "
                    f"are in {self.path}"
                )
        finally:
            await self._spare.close()
            await self._publisher.close()

    @property
    def path(self) -> Path:
        """The path of the file for rejects that are not delivered at the end."""
        return self._spare.path

    async def _publish(self, rejects: list[RejectedMessage]) -> None:
        """Publish rejects, and keep only those that were not acknowledged. Raises the error of one
        of them."""
        await self._publisher.connect()
        answers = await asyncio.gather(
            *[self._publish_one(each) for each in rejects], return_exceptions=True
        )
        left = [
            (each, answer)
            for each, answer in zip(rejects, answers, strict=True)
            if answer is not None
        ]
        self._pending[: len(rejects)] = [each for each, _ in left]
        for _, error in left:
            raise error

    async def _publish_one(self, reject: RejectedMessage) -> None:
        """Publish a reject. If it is too long for the stream, publish it with only the beginning of
        its text."""
        id = _id(reject)
        while True:
            try:
                await self._publisher.publish(self._subject, msgspec.json.encode(reject), id)
            except MessageTooLong:
                if not reject.text:
                    raise
                reject = replace(reject, text=reject.text[: len(reject.text) // 2])
            else:
                return


def _id(reject: RejectedMessage) -> str:
    """Return the id of a reject. It has a checksum of the text, since another message may be at the
    same position once a file or a stream was created again."""
    checksum = crc32(reject.text.encode())
    return f"{reject.source}/{reject.stream}/{reject.position}/{checksum:08x}"
