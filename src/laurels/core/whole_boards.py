"""Boards that are restored from a snapshot or after their deletion, or copied from another
store."""

from collections.abc import Iterable

from laurels.core.changes.deleted import deletion_of
from laurels.core.changes.record_blocks import undelete_blocks
from laurels.core.changes.recorder import ChangeRecorder
from laurels.model.board import Board

from . import record as records
from .adoption import Unfinished
from .board_record import BoardRecord, Head, board_record, encode
from .board_state import BoardState, new_state, record_of
from .clearing_boards import ClearingBoards
from .hidden import HiddenMembers
from .hiding import EVERYWHERE
from .index import Index


class WholeBoards(ClearingBoards):
    """Boards and their rankings. The boards can be described for a snapshot, restored from it or
    after their deletion, and copied from another store."""

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index, recorder)
        self.unfinished = Unfinished(index)

    def describe(self, number: int) -> bytes | None:
        """Return the part of a board's state that is not in the index, encoded as bytes; None if
        there is no such board."""
        if (state := self.unfinished.states.get(number)) is not None:
            return encode(record_of(state, state.now_ms, unfinished=True))
        if (state := self._by_number.get(number)) is None:
            return None
        return encode(record_of(state, self.time_of(state)))

    def needs_latest_form(self, number: int) -> bool:
        """Return whether an earlier version would not understand a part of what `describe`
        returns: hidden members, or closed periods. O(windows)."""
        state = self.unfinished.states.get(number) or self._by_number.get(number)
        return state is not None and (
            bool(state.hidden.own)
            or any(closing.closed or closing.sealed for closing in state.closing.values())
        )

    def head(self) -> Head:
        """Return the part of the state of this fold that belongs to no board."""
        hidden = list(self.everywhere.items())
        deleted = [deletion.record() for deletion in self.deletions]
        erasing = list(self.erasing.values())
        return Head(
            self.offset,
            self.now_ms,
            self.next_number,
            hidden,
            deleted,
            erasing,
            list(self.removed),
        )

    def restore(self, head: Head, boards: Iterable[tuple[int, bytes]]) -> None:
        """Restore the state that `head` and `describe` of another fold returned. This fold has to
        be empty."""
        for member, hiding in head.hidden:
            self.everywhere.hide(member, hiding)
        self.hiding_ends.watch(EVERYWHERE, head.hidden)
        self.erasing = {each.member: each for each in head.erasing}
        for _, described in boards:
            record = board_record(described)
            state = _state_of(record)
            state.due_ms = record.due_ms
            state.now_ms = head.now_ms if record.now_ms is None else record.now_ms
            state.refreshed = record.refreshed
            if record.unfinished:
                self.unfinished.open(state)
                continue
            self.register(state)
            self.index.open_board(state.number, state.rules)
            self._opened(state)
            self.hiding_ends.watch(state.number, state.hidden.items())
        self.offset = head.offset
        self.now_ms = head.now_ms
        self.next_number = head.next_number
        for deletion in map(deletion_of, head.deleted):
            self._keep(deletion)
        self.removed.add(head.removed)

    def open(
        self, board: Board, number: int, version: int, created_ms: int, uid: str = ""
    ) -> BoardState:
        """Register a board, and open it in the index."""
        state = super().open(board, number, version, created_ms, uid)
        self.index.open_board(number, state.rules)
        return state

    def _undelete(self, record: records.Undelete) -> None:
        """Register a removed board again. Its rankings are empty, and only the archive has the
        standings of its sealed periods."""
        if (current := self.find_by_number(record.board)) is not None:
            # its `retain` is over, but no clock removes boards while the log is folded
            self.remove_unretained(current)
        state = _state_of(board_record(record.restored))
        state.version, state.now_ms = record.version, record.now_ms
        # greater than on any removed board, so that no change token of this board occurs again
        state.changes = self._removed_changes + 1
        self._free_name(state.board.name, record.now_ms)
        self.removed.forget(state.uid)
        self.deletions.forget(state.uid)
        self.now_ms = max(self.now_ms, record.now_ms)
        self.register(state)
        self.index.open_board(state.number, state.rules)
        self.closings.cleared(state)
        self._opened(state)
        self._watch_boundary(state)
        self.hiding_ends.watch(state.number, state.hidden.items())
        if self.payouts is not None:
            self.payouts.rename(state.uid, state.board.name)
        hidings = [(member, hiding) for member, hiding, _ in state.hidden.hidings(record.now_ms)]
        for block in undelete_blocks(record, state.board.to_json(), hidings, state.positions):
            self._record(state, block)

    def _copy(self, record: records.Record) -> None:
        """Apply a record of a board that is being copied from another store."""
        match record:
            case records.Adopt():
                self.unfinished.begin(record)
                self.next_number = record.board + 1
            case records.Content():
                self.unfinished.restore(record)
            case records.Adopted():
                state = self.unfinished.finish(record, self.entry)
                if self.payouts is not None:
                    self.payouts.adopt(record.board, record.tag)
                self._free_name(state.board.name, record.now_ms)
                self.closings.copied(state, self.entry)
                self.register(state)
                self._opened(state)
                self.hiding_ends.watch(state.number, state.hidden.items())
                state.changes += 1
                self.now_ms = max(self.now_ms, state.now_ms)
                self._copied_again(state.uid)
                if state.rules.changes_ms and self.recorder is not None:
                    self.recorder.restart(state)
                self._remove_gone()
            case records.Delete():
                self.unfinished.give_up(record.board)
                if self.payouts is not None:
                    self.payouts.discard(record.board)


def _state_of(record: BoardRecord) -> BoardState:
    """Return the state of a board from its stored form, without what depends on its rankings."""
    board = Board.from_json(record.definition)
    state = new_state(board, record.number, record.version, record.created_ms, record.uid)
    state.sequence, state.tag = record.sequence, record.tag
    state.floors = record.floors
    state.positions = record.positions
    state.closing = record.closing
    state.hidden = HiddenMembers(dict(record.hidden))
    return state
