"""The fold: log records, one after another, into boards and rankings.

What stands is a function of (log, now), and this is the function. A live commit and recovery
both come through here with the same records, so they cannot end differently. Whatever depends
on earlier events is decided here, in log order.
"""

import heapq

from msgspec import Struct

from . import record as records
from .board import Board
from .errors import LogDamaged, UnknownBoard
from .event import Batch, EventReader
from .given import shown
from .index.base import Index, Outcomes
from .plan import Floors, Plan, kept_from, next_boundary, plan_batch
from .rules import Rules
from .windows import MAX_MS, MIN_MS


class BoardState(Struct):
    """A board as the log has left it. `number` names it for ever, names may be used again.

    `floors` are per window what `keep` cannot bring back; `positions` how far imports have come;
    `due_ms` is the next end of a period.
    """

    number: int
    board: Board
    rules: Rules
    reader: EventReader
    version: int
    created_ms: int
    floors: Floors
    positions: dict[str, str]
    due_ms: int = MIN_MS


class Folded(Struct, frozen=True):
    """What a batch did: where its events went and what became of them."""

    batch: Batch
    plan: Plan
    outcomes: Outcomes


class Fold:
    """Boards and the index, as of the records applied so far."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.boards: dict[str, BoardState] = {}
        self.now_ms = MIN_MS
        self.offset = 0
        self.next_number = 1
        self._by_number: dict[int, BoardState] = {}
        self._due: list[tuple[int, int]] = []

    def apply(self, record: records.Record) -> bool:
        """Applies a record; False when it removes a member that is not ranked.

        Creating a board does not move time: a board may be made today for the events of old.
        """
        if isinstance(record, records.Create):
            self._create(record)
            return True
        self.advance(record.now_ms)
        match record:
            case records.Events():
                self.count(records.batch_of(record))
            case records.Change():
                self._change(record)
            case records.Delete():
                self._delete(record)
            case records.Remove():
                return self.index.remove(record.board, record.member)
            case records.MemberData():
                self.index.set_data(record.board, record.member, record.data)
            case records.Position():
                self._note(record.board, record.position)
        return True

    def advance(self, now_ms: int) -> None:
        """Brings time forward; drops the rankings of periods that are no longer kept."""
        self.now_ms = max(self.now_ms, now_ms)
        while self._due and self._due[0][0] <= self.now_ms:
            due_ms, number = heapq.heappop(self._due)
            state = self._by_number.get(number)
            if state is not None and state.due_ms == due_ms:
                self._drop_expired(state)
                self._watch_boundary(state)

    def plan(self, batch: Batch) -> Plan:
        state = self._state(batch.board)
        return plan_batch(state.rules, state.floors, batch)

    def count(self, batch: Batch, plan: Plan | None = None, watch: int | None = None) -> Folded:
        """Counts a batch; `watch` is the place of the window whose scores are reported."""
        self.advance(batch.now_ms)
        plan = plan or self.plan(batch)
        outcomes = self.index.apply(batch, plan, watch)
        if batch.position is not None and not (batch.atomic and outcomes.refused):
            self._note(batch.board, batch.position)
        return Folded(batch, plan, outcomes)

    def _note(self, board: int, position: tuple[str, str]) -> None:
        source, text = position
        self._state(board).positions[source] = text

    def named(self, name: str) -> BoardState:
        """The board of that name."""
        try:
            return self.boards[name]
        except (KeyError, TypeError):
            raise UnknownBoard(f"there is no board {shown(name)}") from None

    def current(self, state: BoardState) -> BoardState:
        """The board as it is now; UnknownBoard when it was deleted since."""
        try:
            return self._by_number[state.number]
        except KeyError:
            raise UnknownBoard(f"the board {state.board.name!r} was deleted") from None

    def _state(self, number: int) -> BoardState:
        try:
            return self._by_number[number]
        except KeyError:
            raise LogDamaged(f"the log names board {number} before it was created") from None

    def _create(self, record: records.Create) -> None:
        board = Board.from_json(record.definition)
        rules = board.rules()
        state = BoardState(
            number=record.board,
            board=board,
            rules=rules,
            reader=EventReader(rules),
            version=record.version,
            created_ms=record.now_ms,
            floors={},
            positions={},
        )
        self.index.open_board(record.board, rules)
        self.boards[board.name] = self._by_number[record.board] = state
        self.next_number = record.board + 1
        self._watch_boundary(state)

    def _change(self, record: records.Change) -> None:
        state = self._state(record.board)
        floors = self._floors(state)
        state.board = Board.from_json(record.definition)
        state.rules = state.board.rules()
        for name in state.rules.windows.keys() - floors.keys():
            floors[name] = state.rules.windows[name].period_at(self.now_ms).start_ms
        state.floors = floors
        state.version = record.version
        self.index.open_board(record.board, state.rules)
        self._drop_expired(state)
        self._watch_boundary(state)

    def _floors(self, state: BoardState) -> Floors:
        """What is gone by now stays gone, whatever `keep` the board is given."""
        return {
            name: kept_from(window, state.floors.get(name, MIN_MS), self.now_ms)
            for name, window in state.rules.windows.items()
        }

    def _delete(self, record: records.Delete) -> None:
        state = self._by_number.pop(record.board)
        del self.boards[state.board.name]
        self.index.close_board(record.board)

    def _drop_expired(self, state: BoardState) -> None:
        oldest_ms = {
            name: kept_from(window, state.floors.get(name, MIN_MS), self.now_ms)
            for name, window in state.rules.windows.items()
        }
        keys = self.index.keys(state.number)
        self.index.drop([key for key in keys if key.start_ms < oldest_ms[key.window]])

    def _watch_boundary(self, state: BoardState) -> None:
        due_ms = next_boundary(state.rules, self.now_ms)
        if due_ms != state.due_ms and due_ms < MAX_MS:
            state.due_ms = due_ms
            heapq.heappush(self._due, (due_ms, state.number))
