"""What a source reads: messages of a stream, in order, each at a numeric position.

A reader keeps no place of its own that matters: `read` begins after the position it is given, so
that what was read and not committed is simply read again.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from laurels.errors.sources import SourceDiverged

MESSAGE_LIMIT = 1 << 20
"""Bytes of the longest message that is read whole."""


class StreamPosition(Struct, frozen=True, order=True, gc=False):
    """The place of a message in its stream; positions only grow."""

    major: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.major}-{self.minor}" if self.minor else str(self.major)


ZERO = StreamPosition(0)
"""Before the first message of every stream."""


def parse_position(text: str) -> StreamPosition:
    """Return the position that `str` gave this text; raises ValueError."""
    major, _, minor = text.partition("-")
    return StreamPosition(int(major), int(minor or 0))


class Message(Struct, frozen=True, gc=False):
    """One message of a stream.

    `subject` is where it was published, in streams that have subjects; fields are looked up there
    as `$subject`. `raw` is what is written into the rejects file. A stream that divides its
    messages into fields gives them as `fields`, any other leaves None, and `raw` is a JSON object.
    `at_ms` is when the stream took the message, None where the stream does not know.
    """

    position: StreamPosition
    raw: bytes
    at_ms: int | None = None
    fields: Mapping[str, object] | None = None
    subject: str | None = None


class StreamState(Struct, frozen=True):
    """A stream as it is now.

    `identity` names the stream and its creation. `oldest` is the position before the oldest message
    that is kept, `newest` that of the newest message there ever was.
    """

    identity: str
    oldest: StreamPosition
    newest: StreamPosition


class StoredPosition(Struct, frozen=True, omit_defaults=True):
    """How far a board has counted a stream, as it is stored with the board.

    `mark` is something about the stream that must still hold, in the reader's own form. Everything
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
    """Return a position that is stored with a board. Raises SourceDiverged."""
    try:
        return msgspec.json.decode(text, type=StoredPosition)
    except msgspec.MsgspecError as error:
        raise SourceDiverged(f"expected the position of a source, got {text[:80]!r}") from error


class StreamReader(Protocol):
    """A stream that is read in order. Every method raises SourceUnavailable where the stream does
    not answer, and may be called again."""

    @property
    def name(self) -> str:
        """The address of the stream for people, without user and password."""

    @property
    def resumes(self) -> bool:
        """Whether messages can be read again after a restart."""

    @property
    def ended(self) -> bool:
        """Whether there will never be another message."""

    async def open(self) -> StreamState:
        """Return the state of the stream now. Raises StreamMissing, SourceUnreadable."""

    def stored(self, position: StreamPosition) -> StoredPosition:
        """Return a position as it is stored."""

    def misfit(self, stored: StoredPosition) -> str | None:
        """Return why a stored position is none of the stream as it was opened, None where it is
        one."""

    def is_expired(self, stored: StoredPosition) -> bool:
        """Return whether messages after a position are no longer kept, as far as the stream
        tells."""

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        """Return the next messages after a position, at most `limit`.

        With `wait` the call lasts until there is one, and may return none after a while. Without it
        none means that none is pending. Raises SourceDiverged, SourceExpired.
        """

    async def time_ms(self) -> int | None:
        """Return the time by which the stream says when it took a message, None if it does not. A
        message that a later `read` does not return was taken after that."""

    async def close(self) -> None:
        """Let go of the stream."""
