"""The protocol of a reader: the messages of a stream, in order, each at a numeric position.

A reader needs no state of its own: `read` begins after the given position, so that messages that
were read and not committed are read again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.errors.sources import SourceDiverged

MESSAGE_LIMIT = 1 << 20
"""The size of the longest message that is read completely."""
BATCH_BYTES = 1 << 27
"""The bytes of messages that are read at once, so that long ones do not fill the memory; more than
the longest message of any server of NATS."""


class StreamPosition(Struct, frozen=True, order=True, gc=False):
    """The place of a message in its stream; positions only grow."""

    major: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.major}-{self.minor}" if self.minor else str(self.major)


ZERO = StreamPosition(0)
"""The position before the first message of every stream."""


def parse_position(text: str) -> StreamPosition:
    """Return the position whose `str` is this text; raises ValueError."""
    major, _, minor = text.partition("-")
    return StreamPosition(int(major), int(minor or 0))


class Message(Struct, frozen=True, gc=False):
    """One message of a stream.

    `subject` is where it was published, if the stream has subjects; a mapping uses it as the field
    `$subject`. `raw` is written to the rejects file. If the stream divides its messages into
    fields, these are `fields`; otherwise that is None, and `raw` is a JSON object. `at_ms` is the
    time at which the stream took the message, None if the stream has no times.
    """

    position: StreamPosition
    raw: bytes
    at_ms: int | None = None
    fields: Mapping[str, object] | None = None
    subject: str | None = None


class StreamState(Struct, frozen=True):
    """The current state of a stream.

    `identity` names the stream and its creation. `oldest` is the position before the oldest
    message that is kept, `newest` that of the newest message there ever was. `is_whole` is True if
    the stream is known to keep all messages there ever were.
    """

    identity: str
    oldest: StreamPosition
    newest: StreamPosition
    is_whole: bool = True


class StoredPosition(Struct, frozen=True, omit_defaults=True):
    """How far a board has counted a stream, as stored with the board.

    `mark` is a property of the stream that must still hold, in the reader's own form. Everything
    that the stream took before `passed_ms` has been counted; see `core.stream_time`.
    """

    stream: str
    at: str
    mark: str = ""
    passed_ms: int | None = None

    @property
    def position(self) -> StreamPosition:
        return parse_position(self.at)


def decode_position(text: str) -> StoredPosition:
    """Decode a position that is stored with a board. Raises SourceDiverged."""
    try:
        return msgspec.json.decode(text, type=StoredPosition)
    except msgspec.MsgspecError as error:
        raise SourceDiverged(f"expected the position of a source, got {text[:80]!r}") from error


class StreamReader(Protocol):
    """A stream that is read in order. Every method raises SourceUnavailable if the stream does not
    answer, and may be called again."""

    @property
    def name(self) -> str:
        """The address of the stream for messages, without user and password."""

    @property
    def resumes(self) -> bool:
        """Whether messages can be read again after a restart."""

    @property
    def ended(self) -> bool:
        """Whether there will be no further message."""

    async def open(self) -> StreamState:
        """Return the current state of the stream, with which positions are compared; may be called
        again. Raises StreamMissing, SourceUnreadable."""

    def stored(self, position: StreamPosition) -> StoredPosition:
        """Return a position in its stored form."""

    def misfit(self, stored: StoredPosition) -> str | None:
        """Return why a stored position does not belong to the stream as it was opened, None if it
        does."""

    def is_expired(self, stored: StoredPosition) -> bool:
        """Return whether messages after a position are known to be no longer kept."""

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        """Return the next messages after a position, at most `limit`.

        With `wait` the call waits for a message, and may return none after a while. Without it, an
        empty result means that no message is pending. Raises SourceDiverged, SourceExpired.
        """

    async def time_ms(self) -> int | None:
        """Return the stream's current time, None if it has no times. Messages that only a later
        `read` returns were taken after it."""

    async def close(self) -> None:
        """Close the stream."""
