"""What the fold knows besides the index: boards, how far imports have come, time, the offset."""

import msgspec
from msgspec import Struct

from .plan import Floors
from .refreshed import Refreshed


class BoardRecord(Struct, frozen=True, array_like=True):
    """A board as the log has left it; `due_ms` is up to when it was brought, `refreshed` how the
    windows stand that are refreshed, `now_ms` the board's own time. Before boards had times of
    their own that was None: the time of the whole store, which the head has."""

    number: int
    definition: bytes
    version: int
    created_ms: int
    floors: Floors
    positions: dict[str, str]
    due_ms: int
    refreshed: dict[str, Refreshed] = {}
    now_ms: int | None = None


class Head(Struct, frozen=True, array_like=True):
    """The instant of a snapshot."""

    offset: int
    now_ms: int
    next_number: int


HEAD = b"F"
"""The kind of section a head is."""

_boards = msgspec.msgpack.Decoder(BoardRecord)
_heads = msgspec.msgpack.Decoder(Head)
encode = msgspec.msgpack.Encoder().encode


def board_record(body: bytes) -> BoardRecord:
    return _boards.decode(body)


def head(body: bytes) -> Head:
    return _heads.decode(body)
