"""The fold: apply log records, one after another, to boards and rankings.

The state is a function of the log and the current time; this module is that function. A live commit
and recovery both call it with the same records, so they end in the same state. Everything that
depends on earlier events is decided here, in log order.

The effects of passing time are in `advancing.py`.
"""

import heapq
from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.changes.blocks import (
    ChangeRecorder,
    CountedBatch,
    MendBlock,
    WriteBlock,
    close_block,
    confirm_block,
    disqualify_block,
    encode_hiding,
    hiding_block,
    mend_block,
    position_block,
    seal_block,
    write_block,
)
from laurels.core.changes.deleted import Deletion, Deletions, deletion_of, removal_tag
from laurels.model.batch import Batch
from laurels.model.board import Board
from laurels.model.labels import ALL

from . import record as records
from .adoption import Unfinished
from .advancing import AdvancedBoards
from .board_record import Head, board_record, encode
from .board_state import BoardState, new_state, record_of, redefine
from .event_columns import logged_batch
from .hidden import HiddenMembers
from .hiding import EVERYWHERE, Hiding, HidingEnds
from .index import Index, Outcomes
from .plan import Plan
from .ranking_key import RankingKey
from .scope_scan import SCOPES, ScopeScan


class Folded(Struct, frozen=True):
    """The result of counting a batch: the plan of the batch and the outcome of each event."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold(AdvancedBoards):
    """Boards and the index as of the records applied so far. A `recorder` receives the blocks of
    boards that keep their changes.

    `entry` is the offset of the log entry whose records are being applied.
    """

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__(index)
        self.recorder = recorder
        self.entry = 0
        self.unfinished = Unfinished(index)
        self.hiding_ends = HidingEnds()
        self.deletions = Deletions()

    def apply(self, record: records.Record) -> bool:
        """Apply a record; return False if it removes a member that is not ranked, or shows one that
        is not hidden.

        Creating a board does not advance the time: a board may be created today for old events.
        """
        if isinstance(record, records.Create):
            self._create(record)
            return True
        if isinstance(record, records.Events):
            self.count(logged_batch(record))
            return True
        if isinstance(record, records.MendRanking):
            return self.mend(record) > 0
        if isinstance(record, records.HideOnAll | records.ShowOnAll):
            return self._change_everywhere(record)
        if isinstance(record, records.Confirm):
            self._confirm(record)
            return True
        if isinstance(record, records.COPIES) or record.board in self.unfinished.states:
            self._copy(record)
            return True
        if isinstance(record, records.DeletedPosition):
            self._move_deleted_position(record)
            return True
        state = self.by_number(record.board)
        self.move_time(state, record.now_ms)
        state.changes += 1
        match record:
            case records.Redefine():
                self._change(record)
            case records.Delete():
                self._delete(state, record)
            case records.Remove():
                scan = ScopeScan(record.board, record.member)
                while not scan.search_share(self.index):
                    pass
                return self.remove(record, scan.scopes)
            case records.MemberData():
                self.index.set_data(record.board, record.member, record.data)
                self.refreshes.changed(state, self.entry)
                self._record(state, write_block(record, "data", record.member, record.data))
            case records.Refresh():
                self._refresh(record)
            case records.Close():
                self.closings.close(state, record)
                self._record(state, close_block(state.rules, record))
            case records.Seal():
                self.closings.seal(state, record)
                self._publish(state, record)
                self._drop_expired(state)
                self._set_scopes_stale(state)
                self._record(state, seal_block(state.rules, record))
                self._remove_if_gone(state)
            case records.Disqualify():
                if self.closings.revise(state, record):
                    self._publish(state, record)
                self._record(state, disqualify_block(state.rules, record))
            case records.Position():
                self._set_position(record.board, record.position)
                self._record(state, position_block(record))
            case records.Hide():
                self._hide(state, record)
            case records.Show():
                return self._show(state, record)
        return True

    def remove(self, record: records.Remove, scopes: Collection[str]) -> bool:
        """Remove a member from the ranking of all events and from the rankings of `scopes`; return
        whether it was in any.

        `scopes` must have all scopes in which the member can be.
        """
        state = self.by_number(record.board)
        self.advance(state)
        self.advance_scopes(state, scopes)
        self.refreshes.changed(state, self.entry)
        has_data = self.index.data(record.board, [record.member.decode()]) != [None]
        was_ranked = self.index.remove(record.board, record.member, scopes)
        state.hidden.counted([record.member])
        if was_ranked or has_data:
            self._record(state, write_block(record, "remove", record.member))
        return was_ranked

    def mend(self, record: records.MendRanking) -> int:
        """Replace entries of a ranking; return how many members were changed. The period must be
        one that the board keeps."""
        state = self.by_number(record.board)
        self.move_time(state, record.now_ms)
        state.changes += 1
        self.advance(state)
        self.advance_scopes(state, [record.scope])
        key = RankingKey(record.board, record.window, record.instance, record.scope)
        done = self.index.mend(key, record)
        if state.closing:
            self.closings.mended(state, key)
        state.hidden.forget()
        if record.scope:
            self.index.set_generation(record.board, record.scope, state.generation)
        if any(done):
            self._record(state, mend_block(record).taken(done))
        return done.count(1)

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
                self._free_name(state.board.name, record.now_ms)
                self.register(state)
                self._opened(state)
                self.hiding_ends.watch(state.number, state.hidden.items())
                state.changes += 1
                self.now_ms = max(self.now_ms, state.now_ms)
                self._undelete(state.uid)
                if state.rules.changes_ms and self.recorder is not None:
                    self.recorder.restart(state)
                self._remove_gone()
            case records.Delete():
                self.unfinished.give_up(record.board)

    # Events

    def count(self, batch: Batch, plan: Plan | None = None, watch: int | None = None) -> Folded:
        """Count a batch. `watch` is the index of the ranking spec whose scores are reported."""
        state = self.by_number(batch.board)
        self.advance_to(state, batch.now_ms)
        plan = plan or self.plan(batch)
        scopes = plan.scopes if state.rules.scoped else ()
        if scopes:
            self.advance_scopes(state, scopes)
        outcomes = self.index.apply(batch, plan, watch)
        for scope in scopes:
            if scope and self.index.generation(batch.board, scope) != state.generation:
                self.index.set_generation(batch.board, scope, state.generation)
        if state.rules.refreshed:
            self.refreshes.counted(state, plan, outcomes)
        if state.rules.closing and outcomes.counted:
            self.closings.counted(state, plan)
        state.changes += 1
        if state.hidden.exclusion is not None:
            state.hidden.counted(batch.member_list())
        position = None if batch.atomic and outcomes.refused else batch.position
        if position is not None:
            self._set_position(batch.board, position)
        if state.rules.changes_ms and (outcomes.counted or position is not None):
            self._record_counted(state, batch, plan, outcomes)
        return Folded(batch, plan, outcomes)

    def _record_counted(
        self, state: BoardState, batch: Batch, plan: Plan, outcomes: Outcomes
    ) -> None:
        """Record the changes of a batch."""
        state.sequence, state.tag = state.sequence + 1, batch.tag
        if self.recorder is not None:
            block = CountedBatch(state.rules, state.sequence, batch, plan, outcomes)
            self.recorder.record(state, block)

    def _record(self, state: BoardState, block: WriteBlock | MendBlock) -> None:
        """Record the changes of a write other than events, if the board keeps changes."""
        if not state.rules.changes_ms:
            return
        state.sequence, state.tag = state.sequence + 1, block.tag
        if self.recorder is not None:
            self.recorder.record(state, replace(block, sequence=state.sequence))

    def _refresh(self, record: records.Refresh) -> None:
        """Refresh a window.

        If the new rankings of all scopes are built, each scope switches to its new ranking when it
        is next advanced. Otherwise all scopes are advanced first, and then refreshed here.
        """
        state = self.by_number(record.board)
        self.advance(state)
        if self.refreshes.is_built(state, record.window):
            self._set_scopes_stale(state)
        else:
            while state.number in self._stale_from:
                self._advance_stale(state, SCOPES)
        self.refreshes.refreshed(state, record.window, record.now_ms, self.entry)
        state.hidden.forget()

    # Hidden members

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

    # Payouts

    def _publish(self, state: BoardState, record: records.Seal | records.Disqualify) -> None:
        """Make the payouts of a period's revision visible."""
        if self.payouts is not None:
            self.payouts.publish(
                state.uid, record.window, record.instance, record.revision, record.now_ms
            )

    def _confirm(self, record: records.Confirm) -> None:
        """Record that a payout was paid. Its board may no longer exist."""
        if self.payouts is not None:
            self.payouts.confirm(record.payout, record.reference, record.now_ms)
        if (state := self.find_by_number(record.board)) is not None:
            self.move_time(state, record.now_ms)
            state.changes += 1
            self._record(state, confirm_block(record))

    def _set_position(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self.by_number(board).positions[source] = text
        self.index.touch(board)

    # Snapshots

    def describe(self, number: int) -> bytes | None:
        """Return the part of a board's state that is not in the index, encoded as bytes; None if
        there is no such board."""
        if (state := self.unfinished.states.get(number)) is not None:
            return encode(record_of(state, state.now_ms, unfinished=True))
        if (state := self._by_number.get(number)) is None:
            return None
        return encode(record_of(state, self.time_of(state)))

    def head(self) -> Head:
        """Return the offset, the time, the next board number, the members that are hidden on all
        boards, and the deleted boards of this fold."""
        hidden = list(self.everywhere.items())
        deleted = [deletion.record() for deletion in self.deletions]
        return Head(self.offset, self.now_ms, self.next_number, hidden, deleted)

    def restore(self, head: Head, boards: Iterable[tuple[int, bytes]]) -> None:
        """Restore the state that `head` and `describe` of another fold returned. This fold has to
        be empty."""
        for member, hiding in head.hidden:
            self.everywhere.hide(member, hiding)
        self.hiding_ends.watch(EVERYWHERE, head.hidden)
        for _, described in boards:
            record = board_record(described)
            board = Board.from_json(record.definition)
            state = new_state(board, record.number, record.version, record.created_ms, record.uid)
            state.sequence, state.tag = record.sequence, record.tag
            state.floors = record.floors
            state.positions = record.positions
            state.due_ms = record.due_ms
            state.now_ms = head.now_ms if record.now_ms is None else record.now_ms
            state.refreshed = record.refreshed
            state.closing = record.closing
            state.hidden = HiddenMembers(dict(record.hidden))
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

    def open(
        self, board: Board, number: int, version: int, created_ms: int, uid: str = ""
    ) -> BoardState:
        """Register a board, and open it in the index."""
        state = super().open(board, number, version, created_ms, uid)
        self.index.open_board(number, state.rules)
        return state

    def _create(self, record: records.Create) -> None:
        board = Board.from_json(record.definition)
        self._free_name(board.name, record.now_ms)
        state = self.open(board, record.board, record.version, record.now_ms, record.uid)
        self.next_number = record.board + 1
        self.closings.created(state)
        self._watch_boundary(state)
        self._record(state, write_block(record, "create", None, record.definition))
        for member, hiding in self.everywhere.items() if state.rules.changes_ms else ():
            self._record(state, write_block(record, "hide", member, encode_hiding(hiding)))

    def _change(self, record: records.Redefine) -> None:
        state = self.by_number(record.board)
        self.advance(state)
        kept_changes, ends_ms = state.rules.changes_ms > 0, state.rules.ends_ms
        closing, definition = state.rules.closing, state.board.to_json()
        redefine(state, Board.from_json(record.definition), record.version, self.time_of(state))
        self.watch_removal(state)
        self.index.open_board(record.board, state.rules)
        # Rolling and refreshed windows stop at the end of the board. With a later end they
        # continue.
        if state.rules.ends_ms != ends_ms:
            self._advance_scope(state, ALL, None)
        self.closings.redefined(state, definition, closing)
        self._drop_expired(state)
        self._watch_boundary(state)
        self._set_scopes_stale(state)
        if state.rules.changes_ms and not kept_changes:
            # The changes of the time in which none were kept are missing. So a cursor at the end of
            # the earlier changes must not remain valid.
            state.sequence, state.tag = state.sequence + 1, record.tag
            if self.recorder is not None:
                self.recorder.restart(state)
        self._record(state, write_block(record, "change", None, record.definition))

    # Deleted boards

    def remove_board(self, number: int) -> None:
        """Remove a board with all its data and its changes."""
        super().remove_board(number)
        if self.recorder is not None:
            self.recorder.forget(number)

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
        """Delete a board."""
        if not record.tag or not state.rules.changes_ms:
            self.remove_board(state.number)
            return
        self._end(state, write_block(record, "delete"))

    def remove_unretained(self, state: BoardState) -> None:
        """Remove a board that is no longer retained. Nothing is logged for its removal."""
        rules = state.rules
        if not rules.changes_ms:
            self.remove_board(state.number)
            return
        self._end(state, WriteBlock(0, removal_tag(state), rules.gone_ms, "delete"))

    def _end(self, state: BoardState, block: WriteBlock) -> None:
        """Record the last change of a board, and remove everything else of the board."""
        self._record(state, block)
        super().remove_board(state.number)
        state.views, state.running = {}, None
        self._keep(Deletion(state, block.now_ms, block.now_ms + state.rules.changes_ms))
        self.forget_expired()

    def _undelete(self, uid: str) -> None:
        """Remove the changes of a deleted board that was copied into this store again."""
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
