"""The boards known to a process, with prepared definitions, by name and by number.

The fold fills them from the log. The store on an index server fills them from that server.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from laurels.errors import LogDamaged, UnknownBoard
from laurels.model.batch import Batch
from laurels.model.board import Board
from laurels.model.event import EventReader
from laurels.model.labels import ALL, is_by
from laurels.model.rules import Rules
from laurels.model.validation import quoted, safe_repr
from laurels.model.windows.kinds import Window
from laurels.timeline.instants import MAX_MS, MIN_MS

from .board_record import BoardRecord, Clearing
from .closing import WindowClosing, final_ms_of, is_recorded, takes_no_events
from .hidden import Exclusion, HiddenMembers
from .lifecycle import NEVER, Floors, Refreshed, floors_at, next_boundary
from .payouts import PayoutBook
from .plan import ClosedTest, Plan, plan_batch
from .ranking_key import RankingKey


class RunningPlan(Struct, frozen=True):
    """A cached plan for batches whose events have no times and no labels. It is valid from
    `since_ms` to just before `until_ms`, as long as the board has these rules and floors."""

    plan: Plan
    rules: Rules
    floors: Floors
    since_ms: int
    until_ms: int


class BoardState(Struct):
    """The state of a board.

    - `number`: identifies the board for ever, whereas a name may be used again.
    - `uid`: stays the same when the board is moved to another store.
    - `now_ms`: the latest time of the board's records; in event time, the latest `at` of its
      events.
    - `floors`: by window, the start of the oldest period that can still be kept.
    - `positions`: the position of each import.
    - `due_ms`: the next end of a period or step.
    - `changes`: the number of the board's records that this process has folded.
    - `generation`: the number of boundaries and definitions that scopes have to follow; a scope
      with another generation is stale.
    - `refreshed`: the state of each refreshed window with events.
    - `refreshed_by`: the same for the rankings by a label, which are refreshed separately on a
      board with a label replica.
    - `views`: a cache of the views that queries prepare.
    - `running`: the cached plan of events without times and labels, None if there is none.
    - `sequence`, `tag`: those of the newest block of changes, 0 without one.
    - `closing`: the closed periods of each window that closes periods or has closed some.
    - `final_ms`: the first instant at which a period may be due to be closed.
    - `closings`: on an index server, how many changes of the board's closed periods this process
      has read; negative if it has not read the closed periods yet.
    - `hidden`: the hidden members.
    - `everywhere_seen`: how many of the changes to the list of members hidden on all boards the
      board has recorded.
    - `excluded`: a cache of the members that are hidden in closed periods.
    - `cleared`: on an index server, the last clearing of the board.
    - `may_have_payouts`: on an index server, whether the board has or had prizes; True if that is
      not known.
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
    now_ms: int = MIN_MS
    changes: int = 0
    generation: int = 1
    refreshed: dict[str, Refreshed] = {}
    refreshed_by: dict[str, Refreshed] = {}
    views: dict[str | None, Any] = {}
    running: RunningPlan | None = None
    uid: str = ""
    sequence: int = 0
    tag: int = 0
    closing: dict[str, WindowClosing] = {}
    final_ms: int = MAX_MS
    closings: int = -1
    everywhere_seen: int = 0
    excluded: dict[tuple[str, int], Exclusion] = {}
    hidden: HiddenMembers = field(default_factory=HiddenMembers)
    cleared: Clearing | None = None
    may_have_payouts: bool = True

    def hidden_at(self, now_ms: int) -> Exclusion | None:
        """Return the members that are hidden at an instant, None if there are none."""
        if not self.hidden.own and not self.hidden.shared:
            return None
        return self.hidden.at(now_ms, is_dense=self.rules.rank == "dense")

    def hidden_in(self, key: RankingKey, now_ms: int) -> Exclusion | None:
        """Return the members that are not listed in a ranking, None if there are none. In a closed
        period, these are the members that were hidden when it became final. Return None for a
        ranking by a label, which has no members."""
        if is_by(key.scope):
            return None
        closing = self.closing.get(key.window)
        closed = None if closing is None else closing.record_of(key.instance)
        if closed is not None:
            return self._excluded(key, closed.hidden)
        if closing is not None and key.instance in closing.open and now_ms >= self.final_ms:
            window = self.rules.windows[key.window]
            now_ms = min(now_ms, final_ms_of(window, window.period_of(key.instance)))
        return self.hidden_at(now_ms)

    def _excluded(self, key: RankingKey, members: Sequence[bytes]) -> Exclusion | None:
        """Return the members that were hidden when a period was closed; None if there were none."""
        if not members:
            return None
        name = key.window, key.instance
        if name not in self.excluded:
            is_dense = self.rules.rank == "dense"
            self.excluded[name] = Exclusion(members, is_dense=is_dense)
        return self.excluded[name]

    def as_refreshed(self, window: Window, scope: str = ALL) -> Refreshed | None:
        """Return the refresh state of a window in a scope; None for a window that is not
        refreshed."""
        if window.name not in self.rules.refreshed:
            return None
        if is_by(scope) and window.name in self.refreshed_by:
            return self.refreshed_by[window.name]
        return self.refreshed.get(window.name, NEVER)

    def seen_ms(self, window: Window, now_ms: int, scope: str = ALL) -> int:
        """Return the time for which a window shows its ranking at `now_ms`. For a refreshed window
        this is the time of its last refresh, if there was one."""
        refreshed = self.as_refreshed(window, scope)
        if refreshed is None or refreshed.now_ms is None:
            return now_ms
        return refreshed.now_ms


class Boards:
    """All boards as of an offset. The next new board gets the number `next_number`.

    `payouts` has the payouts of a store in this process; it is None on an index server. With
    `event_time` each board has its own time. While records are drafted but not yet applied,
    `drafted_ms` has, by board number, the time that the board will have once they are applied.
    """

    def __init__(self) -> None:
        self.payouts: PayoutBook | None = None
        self.event_time = False
        self.closes_by_record = False
        """Whether a period takes events until its closing is recorded, as on an index server, where
        the positions of sources are not part of the state of a board."""
        self.drafted_ms: dict[int, int] = {}
        self.everywhere = HiddenMembers()
        """The members that are hidden on all boards."""
        self.everywhere_changes = 0
        """The number of changes of `everywhere` that this process has folded so far."""
        self.boards: dict[str, BoardState] = {}
        self.next_number = 1
        self.offset = 0
        self._by_number: dict[int, BoardState] = {}
        self._by_uid: dict[str, BoardState] = {}
        self._removals: list[tuple[int, int]] = []

    def named(self, name: str) -> BoardState:
        """Return the board of that name."""
        try:
            return self.boards[name]
        except (KeyError, TypeError):
            raise unknown_board(name) from None

    def find_by_number(self, number: int) -> BoardState | None:
        """Return the board of that number, None if it was deleted."""
        return self._by_number.get(number)

    def find_by_uid(self, uid: str) -> BoardState | None:
        """Return the board with a unique id, None if there is none."""
        return self._by_uid.get(uid)

    def find_current(self, state: BoardState) -> BoardState | None:
        """Return the current state of the board that had the state `state`; None if the board was
        deleted since. The unique id is compared as well, since after an index server was emptied
        another board may have the same number."""
        current = self._by_number.get(state.number)
        return None if current is None or current.uid != state.uid else current

    def current(self, state: BoardState) -> BoardState:
        """Return the current state of the board that had the state `state`. Raises UnknownBoard if
        the board was deleted since."""
        current = self._by_number.get(state.number)
        if current is None or current.uid != state.uid:
            raise UnknownBoard(f"the board {quoted(state.board.name)} was deleted")
        return current

    def by_number(self, number: int) -> BoardState:
        try:
            return self._by_number[number]
        except KeyError:
            raise LogDamaged(f"the log names board {number} before it was created") from None

    def source_positions(self, state: BoardState) -> Mapping[str, str]:
        """Return the positions of those sources of a board that decide when its periods are final;
        none in event time, in which sources do not decide this."""
        return {} if self.event_time else state.positions

    def accepts_at(self, state: BoardState, now_ms: int) -> int:
        """Return the time at which a board accepts a write when the clock reads `now_ms`. In event
        time it is the board's own time, after the records that are drafted but not yet applied."""
        if not self.event_time:
            return now_ms
        return max(state.now_ms, self.drafted_ms.get(state.number, MIN_MS))

    def plan(self, batch: Batch) -> Plan:
        """Return the plan of a batch: where its events count. For events without times and labels
        this takes O(1), since their plan is cached until the next period or step."""
        state = self.by_number(batch.board)
        rules, floors, now_ms, running = state.rules, state.floors, batch.now_ms, state.running
        all_now = batch.ats is None and batch.labels is None and not rules.refreshed
        if (
            all_now
            and running is not None
            and running.since_ms <= now_ms < running.until_ms
            and running.rules is rules
            and running.floors is floors
        ):
            return running.plan
        refreshed_steps = {
            name: window.period_at(state.seen_ms(window, now_ms))
            for name, window in rules.refreshed.items()
        }
        plan = plan_batch(rules, floors, batch, refreshed_steps, self._closed_for(state, batch))
        if all_now and plan.targets:  # a plan without targets refuses all events; it is not cached
            until_ms = next_boundary(rules, now_ms)
            state.running = RunningPlan(plan, rules, floors, now_ms, until_ms)
        return plan

    def _closed_for(self, state: BoardState, batch: Batch) -> ClosedTest | None:
        """Return a function that tests whether a period is closed, for the plan of a batch. Return
        None if the plan needs no such test: if the board closes no periods, or if all events of
        closed periods are refused as late anyway. The latter is so unless the batch has an earlier
        time, as of which the lateness of its events is judged."""
        if batch.judged_ms is None or not state.rules.closing:
            return None
        return self.closed_at(state, batch.now_ms)

    def closed_at(self, state: BoardState, now_ms: int) -> ClosedTest:
        """Return a function that tests whether a period of a board is closed at `now_ms`."""
        if self.closes_by_record:
            return lambda window, period: is_recorded(state, window, period)
        positions = self.source_positions(state)
        return lambda window, period: takes_no_events(state, window, period, positions, now_ms)

    def open(
        self, board: Board, number: int, version: int, created_ms: int, uid: str = ""
    ) -> BoardState:
        """Create the state of a new board, register it, and return it."""
        state = new_state(board, number, version, created_ms, uid)
        self.register(state)
        return state

    def register(self, state: BoardState) -> None:
        """Make a board known by its name, its number and its unique id."""
        self.boards[state.board.name] = self._by_number[state.number] = state
        self._by_uid[state.uid] = state
        state.hidden.share(self.everywhere)
        state.everywhere_seen = self.everywhere_changes
        self.watch_removal(state)

    def watch_removal(self, state: BoardState) -> None:
        """Schedule the removal of a board at the time that its definition sets."""
        if state.rules.gone_ms < MAX_MS:
            heapq.heappush(self._removals, (state.rules.gone_ms, state.number))

    def take_unretained(self, now_ms: int) -> list[BoardState]:
        """Return the boards that are no longer retained at `now_ms`; each is returned once. O(1) if
        there are none. In event time no board is removed."""
        gone = []
        while self._removals and self._removals[0][0] <= now_ms and not self.event_time:
            state = self._by_number.get(heapq.heappop(self._removals)[1])
            if state is not None and state.rules.is_gone(now_ms) and state not in gone:
                gone.append(state)
        return gone

    @property
    def next_removal_ms(self) -> int:
        """The next instant at which a board may be removed; MAX_MS if none may."""
        return self._removals[0][0] if self._removals and not self.event_time else MAX_MS

    def forget(self, number: int) -> None:
        """Remove a board from the registered ones."""
        state = self._by_number.pop(number)
        del self.boards[state.board.name]
        self._by_uid.pop(state.uid, None)


def unknown_board(name: str) -> UnknownBoard:
    """Return the error for a name that no board has."""
    return UnknownBoard(f"there is no board {safe_repr(name)}")


def new_state(
    board: Board, number: int, version: int, created_ms: int, uid: str = ""
) -> BoardState:
    """Return the state of a new board. A board created by an earlier version, without a uid, gets
    one derived from its number and the time of its creation."""
    rules = board.rules()
    return BoardState(
        number=number,
        board=board,
        rules=rules,
        reader=EventReader(rules),
        version=version,
        created_ms=created_ms,
        floors={},
        positions={},
        uid=uid or f"{number:x}.{created_ms:x}",
    )


def record_of(
    state: BoardState, now_ms: int | None = None, *, unfinished: bool = False
) -> BoardRecord:
    """Return the part of a board's state that is not in the index. `now_ms` is the board's own
    time, if it has one."""
    return BoardRecord(
        state.number,
        state.board.to_json(),
        state.version,
        state.created_ms,
        state.floors,
        state.positions,
        state.due_ms,
        state.refreshed,
        now_ms,
        state.uid,
        state.sequence,
        state.tag,
        unfinished,
        list(state.hidden.items()),
        state.closing,
        state.cleared,
        state.may_have_payouts,
    )


def redefine(state: BoardState, board: Board, version: int, now_ms: int) -> None:
    """Replace the definition of a board; a new window starts empty at `now_ms`. If a period waits
    for a source that lags, it still takes events of this source after the change."""
    floors = floors_at(state.rules, state.floors, now_ms)
    for name, closing in state.closing.items():
        if closing.open:
            oldest_open = state.rules.windows[name].period_of(min(closing.open))
            floors[name] = min(floors[name], oldest_open.start_ms)
    rules = board.rules()
    for name in rules.windows.keys() - floors.keys():
        floors[name] = rules.windows[name].period_at(now_ms).start_ms
    state.board, state.rules, state.floors, state.version = board, rules, floors, version
    state.reader = EventReader(rules)
    state.hidden.forget()


def time_token(state: BoardState, now_ms: int) -> tuple[int, bool]:
    """Return the part of a change token that changes with time.

    The tuple has the `due_ms` of the board, or the end of the next hiding if that is earlier, and
    whether `due_ms` has passed. For a board with decay, whose scores change all the time until the
    board ends, it has until then the current second and True.
    """
    if state.rules.weighings and not state.rules.has_ended(now_ms):
        return now_ms // 1_000, True
    due_ms = state.due_ms
    if state.hidden:
        due_ms = min(due_ms, state.hidden.next_end_ms(now_ms))
    return due_ms, now_ms >= state.due_ms
