"""The format in which whole boards are sent: an origin, then pieces, each one line of JSON, with
bytes in base64."""

from typing import TypeVar

import msgspec
from msgspec import Struct

from laurels.core.contents import Origin, OriginRest, Piece
from laurels.errors.copies import InvalidCopy

from .problems import error_of

T = TypeVar("T")
MAX_BYTES = 8 << 20
"""The largest body with an origin or with pieces, in bytes."""
MAX_ORIGIN = 2 << 20
"""An origin with more bytes than this is sent in parts."""


class PiecesEnd(Struct, frozen=True, array_like=True, tag="end"):
    """The line after the last piece of a board, with the number of pieces. Without this line an
    answer is incomplete."""

    pieces: int


class UnfinishedAnswer(Struct, frozen=True):
    """The uid of the unfinished copy of a board, null if there is none."""

    uid: str | None


_encoder = msgspec.json.Encoder()
_origin = msgspec.json.Decoder(Origin).decode
_rest = msgspec.json.Decoder(OriginRest).decode
_pieces = msgspec.json.Decoder(list[Piece]).decode
_line = msgspec.json.Decoder(Piece | PiecesEnd).decode

encode_json = _encoder.encode


def origin_in(body: bytes) -> Origin:
    """Decode a body that is an origin. Raises InvalidCopy."""
    try:
        return _origin(body)
    except (ValueError, RecursionError) as error:
        raise InvalidCopy(f"expected the origin of a board ({error})") from error


def rest_in(body: bytes) -> OriginRest:
    """Decode a body that is a part of an origin. Raises InvalidCopy."""
    try:
        return _rest(body)
    except (ValueError, RecursionError) as error:
        raise InvalidCopy(f"expected a part of the origin of a board ({error})") from error


def pieces_in(body: bytes) -> list[Piece]:
    """Decode a body that is a list of pieces. Raises InvalidCopy."""
    try:
        return _pieces(body)
    except (ValueError, RecursionError) as error:
        raise InvalidCopy(f"expected pieces of a board ({error})") from error


def line_of(piece: Piece | PiecesEnd) -> bytes:
    """Encode a piece, or the end of the pieces, as a line of JSON."""
    return _encoder.encode(piece) + b"\n"


def read_line(line: bytes) -> Piece | PiecesEnd:
    """Decode a line. If it is a problem document, raise the error in it. Raises ValueError if the
    line has another form."""
    if line.startswith(b"{"):
        raise error_of(500, line)
    decoded: Piece | PiecesEnd = _line(line)
    return decoded
