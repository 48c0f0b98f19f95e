"""The fold: apply log records, one after another, to boards and rankings.

The state is a function of the log and the current time; this module is that function. A live commit
and recovery both call it with the same records, so they end in the same state. Everything that
depends on earlier events is decided here, in log order.

The effects of passing time are in `advancing.py`, those of hiding in `hiding_boards.py`, those of
erasing in `erasing_boards.py`, those of deleting a board in `recorded_boards.py`.
"""

from collections.abc import Collection

from msgspec import Struct

from laurels.core.changes.counted_batch import CountedBatch
from laurels.core.changes.payout_blocks import payout_block
from laurels.core.changes.record_blocks import (
    close_block,
    confirm_block,
    disqualify_block,
    encode_hiding,
    mend_block,
    position_block,
    seal_block,
    write_block,
)
from laurels.model.batch import Batch
from laurels.model.board import Board
from laurels.model.labels import ALL

from . import record as records
from .board_state import BoardState, redefine
from .event_columns import logged_batch
from .index import Outcomes
from .payouts import DuePlace, PayoutRow
from .plan import Plan
from .ranking_key import RankingKey
from .scope_scan import SCOPES, ScopeScan
from .whole_boards import WholeBoards


class Folded(Struct, frozen=True):
    """The result of counting a batch: the plan of the batch and the outcome of each event."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold(WholeBoards):
    """Boards and the index as of the records applied so far."""

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
        if isinstance(record, records.Erase | records.Erased):
            self._apply_erasure(record)
            return True
        if isinstance(record, records.Confirm):
            self._confirm(record)
            return True
        if isinstance(record, records.EmitPayouts):
            self._emit(record)
            return True
        if isinstance(record, records.COPIES) or record.board in self.unfinished.states:
            self._copy(record)
            return True
        if isinstance(record, records.Undelete):
            self._undelete(record)
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
            case records.Clear():
                self._clear(state, record)
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
                self.closings.seal(state, record, self.entry)
                self._publish(state, record)
                self._drop_expired(state)
                self._set_scopes_stale(state)
                self._record(state, seal_block(state.rules, record))
                self._remove_if_gone(state)
            case records.Disqualify():
                if self.closings.revise(state, record):
                    state.views.clear()
                    self._publish(state, record)
                self._record(state, disqualify_block(state.rules, record))
                self._remove_if_gone(state)
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

    def count(self, batch: Batch, plan: Plan | None = None, watch: int | None = None) -> Folded:
        """Count a batch. `watch` is the index of a ranking spec in the plan; the outcomes have the
        members' scores in its ranking."""
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
        self.take_up(state)
        state.sequence, state.tag = state.sequence + 1, batch.tag
        if self.recorder is not None:
            block = CountedBatch(state.rules, state.sequence, batch, plan, outcomes)
            self.recorder.record(state, block)

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
        self.take_up(state)
        self.refreshes.refreshed(state, record.window, record.now_ms, self.entry)
        state.hidden.forget()

    def _publish(self, state: BoardState, record: records.Seal | records.Disqualify) -> None:
        """Make the payouts of a period's revision visible."""
        if self.payouts is not None:
            self.payouts.publish(
                state.number,
                *(state.uid, record.window, record.instance, record.revision),
                record.now_ms,
                record.tag,
            )

    def _confirm(self, record: records.Confirm) -> None:
        """Record that a payout was paid. Its board may no longer exist."""
        if self.payouts is not None:
            self.payouts.confirm(record.payout, record.reference, record.now_ms)
        if (state := self.find_by_number(record.board)) is not None:
            self.move_time(state, record.now_ms)
            state.changes += 1
            self._record(state, confirm_block(record))
            self._remove_if_gone(state)

    def _emit(self, record: records.EmitPayouts) -> None:
        """Enter payouts in the list of due payouts. Boards that keep changes record them."""
        self.now_ms = max(self.now_ms, record.now_ms)
        after, until = DuePlace(*record.after), DuePlace(*record.until)
        emitted: dict[str, list[PayoutRow]] = {}
        if self.payouts is not None:
            self.payouts.emit(until)
            emitted = self.payouts.emitted(after, until) if record.counts else {}
        for number in record.counts:
            if (state := self.find_by_number(number)) is not None:
                self.move_time(state, record.now_ms)
                state.changes += 1
                self._record(state, payout_block(record, emitted.get(state.uid, ())))

    def _set_position(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self.by_number(board).positions[source] = text
        self.index.touch(board)

    def _create(self, record: records.Create) -> None:
        board = Board.from_json(record.definition)
        self._free_name(board.name, record.now_ms)
        state = self.open(board, record.board, record.version, record.now_ms, record.uid)
        self.next_number = record.board + 1
        self.closings.created(state)
        self._watch_boundary(state)
        self._record(state, write_block(record, "create", None, record.definition))
        for member, hiding in self.everywhere.items() if state.rules.changes_ms else ():
            if not hiding.is_over(record.now_ms):
                self._record(state, write_block(record, "hide", member, encode_hiding(hiding)))

    def _change(self, record: records.Redefine) -> None:
        state = self.by_number(record.board)
        self.advance(state)
        self.take_up(state)
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
        self._remove_if_gone(state)
