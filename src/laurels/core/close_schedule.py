"""The schedule of closing: which boards have periods that are due, and which closed periods wait to
be sealed.

The fold reports what it applies. The schedule keeps the first instant at which a period of each
board may be final, so that a write to a board with nothing due costs one comparison. A board whose
periods wait for a source that lags is looked at again in every round.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from laurels.model.board import Board
from laurels.model.labels import ALL
from laurels.model.prizes import Prizes
from laurels.timeline.instants import MAX_MS, MIN_MS

from .board_state import BoardState
from .closing import (
    ClosedPeriod,
    DuePeriod,
    SealedPeriod,
    WindowClosing,
    due_periods,
    next_final_ms,
)
from .due_queue import DueQueue
from .index import Index
from .plan import Plan
from .ranking_key import RankingKey
from .record import Close, Disqualify, Seal

ROUND = 100
"""How many boards are looked at in a round for periods that have become due."""
_STALE = 1_000


class Unsealed(Struct, frozen=True, gc=False):
    """A closed period that is not sealed yet: the number of its board, its window and its instance.
    The garbage collector does not visit a dict whose keys are such objects. With tuples as keys,
    and a hundred thousand of them, two collections took 15 ms each to visit the keys."""

    number: int
    window: str
    instance: int


class CloseSchedule:
    """The open, due and closed periods of all boards.

    `time_of` and `positions_of` return the time of a board and the positions of its sources.
    `advance` advances a board to its time, and returns False if work is left before the board is at
    this time. `is_used` is True once any board had a period to close after this process loaded the
    boards. `unsealed` has the periods to be sealed, in the order in which they were closed.
    `trimmed` has the sealed periods that have left the archive, each with its board's uid and its
    revision.
    """

    def __init__(
        self,
        index: Index,
        find_by_number: Callable[[int], BoardState | None],
        time_of: Callable[[BoardState], int],
        positions_of: Callable[[BoardState], Mapping[str, str]],
        advance: Callable[[BoardState], bool],
    ) -> None:
        self._index = index
        self._find_by_number = find_by_number
        self._time_of = time_of
        self._positions_of = positions_of
        self._advance = advance
        self._final = DueQueue()
        self._most = _STALE
        self._ready: dict[int, None] = {}
        self._filled: dict[int, str] = {}
        """By the number of a board, the scope in which something was found last in a due period. A
        missing board stands for the scope of all events."""
        self.is_used = False
        self.unsealed: dict[Unsealed, None] = {}
        self.trimmed: list[tuple[str, str, int, int]] = []

    # Notifications from the fold

    def created(self, state: BoardState) -> None:
        """Begin to watch a new board."""
        state.closing = {name: WindowClosing() for name in state.rules.closing}

    def copied(self, state: BoardState, entry: int) -> None:
        """Record that the log entry `entry` completed the copy of a board from another store. The
        periods that were sealed in the other store count as sealed by this entry."""
        for closing in state.closing.values():
            for instance, sealed in closing.sealed.items():
                closing.sealed[instance] = replace(sealed, entry=entry)

    def restored(self, state: BoardState) -> None:
        """Begin to watch a board that was restored from a snapshot or copied."""
        for name, closing in state.closing.items():
            for instance in (*closing.closed, *closing.sealed):
                self._freeze(state, name, instance)
            self.unsealed |= {
                Unsealed(state.number, name, instance): None for instance in closing.closed
            }
        self._schedule(state)

    def redefined(self, state: BoardState, old_definition: bytes, old: Collection[str]) -> None:
        """Record that a board has a new definition. `old` has the windows that closed periods under
        the old definition."""
        if not state.rules.closing and not state.closing:
            return
        for closing in state.closing.values():
            closing.closed = {
                instance: closed
                if closed.definition
                else replace(closed, definition=old_definition)
                for instance, closed in closing.closed.items()
            }
        now_ms = self._time_of(state)
        for name in {*state.closing} - {*state.rules.closing}:
            state.closing[name].open.clear()
        for name in state.rules.closing:
            closing = state.closing.setdefault(name, WindowClosing())
            if name not in old:
                closing.since_ms = now_ms
                closing.open |= self._running(state, name, now_ms)
            elif (window := state.rules.windows[name]).steps:
                running = window.instance_of(window.period_at(now_ms))
                ended = {instance for instance in closing.open if instance < running}
                closing.open = ended | self._running(state, name, now_ms)
        self._schedule(state)

    def counted(self, state: BoardState, plan: Plan) -> None:
        """Record that events were counted as planned."""
        is_new = False
        for key, _ in plan.targets:
            closing = state.closing.get(key.window)
            if closing is None or key.window not in state.rules.closing:
                continue
            window = state.rules.windows[key.window]
            if window.last_archived(key.instance) not in closing.open:
                now_ms = self._time_of(state)
                closing.open.update(window.archived_with(key.instance, now_ms, closing.open))
                is_new = True
        if is_new:
            self._schedule(state)
        elif self._time_of(state) >= state.final_ms:
            self._ready[state.number] = None

    def mended(self, state: BoardState, key: RankingKey) -> None:
        """Record that entries of a ranking were replaced."""
        if key.window in state.rules.closing and key.window in state.closing:
            state.closing[key.window].open.add(key.instance)
            self._schedule(state)

    def close(self, state: BoardState, record: Close) -> None:
        """Close a period: its rankings do not change any more. The periods of a window are closed
        in the order of their ends, so earlier boundaries of a rolling window that are still open
        were empty: they were closed without a record. O(open periods)."""
        closing = state.closing.setdefault(record.window, WindowClosing())
        closing.open.discard(record.instance)
        if state.rules.windows[record.window].steps:
            closing.open = {each for each in closing.open if each > record.instance}
        hidden = [
            member
            for member, hiding, _ in state.hidden.hidings(record.final_ms)
            if hiding.since_ms <= record.final_ms
        ]
        closing.closed[record.instance] = ClosedPeriod(
            record.now_ms, state.rules.hide_zero, tuple(hidden)
        )
        self._freeze(state, record.window, record.instance)
        self.unsealed[Unsealed(state.number, record.window, record.instance)] = None
        self._schedule(state)

    def seal(self, state: BoardState, record: Seal, entry: int) -> None:
        """Record that the standings of a closed period are in the archive. `entry` is the offset of
        the record."""
        closing = state.closing[record.window]
        closed = closing.closed.pop(record.instance, None)
        definition = closed.definition if closed is not None else b""
        board = Board.from_json(definition) if definition else state.board
        prizes = prizes_in(board, record.window)
        closing.sealed[record.instance] = SealedPeriod(
            record.now_ms,
            record.entries,
            record.digest,
            record.revision,
            board.hide_zero,
            () if closed is None else closed.hidden,
            "" if prizes is None else prizes.text,
            entry=entry,
        )
        self.unsealed.pop(Unsealed(state.number, record.window, record.instance), None)
        rule = state.rules.closing.get(record.window)
        for instance, sealed in () if rule is None else closing.trim(rule.archive):
            self.trimmed.append((state.uid, record.window, instance, sealed.revision))
        self._index.touch(state.number)

    def revise(self, state: BoardState, record: Disqualify) -> bool:
        """Record that a sealed period has a new revision in the archive. Return False if the period
        is not in the archive."""
        closing = state.closing.get(record.window)
        sealed = None if closing is None else closing.sealed.get(record.instance)
        if closing is None or sealed is None:  # the period has left the archive meanwhile
            return False
        closing.sealed[record.instance] = replace(
            sealed, entries=record.entries, digest=record.digest, revision=record.revision
        )
        self._index.touch(state.number)
        return True

    def cleared(self, state: BoardState) -> None:
        """Record that all members were removed from a board. Only the archive has the standings of
        its sealed periods from here on."""
        for closing in state.closing.values():
            closing.open.clear()
            closing.sealed = {
                instance: replace(sealed, archive_only=True)
                for instance, sealed in closing.sealed.items()
            }
        self._schedule(state)

    def erased(self, state: BoardState, member: bytes, frozen: Collection[tuple[str, int]]) -> None:
        """Record that a member was erased from a board; `frozen` are the windows and instances of
        the frozen rankings that had it."""
        for name, closing in state.closing.items():
            for instance, sealed in closing.sealed.items():
                if (name, instance) in frozen or member in sealed.hidden:
                    hidden = tuple([each for each in sealed.hidden if each != member])
                    only = sealed.archive_only or (name, instance) in frozen
                    closing.sealed[instance] = replace(sealed, hidden=hidden, archive_only=only)
        self._index.touch(state.number)

    def forget(self, number: int) -> None:
        """Forget a board."""
        self._ready.pop(number, None)
        self._filled.pop(number, None)
        for each in [each for each in self.unsealed if each.number == number]:
            del self.unsealed[each]

    def unsettled(self, states: Iterable[BoardState]) -> list[BoardState]:
        """Return the boards among `states` that have periods to be closed or sealed. O(boards)."""
        return [state for state in states if not self.is_settled(state, self._time_of(state))]

    # Due periods

    def due(self, state: BoardState, now_ms: int) -> list[DuePeriod]:
        """Return the periods of a board that are due to be closed at `now_ms`, in the order of
        their ends. Due periods in which nothing is ranked in any scope are not returned: this call
        closes them, without a record. O(1) if no period is final."""
        if now_ms < state.final_ms:
            return []
        due = due_periods(state, self._positions_of(state), now_ms)
        if any(state.rules.windows[each.window].steps for each in due):
            due = self._indexed(state, due)
        empty = [each for each in due if self._is_empty(state, each)]
        for each in empty:
            state.closing[each.window].open.discard(each.instance)
        if empty:
            self._schedule(state)
        return [each for each in due if each not in empty] if empty else due

    @property
    def waiting(self) -> int:
        """The number of boards that `ready` has still to look at, or has to look at again."""
        return len(self._ready)

    def ready(self, now_ms: int, limit: int) -> list[BoardState]:
        """Return the boards with periods that are due, when the clock reads `now_ms`. Only up to
        `limit` boards are looked at. Boards take turns: a board that is returned, or whose sources
        lag, moves to the end of the queue."""
        for _ in range(limit):
            if not self._final or self._final.first_ms > now_ms:
                break
            final_ms, number = self._final.pop()
            state = self._find_by_number(number)
            if state is not None and state.final_ms == final_ms:
                self._ready[number] = None
        return [state for state in self._look_at(limit) if state is not None]

    def may_be_due(self, now_ms: int) -> bool:
        """Return whether a period of any board may be due to be closed. O(1)."""
        return bool(self._ready) or self._final.first_ms <= now_ms

    def has_ready(self, now_ms: int) -> bool:
        """Return whether a board has, or may have, periods that are due. If no board has become due
        since the last round, up to ROUND waiting boards are looked at."""
        if self._final.first_ms <= now_ms:
            return True
        return any(state is not None for state in self._look_at(ROUND))

    def _look_at(self, limit: int) -> Iterator[BoardState | None]:
        """Look at up to `limit` boards that may have due periods. Yield those that have some, and
        None for others."""
        for number in list(islice(self._ready, limit)):
            del self._ready[number]
            state = self._find_by_number(number)
            if state is None or self._time_of(state) < state.final_ms:
                continue
            due = self.due(state, self._time_of(state))
            # a due period has no record yet, or waits for a source
            if self._time_of(state) >= state.final_ms:
                self._ready[number] = None
            yield state if due else None

    def is_settled(self, state: BoardState, now_ms: int) -> bool:
        """Return whether a board has no period to be closed or sealed at `now_ms`."""
        return not any(closing.closed for closing in state.closing.values()) and not self.due(
            state, now_ms
        )

    def has_unsealed(self, state: BoardState) -> bool:
        """Return whether a board has periods that are not sealed, open ones included. Open periods
        in which nothing is ranked do not count once they are final."""
        self.due(state, self._time_of(state))
        return any(closing.open or closing.closed for closing in state.closing.values())

    # Private methods

    def _freeze(self, state: BoardState, name: str, instance: int) -> None:
        """Freeze the rankings of a closed period. Nothing changes the copy of a rolling window's
        ranking at a boundary, so only the ranking at the end of a board is frozen."""
        window, ends_ms = state.rules.windows[name], state.rules.ends_ms
        if not window.steps or window.period_of(instance).end_ms >= ends_ms:
            self._index.freeze(state.number, name, instance)

    def _indexed(self, state: BoardState, due: list[DuePeriod]) -> list[DuePeriod]:
        """Return the due periods whose rankings the index has. The index has the ranking of a
        rolling window at a boundary as soon as the board is advanced past the boundary. In event
        time a record moves the board's time only when it is folded. So boundaries after the board's
        present time are left to the next commit."""
        advanced_ms = self._time_of(state) if self._advance(state) else MIN_MS
        return [
            each
            for each in due
            if not state.rules.windows[each.window].steps or each.period.end_ms <= advanced_ms
        ]

    def _schedule(self, state: BoardState) -> None:
        """Find the next instant at which a period of a board may be final."""
        self._index.touch(state.number)
        final_ms = next_final_ms(state)
        if final_ms != state.final_ms:
            state.final_ms = final_ms
            if final_ms < MAX_MS:
                self.is_used = True
                self._push(final_ms, state.number)
        if self._time_of(state) >= final_ms:
            self._ready[state.number] = None
        else:
            self._ready.pop(state.number, None)

    def _push(self, final_ms: int, number: int) -> None:
        """Put a board into the queue, with the first instant at which a period of it may be final.
        In event time nothing else takes items out of the queue. So when it has grown, the items of
        removed boards, and those whose instant is no longer that of their board, are dropped."""
        self._final.push(final_ms, number)
        if len(self._final) > self._most:
            self._final.keep(self._is_current)
            self._most = _STALE + 2 * len(self._final)

    def _is_current(self, final_ms: int, number: int) -> bool:
        state = self._find_by_number(number)
        return state is not None and state.final_ms == final_ms

    def _running(self, state: BoardState, name: str, now_ms: int) -> set[int]:
        """Return the instances that a window keeps and that are neither final nor closed. O(periods
        in the grace)."""
        window, floor_ms = state.rules.windows[name], state.floors.get(name, MIN_MS)
        if window.steps:
            running = window.instance_of(window.period_at(now_ms))
            return {
                each
                for each in window.archived_with(running, now_ms)
                if now_ms <= window.closes_after(window.period_of(each))
                and not state.closing[name].is_closed(each)
            }
        last = window.period_at(now_ms)
        period = window.period_at(max(MIN_MS, window.next_refusal(now_ms)[0] - 1))
        instances: set[int] = set()
        while period.end_ms < last.end_ms:
            if period.start_ms >= floor_ms:
                instances.add(window.instance_of(period))
            period = window.period_at(period.end_ms)
        if now_ms <= window.closes_after(last):
            instances.add(window.instance_of(last))
        return {each for each in instances if not state.closing[name].is_closed(each)}

    def _is_empty(self, state: BoardState, due: DuePeriod) -> bool:
        """Return whether nothing is ranked in a period, in any scope. The scope in which something
        was found last is looked at first."""
        last = self._filled.get(state.number, ALL)
        filled = self._index.filled_scope(state.number, due.window, due.instance, last)
        if filled is not None and filled != last:
            self._filled[state.number] = filled
        return filled is None


def prizes_in(board: Board, window: str) -> Prizes | None:
    """Return the prizes of a window in a definition, None if it has none. O(1) if no window has
    prizes."""
    if not any("prizes=" in text for text in board.windows):
        return None
    return board.prizes().get(window)
