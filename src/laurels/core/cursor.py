"""Cursors: the end of a page, as a text from which the next page continues.

A cursor is the order key of the last entry read: a place in the order rather than a count of
entries. So a member that does not move across this place is listed exactly once, whatever other
members do. The cursor also names the ranking and the direction, so that it cannot be used for
another ranking.
"""

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64

import msgspec
from msgspec import Struct

from laurels.errors import InvalidCursor
from laurels.model.event import MAX_ID_BYTES
from laurels.model.validation import safe_repr
from laurels.timeline.instants import MAX_MS, MIN_MS

from .ranking_key import RankingKey

_VERSION = 1
_LEAST, _MOST = -(2**63), 2**63 - 1
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Cursor(Struct, frozen=True, array_like=True):
    version: int
    key: RankingKey
    reverse: bool
    words: tuple[int, ...]
    member: bytes


_decoder = msgspec.msgpack.Decoder(Cursor)


def encode(key: RankingKey, reverse: bool, words: tuple[int, ...], member: bytes) -> str:
    """Return the cursor after an entry, as URL-safe text."""
    packed = msgspec.msgpack.encode(Cursor(_VERSION, key, reverse, words, member))
    return b2a_base64(packed, newline=False).translate(_URL_SAFE, b"=").decode()


def decode(text: object, board: int, window: str, scope: str) -> Cursor:
    """Decode a cursor that a caller passed. Raises InvalidCursor if it was not made for this board,
    window and scope."""
    if not isinstance(text, str):
        raise InvalidCursor(f"expected the cursor of a page, got {safe_repr(text)}")
    try:
        packed = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        cursor = _decoder.decode(packed)
    except (Base64Error, UnicodeError, msgspec.MsgspecError, ValueError) as error:
        raise InvalidCursor(f"expected the cursor of a page, got {safe_repr(text)}") from error
    if cursor.version != _VERSION:
        raise InvalidCursor("the cursor was made by another version")
    sound = MIN_MS <= cursor.key.instance < MAX_MS and 1 <= len(cursor.member) <= MAX_ID_BYTES
    if not sound or any(not _LEAST <= word <= _MOST for word in cursor.words):
        raise InvalidCursor(f"expected the cursor of a page, got {safe_repr(text)}")
    if (cursor.key.board, cursor.key.window, cursor.key.scope) != (board, window, scope):
        raise InvalidCursor("the cursor was made for another board, window or scope")
    return cursor
