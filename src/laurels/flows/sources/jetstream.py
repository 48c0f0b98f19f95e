"""The answers of JetStream about streams, consumers and deliveries, and the address of a stream."""

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from msgspec import Struct

from laurels.errors.sources import InvalidStream

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_ACK_PARTS = 9


class SequenceRange(Struct, frozen=True):
    """The first and the last sequence number of a stream."""

    first_seq: int
    last_seq: int


class ApiError(Struct, frozen=True):
    """An error that the server answers."""

    code: int
    description: str = ""


class JetStreamInfo(Struct, frozen=True):
    """The server's answer about a stream."""

    created: str = ""
    ts: datetime | None = None
    state: SequenceRange = SequenceRange(0, 0)
    error: ApiError | None = None


class ConsumerInfo(Struct, frozen=True):
    """The server's answer to the creation of a consumer."""

    name: str = ""
    created: datetime | None = None
    error: ApiError | None = None


class Delivery(NamedTuple):
    """The contents of a message's reply subject: the consumer, the message's number in the stream,
    its number among the consumer's deliveries, and the time at which the stream took it."""

    consumer: str
    sequence: int
    number: int
    taken_ns: int


class StreamConsumer(Struct):
    """A consumer at the server, with the sequence number and the delivery number of the last
    message."""

    name: str
    sequence: int
    number: int = 0


def delivery_of(message: "Msg") -> Delivery:
    """Parse the reply subject `$JS.ACK.…` of a message. In its newer form (ADR-15 of NATS) it also
    contains the server's domain and a hash of the account, before the stream name."""
    parts = message.reply.split(".")
    first = 5 if len(parts) == _ACK_PARTS else 7
    sequence, number, taken_ns = map(int, parts[first : first + 3])
    return Delivery(parts[first - 2], sequence, number, taken_ns)


def split_address(address: str) -> tuple[str, str, str]:
    """Divide an address into the URL of the server, the address without user and password, and the
    name of the stream."""
    try:
        parts = urlsplit(address)
        port = parts.port or 4_222
    except ValueError:  # the message of the error may contain the password
        raise InvalidStream("expected nats://host:port/STREAM, got no valid port") from None
    if "@" in parts.path:
        raise InvalidStream(
            "expected nats://host:port/STREAM, with '/' written as %2F in a user name or password, "
            "and '@' as %40 in the name of the stream"
        )
    stream = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not stream or any(char in stream for char in "./*> \t"):
        raise InvalidStream("expected nats://host:port/STREAM, got no host or no stream")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    return url, f"{parts.scheme}://{host}:{port}/{stream}", stream
