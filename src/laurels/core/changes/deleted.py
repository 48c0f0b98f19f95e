"""Deleted boards whose changes are still kept.

When a board that keeps changes is deleted, a last change of the kind `delete` is recorded. The
changes then stay readable for the time that the board's setting `changes` names. They are read by
the unique id of the board, since another board may have its name by then. At most MAX_DELETED
boards are kept: beyond that, the changes of the board that was deleted first are removed before
their time is over.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from laurels.core.board_record import BoardRecord, DeletionRecord
from laurels.core.board_state import BoardState, new_state, record_of
from laurels.model.board import Board
from laurels.timeline.instants import MAX_MS

from .answers import DeletedBoard
from .blocks import WriteBlock
from .cursor import ChangeCursor

MAX_DELETED = 10_000
"""The maximum number of deleted boards whose changes a store keeps."""


class Deletion(Struct, frozen=True):
    """A deleted board. Its changes are kept until `until_ms`, with the positions of its sinks."""

    state: BoardState
    deleted_ms: int
    until_ms: int

    def block(self) -> WriteBlock:
        """Return the last change of the board."""
        return WriteBlock(self.state.sequence, self.state.tag, self.deleted_ms, "delete")

    def record(self) -> DeletionRecord:
        """Return the form in which the deletion is stored."""
        return DeletionRecord(
            record_of(self.state, self.state.now_ms), self.deleted_ms, self.until_ms
        )

    def answer(self, position: str | None) -> DeletedBoard:
        """Return the deletion as readers get it, with the position of one source."""
        definition: dict[str, Any] = msgspec.json.decode(self.state.board.to_json())
        return DeletedBoard(
            self.state.board.name,
            self.state.uid,
            self.deleted_ms,
            self.until_ms,
            definition,
            ChangeCursor(self.state.uid, (), "oldest").encode(),
            ChangeCursor(self.state.uid, (), "last").encode(),
            position or None,
        )


def deletion_of(record: DeletionRecord) -> Deletion:
    """Return a deletion from its stored form."""
    return Deletion(_state_of(record.board), record.deleted_ms, record.until_ms)


def _state_of(record: BoardRecord) -> BoardState:
    board = Board.from_json(record.definition)
    state = new_state(board, record.number, record.version, record.created_ms, record.uid)
    state.sequence, state.tag, state.positions = record.sequence, record.tag, record.positions
    if record.now_ms is not None:
        state.now_ms = record.now_ms
    return state


def removal_tag(state: BoardState) -> int:
    """Return the tag of the last change of a board that is removed because its `retain` is over.
    The tag is computed from the previous change's tag, so that each fold of a log makes the same
    change."""
    text = f"{state.uid}/{state.sequence}/{state.tag}"
    return int.from_bytes(blake2b(text.encode(), digest_size=6).digest()) or 1


class Deletions:
    """The deleted boards of a store whose changes are kept, in the order of their deletion."""

    def __init__(self, deletions: Iterable[Deletion] = ()) -> None:
        self._by_uid = {each.state.uid: each for each in deletions}

    def __iter__(self) -> Iterator[Deletion]:
        return iter(self._by_uid.values())

    def add(self, deletion: Deletion) -> None:
        self._by_uid[deletion.state.uid] = deletion

    def find(self, uid: str | None) -> Deletion | None:
        """Return the deleted board with a unique id; None if there is none."""
        return None if uid is None else self._by_uid.get(uid)

    def numbered(self, number: int) -> Deletion | None:
        """Return the deleted board with a number; None if there is none. O(deleted boards)."""
        return next((each for each in self if each.state.number == number), None)

    def forget(self, uid: str) -> Deletion | None:
        """Remove a deleted board and return it; None if it is not known."""
        return self._by_uid.pop(uid, None)

    def take_expired(self, now_ms: int) -> list[Deletion]:
        """Remove the boards whose changes are no longer kept at `now_ms`, and return them."""
        beyond = len(self._by_uid) - MAX_DELETED
        expired = [each for i, each in enumerate(self) if each.until_ms <= now_ms or i < beyond]
        for each in expired:
            del self._by_uid[each.state.uid]
        return expired

    @property
    def next_ms(self) -> int:
        """The next time at which the changes of a board expire; MAX_MS if there are none."""
        return min([each.until_ms for each in self], default=MAX_MS)
