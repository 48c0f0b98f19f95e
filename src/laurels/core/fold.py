"""The fold: apply log records, one after another, to boards and rankings.

The state is a function of (log, now), and this is that function. A live commit and recovery both
call it with the same records, so they end in the same state. Everything that depends on earlier
events is decided here, in log order.

The time of a board is that of its newest record, or that of a running clock (`advance_clock`,
O(1)). In event time no clock runs, so each board has its own time. A board is *advanced* to its
current time when it is read or written, and `work` advances the other boards, in bounded shares.
Advancing a board drops the rankings of periods that are no longer kept and rotates rolling windows
to the running step. Each step needs a pass over the members of two tallies; it is made in shares
ahead of the boundary, and the first caller after the boundary does what is left.
"""

import heapq
from collections.abc import Collection, Iterable
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.changes.blocks import (
    ChangeRecorder,
    CountedBatch,
    MendBlock,
    WriteBlock,
    mend_block,
    position_block,
    write_block,
)
from laurels.model.board import Board
from laurels.model.event import Batch
from laurels.model.labels import ALL
from laurels.timeline.instants import MAX_MS, MIN_MS

from . import record as records
from .adoption import Unfinished
from .board_record import Head, board_record, encode
from .board_state import Boards, BoardState, new_state, record_of, redefine
from .index import Index, Outcomes
from .lifecycle import expired, next_boundary, oldest_stored, rolling_state
from .plan import Plan
from .ranking_key import RankingKey
from .refreshes import Refreshes
from .requests import Listing

BOUNDARY_WORK = 50
"""The cost of advancing a board over a boundary, in members of a pass."""
SCOPE_WORK = 10
"""The cost of advancing a scope, in members of a pass."""
_SCOPES = 1_000
_STALE = 1_000


class ScopeScan:
    """A search, in shares, for the scopes of a board in which a member is ranked; `scopes` has
    those found so far."""

    def __init__(self, board: int, member: bytes) -> None:
        self.scopes: list[str] = []
        self._board = board
        self._member = member
        self._place: tuple[str, str] | None = None

    def search_share(self, index: Index) -> bool:
        """Search a share of the scopes; return whether it was the last."""
        places = index.next_scopes(self._board, self._place, _SCOPES)
        self.scopes += index.scopes_with_member(
            self._board, self._member, [scope for _, scope in places]
        )
        if places:
            self._place = places[-1]
        return len(places) < _SCOPES


class Folded(Struct, frozen=True):
    """The result of counting a batch: its plan and the outcome of each event."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold(Boards):
    """Boards and the index as of the records applied so far. A `recorder` gets the blocks of boards
    that keep their changes.

    `entry` is the offset of the log entry whose records are being applied. `now_ms` is the newest
    time of any record and of the clock, `clock_ms` that of the clock alone.
    """

    def __init__(self, index: Index, recorder: ChangeRecorder | None = None) -> None:
        super().__init__()
        self.index = index
        self.recorder = recorder
        self.now_ms = MIN_MS
        self.clock_ms = MIN_MS
        self.entry = 0
        self.unfinished = Unfinished(index)
        self.refreshes = Refreshes(
            index, self.find_by_number, self.time_of, self.advance, self.advance_scopes
        )
        self._due: list[tuple[int, int]] = []
        self._passes: dict[tuple[int, str, str], None] = {}
        self._advancing = False
        self._stale_from: dict[int, tuple[str, str] | None] = {}

    def apply(self, record: records.Record) -> bool:
        """Apply a record; return False if it removes a member that is not ranked.

        Creating a board does not advance the time: a board may be created today for old events.
        """
        if isinstance(record, records.Create):
            self._create(record)
            return True
        if isinstance(record, records.Events):
            self.count(records.batch_of(record))
            return True
        if isinstance(record, records.MendRanking):
            return self.mend(record) > 0
        if isinstance(record, records.COPIES) or record.board in self.unfinished.states:
            self._copy(record)
            return True
        state = self.by_number(record.board)
        self.move_time(state, record.now_ms)
        state.changes += 1
        match record:
            case records.Redefine():
                self._change(record)
            case records.Delete():
                self._delete(record)
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
            case records.Position():
                self._set_position(record.board, record.position)
                self._record(state, position_block(record))
        return True

    def remove(self, record: records.Remove, scopes: Collection[str]) -> bool:
        """Remove a member from the ranking of all events and from those of `scopes`, which are the
        only ones it can be in; return whether it was in any."""
        state = self.by_number(record.board)
        self.advance(state)
        self.advance_scopes(state, scopes)
        self.refreshes.changed(state, self.entry)
        has_data = self.index.data(record.board, [record.member.decode()]) != [None]
        was_ranked = self.index.remove(record.board, record.member, scopes)
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
                self.register(state)
                self._opened(state)
                state.changes += 1
                self.now_ms = max(self.now_ms, state.now_ms)
                if state.rules.changes_ms and self.recorder is not None:
                    self.recorder.restart(state)
            case records.Delete():
                self.unfinished.give_up(record.board)

    # Time

    def advance_clock(self, now_ms: int) -> None:
        """Move the time of all boards forward. O(1): each board follows when it is advanced."""
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms
            if now_ms > self.now_ms:
                self.now_ms = now_ms

    def move_time(self, state: BoardState, now_ms: int) -> None:
        """Move the time of one board forward."""
        if now_ms > state.now_ms:
            state.now_ms = now_ms
            if now_ms > self.now_ms:
                self.now_ms = now_ms

    def time_of(self, state: BoardState) -> int:
        """Return the current time of a board."""
        return state.now_ms if state.now_ms > self.clock_ms else self.clock_ms

    def advance(self, state: BoardState, limit: int | None = None) -> bool:
        """Advance a board to its current time. Return False if `limit` members of a pass were not
        enough; another call continues. O(1) unless a boundary has passed.

        Also returns False to a signal handler that has interrupted this method in its own thread.
        """
        if state.due_ms > state.now_ms and state.due_ms > self.clock_ms:
            return True
        if self._advancing:
            return False
        self._advancing = True
        try:
            return self._advance(state, limit)
        finally:
            self._advancing = False

    def advance_to(self, state: BoardState, now_ms: int) -> None:
        """Move the time of a board forward, and advance the board."""
        self.move_time(state, now_ms)
        self.advance(state)

    def advance_number(self, number: int, scopes: Collection[str], limit: int) -> bool:
        """Advance a board and some of its scopes, unless it was deleted; limit and result as in
        `advance`."""
        state = self.find_by_number(number)
        if state is None or not self.advance(state, limit):
            return state is None
        return not scopes or self.advance_scopes(state, scopes, limit)

    def _advance(self, state: BoardState, limit: int | None) -> bool:
        if not self._advance_scope(state, ALL, limit):
            return False
        self._watch_boundary(state)
        self._set_scopes_stale(state)
        return True

    def _set_scopes_stale(self, state: BoardState) -> None:
        """Mark all scopes of a board as stale, so that `work` or the first caller to use one
        advances it."""
        state.generation += 1
        if state.rules.scoped:
            self._stale_from[state.number] = None

    def _advance_scope(self, state: BoardState, scope: str, limit: int | None) -> bool:
        """Rotate the rolling windows of a scope and drop the periods it no longer keeps."""
        for window in state.rules.windows.values():
            roll = rolling_state(state.number, window, self.time_of(state), scope)
            if roll is not None:
                if not self.index.rotate_step(roll, limit):
                    return False
                if not scope or self.index.pass_left(state.number, window.name, scope):
                    self._passes[state.number, window.name, scope] = None
        self._drop_expired(state, scope)
        return True

    def advance_scopes(
        self, state: BoardState, scopes: Iterable[str], limit: int | None = None
    ) -> bool:
        """Advance scopes of a board that has been advanced itself; limit and result as in
        `advance`. O(1) for a scope that is not stale."""
        for scope in scopes:
            if scope and self.index.generation(state.number, scope) != state.generation:
                if self._advancing:
                    return False
                self._advancing = True
                try:
                    if not self._advance_scope(state, scope, limit):
                        return False
                    self.index.set_generation(state.number, scope, state.generation)
                finally:
                    self._advancing = False
        return True

    def advance_listed(self, state: BoardState, listing: Listing, limit: int) -> bool:
        """Advance the scopes of a listing; limit and result as in `advance`. A scope that turns out
        to be empty is removed, and the next one takes its place in the listing."""
        while True:
            found = self.index.scopes(state.number, listing.form, listing.after, listing.limit)
            stale = [s for s in found if self.index.generation(state.number, s) != state.generation]
            if not stale:
                return True
            if not self.advance_scopes(state, stale[:limit], limit) or len(stale) > limit:
                return False

    def advance_all(self) -> None:
        """Advance every board with all its scopes."""
        for state in self._by_number.values():
            self.advance_whole(state)

    def advance_whole(self, state: BoardState) -> None:
        """Advance a board with all its scopes."""
        self.advance(state)
        while state.number in self._stale_from:
            self._advance_stale(state, _SCOPES)

    def _advance_stale(self, state: BoardState, limit: int) -> int:
        """Advance the next stale scopes of a board until their cost reaches `limit`; return the
        cost."""
        count = max(1, limit // SCOPE_WORK)
        found = self.index.next_scopes(state.number, self._stale_from[state.number], count)
        for place in found:
            if not self.advance_scopes(state, [place[1]], max(limit, SCOPE_WORK)):
                return limit
            self._stale_from[state.number] = place
        if len(found) < count:
            del self._stale_from[state.number]
        return SCOPE_WORK * (1 + len(found))

    def work(self, limit: int) -> int:
        """Do about `limit` members of the work that is due: passes for the next boundary, and
        advancing boards that were not read or written since the last one. Return what is left."""
        while limit > 0 and self._due and self._due[0][0] <= self.clock_ms:
            limit -= self._advance_first(limit)
        for number in list(self._stale_from):
            while limit > 0 and number in self._stale_from:
                limit -= self._advance_stale(self._by_number[number], limit)
        limit = self.refreshes.work(limit)
        for each in list(islice(self._passes, _SCOPES)):
            if limit <= 0:
                break
            number, window, scope = each
            before = self.index.pass_left(number, window, scope)
            left = self.index.advance_pass(number, window, limit, scope)
            limit -= before - left
            if not left:
                del self._passes[each]
        return self.work_left()

    @property
    def has_work(self) -> bool:
        """Whether any work is due."""
        return bool(
            self._passes
            or self._stale_from
            or self.refreshes.builds
            or (self._due and self._due[0][0] <= self.clock_ms)
        )

    @property
    def next_due_ms(self) -> int:
        """The next known end of a period or step of any board. It has no meaning in event
        time, where the writes to a board advance it."""
        return self._due[0][0] if self._due else MAX_MS

    def work_left(self) -> int:
        """Return about how many members the current passes have left, over all boards; 0 if
        none."""
        some = sum(self.index.pass_left(*each) for each in islice(self._passes, _SCOPES))
        more = max(0, len(self._passes) - _SCOPES) + self.refreshes.left()
        return some + len(self._stale_from) + more

    def _advance_first(self, limit: int) -> int:
        """Advance the board that was due first; return the cost."""
        if self._is_stale(self._due[0]):
            heapq.heappop(self._due)
            return 1
        state = self._by_number[self._due[0][1]]
        return BOUNDARY_WORK if self.advance(state, limit) else limit

    # Events

    def count(self, batch: Batch, plan: Plan | None = None, watch: int | None = None) -> Folded:
        """Count a batch; `watch` is the index of the ranking spec whose scores are reported."""
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
        state.changes += 1
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
        """Refresh a window. If its build is complete, each scope follows the next time it is
        advanced; otherwise all scopes are advanced first."""
        state = self.by_number(record.board)
        self.advance(state)
        if self.refreshes.is_built(state, record.window):
            self._set_scopes_stale(state)
        else:
            while state.number in self._stale_from:
                self._advance_stale(state, _SCOPES)
        self.refreshes.refreshed(state, record.window, record.now_ms, self.entry)

    def _set_position(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self.by_number(board).positions[source] = text
        self.index.touch(board)

    # Snapshots

    def describe(self, number: int) -> bytes | None:
        """Return the part of a board's state that is not in the index, encoded; None if there is no
        such board."""
        if (state := self.unfinished.states.get(number)) is not None:
            return encode(record_of(state, state.now_ms, unfinished=True))
        if (state := self._by_number.get(number)) is None:
            return None
        return encode(record_of(state, self.time_of(state)))

    def head(self) -> Head:
        """Return the offset, the time and the next board number of this fold."""
        return Head(self.offset, self.now_ms, self.next_number)

    def restore(self, head: Head, boards: Iterable[tuple[int, bytes]]) -> None:
        """Restore the state that another fold returned by `head` and `describe`; this fold has to
        be empty."""
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
            if record.unfinished:
                self.unfinished.open(state)
                continue
            self.register(state)
            self.index.open_board(state.number, state.rules)
            self._opened(state)
        self.offset = head.offset
        self.now_ms = head.now_ms
        self.next_number = head.next_number

    def _opened(self, state: BoardState) -> None:
        """Watch the refreshes and the next boundary of a board that is not new."""
        self.refreshes.watch(state)
        heapq.heappush(self._due, (state.due_ms, state.number))

    def resume_passes(self) -> None:
        """Resume the passes of all rolling windows in a restored index."""
        for state in self._by_number.values():
            for window in state.rules.windows:
                if self.index.pass_left(state.number, window):
                    self._passes[state.number, window, ALL] = None
            self._set_scopes_stale(state)

    def open(
        self, board: Board, number: int, version: int, created_ms: int, uid: str = ""
    ) -> BoardState:
        """Register a board, also in the index."""
        state = super().open(board, number, version, created_ms, uid)
        self.index.open_board(number, state.rules)
        return state

    def _create(self, record: records.Create) -> None:
        board = Board.from_json(record.definition)
        state = self.open(board, record.board, record.version, record.now_ms, record.uid)
        self.next_number = record.board + 1
        self._watch_boundary(state)
        self._record(state, write_block(record, "create", None, record.definition))

    def _change(self, record: records.Redefine) -> None:
        state = self.by_number(record.board)
        self.advance(state)
        kept_changes = state.rules.changes_ms > 0
        redefine(state, Board.from_json(record.definition), record.version, self.time_of(state))
        self.index.open_board(record.board, state.rules)
        self._drop_expired(state)
        self._watch_boundary(state)
        self._set_scopes_stale(state)
        if state.rules.changes_ms and not kept_changes:
            # A reader that was at the end must not continue as if nothing had happened since.
            state.sequence, state.tag = state.sequence + 1, record.tag
            if self.recorder is not None:
                self.recorder.restart(state)
        self._record(state, write_block(record, "change", None, record.definition))

    def _delete(self, record: records.Delete) -> None:
        self.forget(record.board)
        self.index.close_board(record.board)
        self._stale_from.pop(record.board, None)
        self.refreshes.forget(record.board)
        if self.recorder is not None:
            self.recorder.forget(record.board)
        for each in [each for each in self._passes if each[0] == record.board]:
            del self._passes[each]

    def _drop_expired(self, state: BoardState, scope: str = ALL) -> None:
        oldest_ms = oldest_stored(state.rules, state.floors, self.time_of(state))
        keys = self.index.keys(state.number, scope)
        self.index.drop(expired(oldest_ms, keys))

    def _watch_boundary(self, state: BoardState) -> None:
        due_ms = next_boundary(state.rules, self.time_of(state))
        if due_ms != state.due_ms:
            state.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, state.number))
        while self._is_stale(self._due[0]):
            heapq.heappop(self._due)
        if len(self._due) > _STALE + 2 * len(self._by_number):
            # In event time the entry of a board without new events stays first for a long time, and
            # stale entries of other boards pile up behind it.
            self._due = [due for due in self._due if not self._is_stale(due)]
            heapq.heapify(self._due)

    def _is_stale(self, due: tuple[int, int]) -> bool:
        state = self._by_number.get(due[1])
        return state is None or state.due_ms != due[0]
