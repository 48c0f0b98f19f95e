"""The fold: log records, one after another, into boards and rankings.

What stands is a function of (log, now), and this is the function. A live commit and recovery
both come through here with the same records, so they cannot end differently. Whatever depends
on earlier events is decided here, in log order.

The time of a board is that of its newest record, or that of a clock where one runs on (`advance`,
which costs nothing); in event time none does, so boards do not share a time. A board is *brought*
to its present when something is asked of it or written to it, and `work` does a bounded share for
the boards that nobody touches.
Bringing a board drops the rankings of periods that are no longer kept and turns rolling windows to
the step that runs. Between two steps there is a pass to do, over the members of two tallies; it is
done in shares ahead of the boundary, and whoever comes first after it does what is left.
"""

import heapq
from collections.abc import Collection, Iterable
from itertools import islice

from msgspec import Struct

from laurels.model.board import Board
from laurels.model.event import Batch
from laurels.model.labels import ALL
from laurels.timeline.instants import MAX_MS, MIN_MS

from . import record as records
from .board_record import Head, board_record, encode
from .board_state import Boards, BoardState, record_of, redefine
from .index import Index, Outcomes
from .lifecycle import Refreshes
from .plan import Plan, next_boundary, oldest_stored, roll_of
from .requests import Listing

BOUNDARY_WORK = 50
"""What bringing a board over a boundary costs, in members of a pass."""
SCOPE_WORK = 10
"""The same of a scope."""
_SCOPES = 1_000
_STALE = 1_000


class ScopeScan:
    """The scopes of a board in which a member is ranked, looked for in shares; `found` are those
    so far."""

    def __init__(self, board: int, member: bytes) -> None:
        self.found: list[str] = []
        self._board = board
        self._member = member
        self._place: tuple[str, str] | None = None

    def go_on(self, index: Index) -> bool:
        """Looks through a share of the scopes; whether that were all."""
        places = index.next_scopes(self._board, self._place, _SCOPES)
        self.found += index.holding(self._board, self._member, [scope for _, scope in places])
        if places:
            self._place = places[-1]
        return len(places) < _SCOPES


class Folded(Struct, frozen=True):
    """What a batch did: where its events went and what became of them."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold(Boards):
    """Boards and the index, as of the records applied so far; `entry` is the offset of the entry of
    the log whose records are being applied. `now_ms` is the newest time of any record and of the
    clock, `clock_ms` that of the clock alone."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index
        self.now_ms = MIN_MS
        self.clock_ms = MIN_MS
        self.entry = 0
        self.refreshes = Refreshes(
            index, self.numbered, self.time_of, self.bring, self.bring_scopes
        )
        self._due: list[tuple[int, int]] = []
        self._passes: dict[tuple[int, str, str], None] = {}
        self._bringing = False
        self._behind: dict[int, tuple[str, str] | None] = {}

    def apply(self, record: records.Record) -> bool:
        """Applies a record; False when it removes a member that is not ranked.

        Creating a board does not move time: a board may be made today for the events of old.
        """
        if isinstance(record, records.Create):
            self._create(record)
            return True
        if isinstance(record, records.Events):
            self.count(records.batch_of(record))
            return True
        state = self.by_number(record.board)
        self.see(state, record.now_ms)
        state.changes += 1
        match record:
            case records.Change():
                self._change(record)
            case records.Delete():
                self._delete(record)
            case records.Remove():
                survey = ScopeScan(record.board, record.member)
                while not survey.go_on(self.index):
                    pass
                return self.remove(record, survey.found)
            case records.MemberData():
                self.index.set_data(record.board, record.member, record.data)
                self.refreshes.changed(state, self.entry)
            case records.Refresh():
                self._refresh(record)
            case records.Position():
                self._note(record.board, record.position)
        return True

    def remove(self, record: records.Remove, scopes: Collection[str]) -> bool:
        """Takes a member out, who is ranked in these scopes at most, and among all; whether it was
        anywhere."""
        state = self.by_number(record.board)
        self.bring(state)
        self.bring_scopes(state, scopes)
        self.refreshes.changed(state, self.entry)
        return self.index.remove(record.board, record.member, scopes)

    # Time

    def advance(self, now_ms: int) -> None:
        """Brings the time of all boards forward. O(1): they follow when they are brought."""
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms
            if now_ms > self.now_ms:
                self.now_ms = now_ms

    def see(self, state: BoardState, now_ms: int) -> None:
        """Brings the time of one board forward."""
        if now_ms > state.now_ms:
            state.now_ms = now_ms
            if now_ms > self.now_ms:
                self.now_ms = now_ms

    def time_of(self, state: BoardState) -> int:
        """What time it is on a board."""
        return state.now_ms if state.now_ms > self.clock_ms else self.clock_ms

    def bring(self, state: BoardState, limit: int | None = None) -> bool:
        """Brings a board to the present; False when `limit` members of a pass were not enough,
        and then another call goes on. O(1) unless a boundary has passed.

        A signal handler that asks while its own thread is at it gets False as well.
        """
        if state.due_ms > self.time_of(state):
            return True
        if self._bringing:
            return False
        self._bringing = True
        try:
            return self._bring(state, limit)
        finally:
            self._bringing = False

    def _bring(self, state: BoardState, limit: int | None) -> bool:
        if not self._bring_part(state, ALL, limit):
            return False
        self._watch_boundary(state)
        self._leave_behind(state)
        return True

    def _leave_behind(self, state: BoardState) -> None:
        """Has all scopes of a board brought, whoever comes to them first."""
        state.mark += 1
        if state.rules.scoped:
            self._behind[state.number] = None

    def _bring_part(self, state: BoardState, scope: str, limit: int | None) -> bool:
        """Turns the rolling windows of a scope, and drops what it no longer keeps."""
        for window in state.rules.windows.values():
            roll = roll_of(state.number, window, self.time_of(state), scope)
            if roll is not None:
                if not self.index.turn(roll, limit):
                    return False
                if not scope or self.index.pass_left(state.number, window.name, scope):
                    self._passes[state.number, window.name, scope] = None
        self._drop_expired(state, scope)
        return True

    def bring_scopes(
        self, state: BoardState, scopes: Iterable[str], limit: int | None = None
    ) -> bool:
        """Brings scopes of a board, which has been brought, to the present; as `bring`. O(1) for a
        scope that is there."""
        for scope in scopes:
            if scope and self.index.mark(state.number, scope) != state.mark:
                if self._bringing:
                    return False
                self._bringing = True
                try:
                    if not self._bring_part(state, scope, limit):
                        return False
                    self.index.brought(state.number, scope, state.mark)
                finally:
                    self._bringing = False
        return True

    def bring_listed(self, state: BoardState, listing: Listing, limit: int) -> bool:
        """Brings the scopes of a listing; as `bring`. Those that hold nobody any more go then, and
        others come in their place."""
        while True:
            found = self.index.scopes(state.number, listing.form, listing.after, listing.limit)
            behind = [s for s in found if self.index.mark(state.number, s) != state.mark]
            if not behind:
                return True
            if not self.bring_scopes(state, behind[:limit], limit) or len(behind) > limit:
                return False

    def bring_all(self) -> None:
        """Brings every board to the present, with all scopes."""
        for state in self._by_number.values():
            self.bring(state)
            while state.number in self._behind:
                self._bring_behind(state, _SCOPES)

    def _bring_behind(self, state: BoardState, limit: int) -> int:
        """Brings the next scopes of a board whose boundary has passed, about as many as cost the
        limit; what that cost."""
        asked = max(1, limit // SCOPE_WORK)
        found = self.index.next_scopes(state.number, self._behind[state.number], asked)
        for place in found:
            if not self.bring_scopes(state, [place[1]], max(limit, SCOPE_WORK)):
                return limit
            self._behind[state.number] = place
        if len(found) < asked:
            del self._behind[state.number]
        return SCOPE_WORK * (1 + len(found))

    def work(self, limit: int) -> int:
        """Does a share, of about `limit` members, of what time has made due: passes ahead of the
        next boundary, and boards nobody has asked for since the last. Answers what is left."""
        while limit > 0 and self._due and self._due[0][0] <= self.clock_ms:
            limit -= self._bring_first(limit)
        for number in list(self._behind):
            while limit > 0 and number in self._behind:
                limit -= self._bring_behind(self._by_number[number], limit)
        limit = self.refreshes.work(limit)
        for each in list(islice(self._passes, _SCOPES)):
            if limit <= 0:
                break
            number, window, scope = each
            before = self.index.pass_left(number, window, scope)
            left = self.index.advance(number, window, limit, scope)
            limit -= before - left
            if not left:
                del self._passes[each]
        return self.work_left()

    @property
    def next_due_ms(self) -> int:
        """When the next period or step of any board ends, as far as is known; of no use where no
        clock runs on, and boards are brought by what is written to them."""
        return self._due[0][0] if self._due else MAX_MS

    def work_left(self) -> int:
        """About how many members the passes under way have left, over all boards; 0 when nothing is
        left to do."""
        some = sum(self.index.pass_left(*each) for each in islice(self._passes, _SCOPES))
        more = max(0, len(self._passes) - _SCOPES) + self.refreshes.left()
        return some + len(self._behind) + more

    def _bring_first(self, limit: int) -> int:
        """Brings the board that was due first; what that cost."""
        if self._is_stale(self._due[0]):
            heapq.heappop(self._due)
            return 1
        state = self._by_number[self._due[0][1]]
        return BOUNDARY_WORK if self.bring(state, limit) else limit

    # Events

    def count(self, batch: Batch, plan: Plan | None = None, watch: int | None = None) -> Folded:
        """Counts a batch; `watch` is the place of the window whose scores are reported."""
        state = self.by_number(batch.board)
        self.see(state, batch.now_ms)
        self.bring(state)
        plan = plan or self.plan(batch)
        self.bring_scopes(state, plan.scopes)
        outcomes = self.index.apply(batch, plan, watch)
        for scope in plan.scopes if state.rules.scoped else ():
            if scope and self.index.mark(batch.board, scope) != state.mark:
                self.index.brought(batch.board, scope, state.mark)
        self.refreshes.counted(state, plan, outcomes)
        state.changes += 1
        if batch.position is not None and not (batch.atomic and outcomes.refused):
            self._note(batch.board, batch.position)
        return Folded(batch, plan, outcomes)

    def _refresh(self, record: records.Refresh) -> None:
        """Refreshes a window. Where its build is complete, all scopes are in the present, and
        follow when they are brought again."""
        state = self.by_number(record.board)
        self.bring(state)
        if self.refreshes.is_built(state, record.window):
            self._leave_behind(state)
        else:
            while state.number in self._behind:
                self._bring_behind(state, _SCOPES)
        self.refreshes.refreshed(state, record.window, record.now_ms, self.entry)

    def _note(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self.by_number(board).positions[source] = text
        self.index.touch(board)

    # Snapshots

    def describe(self, number: int) -> bytes | None:
        """What is known of a board besides the index, as bytes; None when there is none."""
        if (state := self._by_number.get(number)) is None:
            return None
        return encode(record_of(state, self.time_of(state)))

    def head(self) -> Head:
        """Where this fold stands."""
        return Head(self.offset, self.now_ms, self.next_number)

    def restore(self, head: Head, boards: Iterable[tuple[int, bytes]]) -> None:
        """Takes in what `head` and `describe` told of another fold; this one is empty."""
        for _, described in boards:
            record = board_record(described)
            board = Board.from_json(record.definition)
            state = self.open(board, record.number, record.version, record.created_ms)
            state.floors = record.floors
            state.positions = record.positions
            state.due_ms = record.due_ms
            state.now_ms = head.now_ms if record.now_ms is None else record.now_ms
            state.refreshed = record.refreshed
            self.refreshes.watch(state)
            heapq.heappush(self._due, (state.due_ms, state.number))
        self.offset = head.offset
        self.now_ms = head.now_ms
        self.next_number = head.next_number

    def resume_passes(self) -> None:
        """Has the passes of all rolling windows go on, in an index that was restored."""
        for state in self._by_number.values():
            for window in state.rules.windows:
                if self.index.pass_left(state.number, window):
                    self._passes[state.number, window, ALL] = None
            self._leave_behind(state)

    def open(self, board: Board, number: int, version: int, created_ms: int) -> BoardState:
        """Makes a board known, to the index too."""
        state = super().open(board, number, version, created_ms)
        self.index.open_board(number, state.rules)
        return state

    def _create(self, record: records.Create) -> None:
        board = Board.from_json(record.definition)
        state = self.open(board, record.board, record.version, record.now_ms)
        self.next_number = record.board + 1
        self._watch_boundary(state)

    def _change(self, record: records.Change) -> None:
        state = self.by_number(record.board)
        self.bring(state)
        redefine(state, Board.from_json(record.definition), record.version, self.time_of(state))
        self.index.open_board(record.board, state.rules)
        self._drop_expired(state)
        self._watch_boundary(state)
        self._leave_behind(state)

    def _delete(self, record: records.Delete) -> None:
        self.forget(record.board)
        self.index.close_board(record.board)
        self._behind.pop(record.board, None)
        self.refreshes.forget(record.board)
        for each in [each for each in self._passes if each[0] == record.board]:
            del self._passes[each]

    def _drop_expired(self, state: BoardState, scope: str = ALL) -> None:
        oldest_ms = oldest_stored(state.rules, state.floors, self.time_of(state))
        keys = self.index.keys(state.number, scope)
        self.index.drop([k for k in keys if k.instance < oldest_ms.get(k.window, k.instance)])

    def _watch_boundary(self, state: BoardState) -> None:
        due_ms = next_boundary(state.rules, self.time_of(state))
        if due_ms != state.due_ms:
            state.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, state.number))
        while self._is_stale(self._due[0]):
            heapq.heappop(self._due)
        if len(self._due) > _STALE + 2 * len(self._by_number):
            # Boards that stand still in event time keep stale entries of others behind theirs.
            self._due = [due for due in self._due if not self._is_stale(due)]
            heapq.heapify(self._due)

    def _is_stale(self, due: tuple[int, int]) -> bool:
        state = self._by_number.get(due[1])
        return state is None or state.due_ms != due[0]
