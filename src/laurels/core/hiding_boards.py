"""Boards with members that are hidden, on one board or on all."""

from laurels.core.changes.record_blocks import hiding_block
from laurels.core.changes.recorder import ChangeRecorder

from . import record as records
from .board_state import BoardState
from .hiding import EVERYWHERE, Hiding, HidingEnds
from .index import Index
from .recorded_boards import RecordedBoards


class HidingBoards(RecordedBoards):
    """Boards and their rankings, with hidden members. `ended_hidings` lists the hidings that have
    ended."""

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index, recorder)
        self.hiding_ends = HidingEnds()

    def _hide(self, state: BoardState, record: records.Hide) -> None:
        """Hide a member, or replace its hiding."""
        self.advance(state)
        hiding = Hiding(record.reason, record.since_ms, record.until_ms)
        state.hidden.hide(record.member, hiding)
        self.hiding_ends.add(state.number, record.member, hiding)
        self._hidden_changed(state, record)

    def _show(self, state: BoardState, record: records.Show) -> bool:
        """Remove the hiding of a member; return whether it had one."""
        self.advance(state)
        if not state.hidden.show(record.member):
            return False
        self._hidden_changed(state, record)
        return True

    def _change_everywhere(self, record: records.HideOnAll | records.ShowOnAll) -> bool:
        """Hide a member on all boards, or remove this hiding; return whether anything changed. The
        cached views of all boards are dropped; boards with refreshed windows, and those that keep
        changes, record the change."""
        self.now_ms = max(self.now_ms, record.now_ms)
        if isinstance(record, records.HideOnAll):
            hiding = Hiding(record.reason, record.since_ms, record.until_ms)
            self.everywhere.hide(record.member, hiding)
            self.hiding_ends.add(EVERYWHERE, record.member, hiding)
        elif not self.everywhere.show(record.member):
            return False
        for state in self._by_number.values():
            state.views.clear()
            if state.rules.refreshed or state.rules.changes_ms:
                self.advance(state)
                self._hidden_changed(state, record)
        return True

    def _hidden_changed(self, state: BoardState, record: records.Hide | records.Show) -> None:
        """Record that a member was hidden on a board or is no longer hidden there."""
        state.views.clear()
        self._watch_boundary(state)
        self.refreshes.changed(state, self.entry)
        self.index.touch(state.number)
        hiding = state.hidden.effective(record.member, record.now_ms)
        self._record(state, hiding_block(record, hiding))

    def ended_hidings(self) -> list[tuple[BoardState | None, bytes]]:
        """Return the boards and members whose hiding has ended, but is not removed yet. None stands
        for all boards."""

        def current(number: int, member: bytes) -> tuple[Hiding | None, int]:
            if number == EVERYWHERE:
                return self.everywhere.stored(member), self.now_ms
            state = self._by_number.get(number)
            if state is None:
                return None, self.now_ms
            return state.hidden.stored(member), self.time_of(state)

        ended = self.hiding_ends.due(self.now_ms, current)
        return [(self._by_number.get(number), member) for number, member in ended]
