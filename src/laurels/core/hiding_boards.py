"""Boards with members that are hidden, on one board or on all.

A member that is hidden on all boards is left out of all of them at once, since boards share the
list of these members. Boards that keep changes, and boards with refreshed windows, also have to
record the hiding. As there may be very many such boards, they record it in shares of due work
(`work`). A board records it, at the latest, before anything else of the board is recorded. So the
order of its changes does not depend on the shares, and folding the log again makes the same
changes.
"""

from laurels.core.changes.record_blocks import hiding_block
from laurels.core.changes.recorder import ChangeRecorder

from . import record as records
from .board_state import BoardState
from .hiding import EVERYWHERE, Hiding, HidingEnds
from .index import Index
from .recorded_boards import RecordedBoards

TAKE_UP_WORK = 40
"""The cost of adding a change to a board, as a number of visited members."""


class HidingBoards(RecordedBoards):
    """Boards and their rankings, with hidden members. `ended_hidings` lists the hidings that have
    ended."""

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index, recorder)
        self.hiding_ends = HidingEnds()
        self._untaken: list[tuple[records.HideOnAll | records.ShowOnAll, int]] = []
        """The last changes of `everywhere`, each with the offset of its entry. Some boards have not
        recorded all of them yet."""
        self._taking_up: list[int] = []
        """The numbers of the boards that may not have recorded all of these changes."""

    def _hide(self, state: BoardState, record: records.Hide) -> None:
        """Hide a member, or replace its hiding."""
        self.advance(state)
        self.take_up(state)
        hiding = Hiding(record.reason, record.since_ms, record.until_ms)
        state.hidden.hide(record.member, hiding)
        self.hiding_ends.add(state.number, record.member, hiding)
        self._hidden_changed(state, record)

    def _show(self, state: BoardState, record: records.Show) -> bool:
        """Remove the hiding of a member; return whether it had one."""
        self.advance(state)
        self.take_up(state)
        if not state.hidden.show(record.member):
            return False
        self._hidden_changed(state, record)
        return True

    def _change_everywhere(self, record: records.HideOnAll | records.ShowOnAll) -> bool:
        """Hide a member on all boards, or remove this hiding; return whether anything changed.
        Boards with refreshed windows, and boards that keep changes, record this later."""
        self.now_ms = max(self.now_ms, record.now_ms)
        if isinstance(record, records.HideOnAll):
            hiding = Hiding(record.reason, record.since_ms, record.until_ms)
            self.everywhere.hide(record.member, hiding)
            self.hiding_ends.add(EVERYWHERE, record.member, hiding)
        elif not self.everywhere.show(record.member):
            return False
        self.everywhere_changes += 1
        self._untaken.append((record, self.entry))
        self._taking_up = list(self._by_number)
        return True

    def take_up(self, state: BoardState) -> None:
        """Bring a board up to date with the list of members hidden on all boards: record the
        changes of the list that are not recorded on the board yet."""
        missing = self.everywhere_changes - state.everywhere_seen
        if not missing:
            return
        state.everywhere_seen = self.everywhere_changes
        if not state.rules.refreshed and not state.rules.changes_ms:
            return
        for record, entry in self._untaken[-missing:]:
            self.refreshes.changed(state, entry)
            hiding = state.hidden.hiding(record.member, record.now_ms)
            if hiding is None and isinstance(record, records.HideOnAll):
                hiding = Hiding(record.reason, record.since_ms, record.until_ms)
            self._record(state, hiding_block(record, hiding))

    def take_up_all(self) -> None:
        """Let all boards record the changes of the list of members hidden on all boards."""
        while self._taking_up:
            self.take_up_share(TAKE_UP_WORK)

    def take_up_share(self, limit: int) -> int:
        """Let boards record the changes of the list of members hidden on all boards, until the cost
        reaches `limit`. Return the cost."""
        cost = 0
        while self._taking_up and cost < limit:
            state = self._by_number.get(self._taking_up.pop())
            cost += 1
            if state is not None and state.everywhere_seen != self.everywhere_changes:
                has_work = state.rules.refreshed or state.rules.changes_ms
                cost += TAKE_UP_WORK if has_work else 0
                self.take_up(state)
        if not self._taking_up:
            self._untaken.clear()
        return cost

    def advance_all(self) -> None:
        """Advance every board with all its scopes."""
        self.take_up_all()
        super().advance_all()

    def work(self, limit: int) -> int:
        """Do due work at a cost of about `limit` visited members, and return the amount of work
        left."""
        if self._taking_up:
            limit -= self.take_up_share(limit)
        return super().work(limit)

    @property
    def has_work(self) -> bool:
        """Whether any work is due."""
        return bool(self._taking_up) or super().has_work

    @property
    def has_untaken(self) -> bool:
        """Whether the list of members hidden on all boards has changes that some board has not
        recorded yet."""
        return bool(self._taking_up)

    def work_left(self) -> int:
        """Return the amount of work left: about the number of members that the passes of all boards
        still have to visit, plus the number of boards that may still have to record changes of the
        members hidden on all boards."""
        return super().work_left() + len(self._taking_up)

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
