"""The protocol of a reader: the messages of a stream, in order, each at a numeric position.

Each call of `read` begins after a given position, so messages that were read but not committed can
be read again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.errors.sources import SourceDiverged

MESSAGE_LIMIT = 1 << 20
"""The size of the longest message that is read completely."""
BATCH_BYTES = 1 << 27
"""The maximum size of all messages that are read at once, so that long messages do not fill the
memory. It is larger than any message that a NATS server accepts."""


class StreamPosition(Struct, frozen=True, order=True, gc=False):
    """The position of a message in its stream; later messages have greater positions."""

    major: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.major}-{self.minor}" if self.minor else str(self.major)


ZERO = StreamPosition(0)
"""The position before the first message of every stream."""


def parse_position(text: str) -> StreamPosition:
    """Parse the text that `str` returns for a position. Raises ValueError."""
    major, _, minor = text.partition("-")
    return StreamPosition(int(major), int(minor or 0))


class Message(Struct, frozen=True, gc=False):
    """One message of a stream.

    `subject` is the subject it was published to, if the stream has subjects; a mapping names it
    `$subject`. `raw` is the content that is written to the rejects file. `fields` are the fields of
    the message, if the messages of the stream consist of fields. Otherwise `fields` is None, and
    `raw` should be a JSON object. `at_ms` is the time at which the stream took the message, None if
    the stream has no times.
    """

    position: StreamPosition
    raw: bytes
    at_ms: int | None = None
    fields: Mapping[str, object] | None = None
    subject: str | None = None


class StreamState(Struct, frozen=True):
    """The current state of a stream.

    `identity` identifies the stream, and differs if the stream is created again. `oldest` is the
    position before the oldest message that is kept, `newest` the position of the newest message
    that was ever added. `is_whole` is True if the stream is known to keep all messages ever added.
    """

    identity: str
    oldest: StreamPosition
    newest: StreamPosition
    is_whole: bool = True


class StoredPosition(Struct, frozen=True, omit_defaults=True, rename={"check_value": "mark"}):
    """The position up to which a board has counted a stream, in the form that the board stores.

    `check_value` describes the stream up to this position, for example by its number of entries; a
    reader compares it to notice that the stream was replaced. Everything that the stream took
    before `passed_ms` has been counted; see `core.stream_time`.
    """

    stream: str
    at: str
    check_value: str = ""
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
    """A stream that is read in order. A method that raises SourceUnavailable, because the stream
    does not answer, may be called again."""

    @property
    def name(self) -> str:
        """The address of the stream without user name and password, for use in texts."""

    @property
    def resumes(self) -> bool:
        """Whether messages can be read again after a restart."""

    @property
    def ended(self) -> bool:
        """Whether the stream has ended, so that no message will follow."""

    async def open(self) -> StreamState:
        """Connect if necessary, and return the current state of the stream, with which `mismatch`
        and `is_expired` compare positions. Raises StreamMissing, SourceUnreadable."""

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        """Return a position in its stored form."""

    def mismatch(self, stored: StoredPosition) -> str | None:
        """Return a text that explains why a stored position does not belong to the stream, None if
        it does."""

    def is_expired(self, stored: StoredPosition) -> bool:
        """Return whether the stream is known to have removed messages after a position."""

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        """Return the next messages after a position, at most `limit`.

        With `wait` the call waits for a message, and may return none after a while. Without it, an
        empty result means that no message is pending. Raises SourceDiverged, SourceExpired.
        """

    async def time_ms(self) -> int | None:
        """Return the stream's current time, None if the stream has no times. Messages that are
        added after this call have later times."""

    async def close(self) -> None:
        """Close the stream."""
