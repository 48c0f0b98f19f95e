"""Boards from which members are erased."""

from collections.abc import Mapping

from laurels.core.changes.blocks import WriteBlock
from laurels.core.changes.record_blocks import erase_block
from laurels.core.changes.recorder import ChangeRecorder

from . import record as records
from .board_state import BoardState
from .erasing import ErasureScan, Traces
from .hiding_boards import HidingBoards
from .index import Index
from .pending_erasure import PendingErasure


class ErasingBoards(HidingBoards):
    """Boards and their rankings. `erasing` has the erasures that are not complete, by member."""

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index, recorder)
        self.erasing: dict[bytes, PendingErasure] = {}

    def erase(self, record: records.Erase, found: Mapping[int, Traces]) -> list[int]:
        """Remove a member from all boards and from the list of those hidden on all boards, and
        return the numbers of the boards that had it. `found` has, by number, the boards that have
        the member in memory."""
        self.now_ms = max(self.now_ms, record.now_ms)
        self.take_up_all()  # no board may record the hiding of the member after its erasure
        self.everywhere.show(record.member)
        archived = [each for each in record.archived if each in self._by_number]
        numbers = sorted({*found, *archived})
        for number in numbers:
            self._erase_from(self._by_number[number], record, found.get(number, Traces([], [])))
        self.removed.erase(record.member)
        self.erasing[record.member] = PendingErasure(
            record.member, record.token, record.now_ms, self.entry
        )
        return numbers

    def remove_board(self, number: int) -> None:
        """Remove a board with all its data and its changes."""
        self._spare(self.by_number(number))
        super().remove_board(number)

    def _end(self, state: BoardState, block: WriteBlock) -> None:
        self._spare(state)
        super()._end(state, block)

    def _spare(self, state: BoardState) -> None:
        """Note in each erasure that is not complete which periods of a board, which is about to be
        removed, were sealed after the erasure began."""
        if self.erasing:
            self.erasing = {name: each.sparing(state) for name, each in self.erasing.items()}

    def _apply_erasure(self, record: records.Erase | records.Erased) -> None:
        """Erase a member, or record that its erasure is complete."""
        if isinstance(record, records.Erased):
            self.erasing.pop(record.member, None)
            return
        scan = ErasureScan(record.member)
        while not scan.search_share(self):
            pass
        self.erase(record, scan.found)

    def _erase_from(self, state: BoardState, record: records.Erase, traces: Traces) -> None:
        """Remove a member from a board."""
        self.advance(state)
        self.advance_scopes(state, traces.scopes)
        self.index.forget_ids(state.number, traces.ids)
        frozen = self.index.erase(state.number, record.member, traces.scopes)
        self.closings.erased(state, record.member, frozen)
        state.hidden.show(record.member)
        state.hidden.forget()
        state.excluded.clear()
        state.views.clear()
        self._watch_boundary(state)
        self.refreshes.changed(state, self.entry)
        state.changes += 1
        self._record(state, erase_block(record))
