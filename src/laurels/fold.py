"""The fold: log records, one after another, into boards and rankings.

What stands is a function of (log, now), and this is the function. A live commit and recovery
both come through here with the same records, so they cannot end differently. Whatever depends
on earlier events is decided here, in log order.

Time moves by `advance`, which costs nothing: a board is *brought* to the present when something is
asked of it or written to it, and `work` does a bounded share for the boards that nobody touches.
Bringing a board drops the rankings of periods that are no longer kept and turns rolling windows to
the step that runs. Between two steps there is a pass to do, over the members of two tallies; it is
done in shares ahead of the boundary, and whoever comes first after it does what is left.
"""

import heapq
from collections.abc import Iterable

from msgspec import Struct

from . import record as records
from .board import Board
from .boards import Boards, BoardState, record_of, redefine
from .event import Batch
from .index.base import Index, Outcomes
from .plan import Plan, counted_from, next_boundary, roll_of
from .snapshot.state import Head, board_record, encode
from .windows import MAX_MS, MIN_MS, Rolling

BOUNDARY_WORK = 50
"""What bringing a board over a boundary costs, in members of a pass."""


class Folded(Struct, frozen=True):
    """What a batch did: where its events went and what became of them."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold(Boards):
    """Boards and the index, as of the records applied so far."""

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index
        self.now_ms = MIN_MS
        self._due: list[tuple[int, int]] = []
        self._passes: dict[tuple[int, str], None] = {}
        self._bringing = False

    def apply(self, record: records.Record) -> bool:
        """Applies a record; False when it removes a member that is not ranked.

        Creating a board does not move time: a board may be made today for the events of old.
        """
        if isinstance(record, records.Create):
            self._create(record)
            return True
        self.advance(record.now_ms)
        if isinstance(record, records.Events):
            self.count(records.batch_of(record))
            return True
        self.by_number(record.board).changes += 1
        match record:
            case records.Change():
                self._change(record)
            case records.Delete():
                self._delete(record)
            case records.Remove():
                self.bring(self.by_number(record.board))
                return self.index.remove(record.board, record.member)
            case records.MemberData():
                self.index.set_data(record.board, record.member, record.data)
            case records.Position():
                self._note(record.board, record.position)
        return True

    # Time

    def advance(self, now_ms: int) -> None:
        """Brings time forward. O(1): boards follow when they are brought."""
        self.now_ms = max(self.now_ms, now_ms)

    def bring(self, state: BoardState, limit: int | None = None) -> bool:
        """Brings a board to the present; False when `limit` members of a pass were not enough,
        and then another call goes on. O(1) unless a boundary has passed.

        A signal handler that asks while its own thread is at it gets False as well.
        """
        if state.due_ms > self.now_ms:
            return True
        if self._bringing:
            return False
        self._bringing = True
        try:
            return self._bring(state, limit)
        finally:
            self._bringing = False

    def _bring(self, state: BoardState, limit: int | None) -> bool:
        for window in state.rules.windows.values():
            roll = roll_of(state.number, window, self.now_ms)
            if roll is not None:
                if not self.index.turn(roll, limit):
                    return False
                self._passes[state.number, window.name] = None
        self._drop_expired(state)
        self._watch_boundary(state)
        return True

    def bring_all(self) -> None:
        """Brings every board to the present."""
        for state in self._by_number.values():
            self.bring(state)

    def work(self, limit: int) -> int:
        """Does a share, of about `limit` members, of what time has made due: passes ahead of the
        next boundary, and boards nobody has asked for since the last. Answers what is left."""
        while limit > 0 and self._due and self._due[0][0] <= self.now_ms:
            limit -= self._bring_first(limit)
        for number, window in list(self._passes):
            if limit <= 0:
                break
            before = self.index.pass_left(number, window)
            left = self.index.advance(number, window, limit)
            limit -= before - left
            if not left:
                del self._passes[number, window]
        return self.work_left()

    @property
    def next_due_ms(self) -> int:
        """When the next period or step of any board ends, as far as is known."""
        return self._due[0][0] if self._due else MAX_MS

    def work_left(self) -> int:
        """About how many members the passes under way have left, over all boards."""
        return sum(self.index.pass_left(*each) for each in self._passes)

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
        self.advance(batch.now_ms)
        state = self.by_number(batch.board)
        self.bring(state)
        plan = plan or self.plan(batch)
        outcomes = self.index.apply(batch, plan, watch)
        state.changes += 1
        if batch.position is not None and not (batch.atomic and outcomes.refused):
            self._note(batch.board, batch.position)
        return Folded(batch, plan, outcomes)

    def _note(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self.by_number(board).positions[source] = text
        self.index.touch(board)

    # Snapshots

    def describe(self, number: int) -> bytes | None:
        """What is known of a board besides the index, as bytes; None when there is none."""
        if (state := self._by_number.get(number)) is None:
            return None
        return encode(record_of(state))

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
            heapq.heappush(self._due, (state.due_ms, state.number))
        self.offset = head.offset
        self.now_ms = head.now_ms
        self.next_number = head.next_number

    def resume_passes(self) -> None:
        """Has the passes of all rolling windows go on, in an index that was restored."""
        for state in self._by_number.values():
            for window in state.rules.windows:
                if self.index.pass_left(state.number, window):
                    self._passes[state.number, window] = None

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
        redefine(state, Board.from_json(record.definition), record.version, self.now_ms)
        self.index.open_board(record.board, state.rules)
        self._drop_expired(state)
        self._watch_boundary(state)

    def _delete(self, record: records.Delete) -> None:
        self.forget(record.board)
        self.index.close_board(record.board)
        for each in [each for each in self._passes if each[0] == record.board]:
            del self._passes[each]

    def _drop_expired(self, state: BoardState) -> None:
        oldest_ms = {
            name: counted_from(window, state.floors.get(name, MIN_MS), self.now_ms)
            for name, window in state.rules.windows.items()
            if not isinstance(window, Rolling)
        }
        keys = self.index.keys(state.number)
        self.index.drop([k for k in keys if k.instance < oldest_ms.get(k.window, k.instance)])

    def _watch_boundary(self, state: BoardState) -> None:
        due_ms = next_boundary(state.rules, self.now_ms)
        if due_ms != state.due_ms:
            state.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, state.number))
        while self._is_stale(self._due[0]):
            heapq.heappop(self._due)

    def _is_stale(self, due: tuple[int, int]) -> bool:
        state = self._by_number.get(due[1])
        return state is None or state.due_ms != due[0]
