"""Boards whose changes are recorded, the deleted boards whose changes are still kept, and the
removed boards that can be restored."""

import heapq

from msgspec.structs import replace

from laurels.core.changes.blocks import MendBlock, WriteBlock
from laurels.core.changes.deleted import Deletion, Deletions, removal_tag
from laurels.core.changes.payout_blocks import PayoutBlock
from laurels.core.changes.record_blocks import write_block
from laurels.core.changes.recorder import ChangeRecorder

from . import record as records
from .advancing import AdvancedBoards
from .board_state import BoardState
from .index import Index
from .removed_boards import RemovedBoards, is_restorable, removed_record


class RecordedBoards(AdvancedBoards):
    """Boards and their rankings. A `recorder` receives the blocks of boards that keep their
    changes.

    `entry` is the offset of the log entry whose records are being applied.
    """

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index)
        self.recorder = recorder
        self.entry = 0
        self.deletions = Deletions()
        self.removed = RemovedBoards()
        self._removed_changes = 0
        """The greatest number of changes of any board when it was removed."""

    def _record(self, state: BoardState, block: WriteBlock | MendBlock | PayoutBlock) -> None:
        """Record the changes of a write other than events, if the board keeps changes."""
        if not state.rules.changes_ms:
            return
        self.take_up(state)
        state.sequence, state.tag = state.sequence + 1, block.tag
        if self.recorder is not None:
            self.recorder.record(state, replace(block, sequence=state.sequence))

    def take_up(self, state: BoardState) -> None:
        """Bring a board up to date with the list of members hidden on all boards: record the
        changes of the list that are not recorded on the board yet. They come before every later
        block of the board."""

    def find_deletion(self, board: str, uid: str | None) -> Deletion | None:
        """Return the deleted board with this name and unique id; None if there is none, or if its
        changes are no longer kept."""
        deletion = self.deletions.find(uid)
        if deletion is None or deletion.state.board.name != board:
            return None
        return deletion if self.clock_ms < deletion.until_ms else None

    def forget_expired(self) -> None:
        """Remove the changes of deleted boards that are no longer kept. In event time no clock
        runs, so they are kept whatever the time is."""
        for deletion in self.deletions.take_expired(self.clock_ms):
            if self.recorder is not None:
                self.recorder.forget(deletion.state.number)

    def _delete(self, state: BoardState, record: records.Delete) -> None:
        """Delete a board. If the record has no tag, the board's changes are removed as well, and it
        cannot be restored; see `records.Delete`."""
        if not record.tag and self.payouts is not None:
            self.payouts.forget(state.number, state.uid)
        if not record.tag or not state.rules.changes_ms:
            self.remove_board(state.number)
        else:
            self._end(state, write_block(record, "delete"))
        if record.tag:
            self._keep_removed(state, record.now_ms)

    def remove_board(self, number: int) -> None:
        """Remove a board with all its data and its changes."""
        super().remove_board(number)
        if self.recorder is not None:
            self.recorder.forget(number)

    def remove_unretained(self, state: BoardState) -> None:
        """Remove a board that is no longer retained. Nothing is logged for its removal."""
        # the removal is later than `gone_ms` if it had to wait for payouts of the board
        removed_ms = max(state.rules.gone_ms, state.now_ms)
        if state.rules.changes_ms:
            self._end(state, WriteBlock(0, removal_tag(state), removed_ms, "delete"))
        else:
            self.remove_board(state.number)
        self._keep_removed(state, removed_ms)

    def _keep_removed(self, state: BoardState, removed_ms: int) -> None:
        """Keep the state of a removed board that can be restored."""
        if is_restorable(state):
            self.removed.add([removed_record(state, removed_ms)])
            self._removed_changes = max(self._removed_changes, state.changes)

    def _end(self, state: BoardState, block: WriteBlock) -> None:
        """Record the last change of a board, and remove everything else of the board."""
        self._record(state, block)
        super().remove_board(state.number)
        state.views, state.running = {}, None
        self._keep(Deletion(state, block.now_ms, block.now_ms + state.rules.changes_ms))
        self.forget_expired()

    def names_by_uid(self) -> dict[str, str]:
        """Return the names of all boards and of the removed boards that can be restored, by their
        uids."""
        names = {each.uid: each.name for each in self.removed}
        return names | {state.uid: state.board.name for state in self.boards.values()}

    def _copied_again(self, uid: str) -> None:
        """Remove what is kept of a deleted board that was copied into this store again."""
        self.removed.forget(uid)
        deletion = self.deletions.forget(uid)
        if deletion is not None and self.recorder is not None:
            self.recorder.forget(deletion.state.number)

    def _keep(self, deletion: Deletion) -> None:
        """Keep the changes of a deleted board."""
        self.deletions.add(deletion)
        heapq.heappush(self._removals, (deletion.until_ms, deletion.state.number))

    def _move_deleted_position(self, record: records.DeletedPosition) -> None:
        """Store the position of a sink in the changes of a deleted board."""
        deletion = self.deletions.numbered(record.board)
        if deletion is not None:
            source, text = record.position
            deletion.state.positions[source] = text

    def _remove_gone(self) -> None:
        super()._remove_gone()
        self.forget_expired()

    def _free_name(self, name: str, now_ms: int) -> None:
        """Remove the board with this name, if it is no longer retained. This is needed before the
        log uses the name for a new board, since no clock removes boards while the log is folded."""
        state = self.boards.get(name)
        if state is not None and state.rules.is_gone(now_ms):
            self.remove_unretained(state)
