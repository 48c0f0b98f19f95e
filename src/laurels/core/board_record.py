"""The part of a snapshot that does not come from the index: boards, import positions, time, the
offset."""

import msgspec
from msgspec import Struct

from .closing import WindowClosing
from .hiding import Hiding
from .lifecycle import Floors, Refreshed
from .pending_erasure import PendingErasure


class Clearing(Struct, frozen=True, array_like=True):
    """The last clearing of a board on an index server: the version that the board got, the time,
    and the tag of the change `clear`. A removed board is restored by a clearing, too: then
    `restored` is the definition with which it goes on, and the change is `undelete`."""

    version: int
    now_ms: int
    tag: int
    restored: bytes = b""


class BoardRecord(Struct, frozen=True, array_like=True):
    """The stored state of a board.

    `due_ms` is the next end of a period or step. `refreshed` is the state of the board's refreshed
    windows. `now_ms` is the board's own time. It is None in snapshots of earlier versions, which
    have one time for all boards, in their `Head`. `sequence` and `tag` belong to the newest block
    of changes. An `unfinished` board is still being copied from another store. `hidden` has the
    hidden members with their hidings. `closing` has the closed periods of each window that closes
    periods or has closed some. `cleared` and `may_have_payouts` are only used on an index server.
    """

    number: int
    definition: bytes
    version: int
    created_ms: int
    floors: Floors
    positions: dict[str, str]
    due_ms: int
    refreshed: dict[str, Refreshed] = {}
    now_ms: int | None = None
    uid: str = ""
    sequence: int = 0
    tag: int = 0
    unfinished: bool = False
    hidden: list[tuple[bytes, Hiding]] = []
    closing: dict[str, WindowClosing] = {}
    cleared: Clearing | None = None
    may_have_payouts: bool = True


class DeletionRecord(Struct, frozen=True, array_like=True):
    """The stored state of a deleted board whose changes are kept until `until_ms`."""

    board: BoardRecord
    deleted_ms: int
    until_ms: int


class RemovedRecord(Struct, frozen=True, array_like=True, gc=False):
    """A board that was deleted, or removed by its `retain`, and that can be restored. `state` is
    its `BoardRecord`, encoded. `periods` is the number of its periods in the archive."""

    name: str
    uid: str
    removed_ms: int
    periods: int
    state: bytes


class Head(Struct, frozen=True, array_like=True):
    """The offset and time of a snapshot. `hidden` has the members that are hidden on all boards,
    with their hidings. `deleted` has the deleted boards whose changes are kept, in the order of
    their deletion. `erasing` has the erasures that are not complete. `removed` has the boards that
    can be restored, in the order of their removal."""

    offset: int
    now_ms: int
    next_number: int
    hidden: list[tuple[bytes, Hiding]] = []
    deleted: list[DeletionRecord] = []
    erasing: list[PendingErasure] = []
    removed: list[RemovedRecord] = []


HEAD = b"F"
"""The kind of the snapshot section that contains the `Head`."""

_boards = msgspec.msgpack.Decoder(BoardRecord)
_deletions = msgspec.msgpack.Decoder(DeletionRecord)
_heads = msgspec.msgpack.Decoder(Head)
encode = msgspec.msgpack.Encoder().encode


def board_record(body: bytes) -> BoardRecord:
    return _boards.decode(body)


def deletion_record(body: bytes) -> DeletionRecord:
    return _deletions.decode(body)


def head(body: bytes) -> Head:
    return _heads.decode(body)
