"""Advancing: the effect of passing time on boards and rankings.

The time of a board is the time of its newest record or of a running clock (`advance_clock`, O(1)),
whichever is later. In event time no clock runs, and each board has its own time. A board is
*advanced* to its current time when it is read or written; `work` advances the other boards in
bounded shares.

Advancing a board drops the rankings of periods that are no longer kept and rotates rolling windows
to the running step. Each step of a rolling window needs a pass over the members of two tallies. The
pass is made in shares before the step ends. If it is not complete by then, the first caller after
the end of the step completes it.
"""

from collections.abc import Collection, Iterable
from itertools import islice

from laurels.errors import StorageFailed
from laurels.errors.payouts import PayoutsMissing
from laurels.model.labels import ALL
from laurels.timeline.instants import MIN_MS

from .board_state import Boards, BoardState
from .close_schedule import CloseSchedule
from .due_queue import DueQueue
from .index import Index
from .lifecycle import expired, next_boundary, oldest_stored, rolling_state
from .ranking_key import RankingKey
from .refreshes import Refreshes
from .requests import Listing
from .scope_scan import SCOPES

BOUNDARY_WORK = 50
"""The cost of advancing a board over a boundary: as much as a pass over this number of members."""
SCOPE_WORK = 10
"""The cost of advancing a scope: as much as a pass over this number of members."""
_STALE = 1_000


class AdvancedBoards(Boards):
    """Boards and their rankings in an index, as time passes.

    `now_ms` is the newest time of any record or of the clock. `clock_ms` is the newest time of the
    clock.
    """

    def __init__(self, index: Index) -> None:
        super().__init__()
        self.index = index
        self.now_ms = MIN_MS
        self.clock_ms = MIN_MS
        self.refreshes = Refreshes(
            index, self.find_by_number, self.time_of, self.advance, self.advance_scopes
        )
        self.closings = CloseSchedule(
            index, self.find_by_number, self.time_of, self.source_positions, self.advance
        )
        self._kept_gone: dict[int, bool] = {}
        self._due = DueQueue()
        self._passes: dict[tuple[int, str, str], None] = {}
        self._advancing = False
        self._stale_from: dict[int, tuple[str, str] | None] = {}

    def advance_clock(self, now_ms: int) -> None:
        """Move the time of all boards forward, and remove boards that are no longer retained. Apart
        from removals this is O(1): each board is advanced later, when it is used."""
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms
            if now_ms > self.now_ms:
                self.now_ms = now_ms
            if self._removals and self._removals[0][0] <= now_ms and not self._advancing:
                self._remove_gone()

    def _remove_gone(self) -> None:
        """Remove the boards that are no longer retained, except those with periods that are not in
        the archive yet, or with payouts that are not confirmed."""
        for state in self.take_unretained(self.clock_ms):
            self._remove_or_keep(state)

    def _remove_if_gone(self, state: BoardState) -> None:
        """Remove a board that outlived its `retain`, if all its periods are sealed and all its
        payouts confirmed by now. Do nothing if it is to be retained longer by now."""
        if state.number not in self._kept_gone:
            return
        if state.rules.is_gone(self.clock_ms):
            self._remove_or_keep(state)
        else:
            del self._kept_gone[state.number]

    def _remove_or_keep(self, state: BoardState) -> None:
        """Remove a board that is no longer retained, or note why it is kept."""
        is_unsealed = bool(state.closing) and self.closings.has_unsealed(state)
        has_open_payouts = self._has_open_payouts(state)
        if is_unsealed or has_open_payouts:
            has_prizes = any("prizes=" in text for text in state.board.windows)
            self._kept_gone[state.number] = has_open_payouts or has_prizes
        else:
            self.remove_unretained(state)

    def _has_open_payouts(self, state: BoardState) -> bool:
        """Return whether a board has, or may have, payouts that are not confirmed. If their file
        cannot be read, return True."""
        if not state.closing or self.payouts is None:
            return False
        try:
            return self.payouts.open_on(state.uid) > 0
        except (StorageFailed, PayoutsMissing):
            return True

    def outlives_retain(self, state: BoardState) -> bool:
        """Return whether a board stays although its `retain` is over, because some of its payouts
        are not confirmed or not made yet. The answer is right only once the time of the fold has
        reached the end of `retain`. O(1), and takes no lock."""
        return self._kept_gone.get(state.number, False)

    def waits_for_seals(self, state: BoardState) -> bool:
        """Return whether only periods that are not sealed yet keep a board in memory whose `retain`
        is over. Nobody sees such a board. O(1)."""
        return not self._kept_gone.get(state.number, True)

    def remove_unretained(self, state: BoardState) -> None:
        """Remove a board that is no longer retained."""
        self.remove_board(state.number)

    def remove_board(self, number: int) -> None:
        """Remove a board with all its data."""
        self.forget(number)
        self.index.close_board(number)
        self._stale_from.pop(number, None)
        self.refreshes.forget(number)
        self.closings.forget(number)
        self._kept_gone.pop(number, None)
        for each in [each for each in self._passes if each[0] == number]:
            del self._passes[each]

    def is_settled(self, state: BoardState) -> bool:
        """Return whether no period of a board is due to be closed or sealed."""
        return self.closings.is_settled(state, self.time_of(state))

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
        """Advance a board to its current time, and return True. Return False if the board cannot be
        advanced yet, because a pass has to visit more than `limit` members first; the next call
        then continues the pass. O(1) unless a boundary has passed.

        Also return False while another call is in progress in the same thread: this happens in a
        signal handler that has interrupted that call.
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

    def advance_number(self, number: int, scopes: Collection[str], limit: int | None) -> bool:
        """Advance a board and some of its scopes. For `limit` and the result see `advance`. For a
        board that was deleted, do nothing and return True."""
        state = self._by_number.get(number)
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
        """Mark all scopes of a board as stale. `work`, or the first caller that uses such a scope,
        then advances it."""
        state.generation += 1
        if state.rules.scoped:
            self._stale_from[state.number] = None

    def _advance_scope(self, state: BoardState, scope: str, limit: int | None) -> bool:
        """Rotate the rolling windows of a scope and drop the periods that are no longer kept."""
        for window in state.rules.windows.values():
            roll = rolling_state(state.number, window, self.time_of(state), scope)
            if roll is not None:
                copied = _copied_steps(state, window.name) if state.closing else ()
                if not self.index.rotate_step(roll, limit, copied):
                    return False
                if not scope or self.index.pass_left(state.number, window.name, scope):
                    self._passes[state.number, window.name, scope] = None
        self._drop_expired(state, scope)
        return True

    def advance_scopes(
        self, state: BoardState, scopes: Iterable[str], limit: int | None = None
    ) -> bool:
        """Advance some scopes of a board; the board itself must have been advanced. For `limit` and
        the result see `advance`. O(1) for a scope that is not stale."""
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
        """Advance the scopes that a `Listing` request would return. For `limit` and the result see
        `advance`. Advancing removes scopes that have become empty, so the request is repeated until
        it returns only advanced scopes."""
        while True:
            scopes = self.index.scopes(state.number, listing.form, listing.after, listing.limit)
            stale = [
                s for s in scopes if self.index.generation(state.number, s) != state.generation
            ]
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
            self._advance_stale(state, SCOPES)

    def _advance_stale(self, state: BoardState, limit: int) -> int:
        """Advance the next stale scopes of a board until the cost reaches `limit`; return the
        cost."""
        count = max(1, limit // SCOPE_WORK)
        places = self.index.next_scopes(state.number, self._stale_from[state.number], count)
        for place in places:
            if not self.advance_scopes(state, [place[1]], max(limit, SCOPE_WORK)):
                return limit
            self._stale_from[state.number] = place
        if len(places) < count:
            del self._stale_from[state.number]
        return SCOPE_WORK * (1 + len(places))

    def work(self, limit: int) -> int:
        """Do due work at a cost of about `limit` visited members, and return how much is left (see
        `work_left`).

        The work is to advance the boards and scopes that were not read or written since their last
        boundary, to compute refreshes, and to make the passes for the next boundary.
        """
        while limit > 0 and self._due and self._due.first_ms <= self.clock_ms:
            limit -= self._advance_first(limit)
        for number in list(self._stale_from):
            while limit > 0 and number in self._stale_from:
                limit -= self._advance_stale(self._by_number[number], limit)
        limit = self.refreshes.work(limit)
        for each in list(islice(self._passes, SCOPES)):
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
            or self._due.first_ms <= self.clock_ms
        )

    @property
    def next_due_ms(self) -> int:
        """The time of the next end of a period or step, or of the next removal of a board. In event
        time this value has no meaning, since only writes move a board's time."""
        return min(self._due.first_ms, self.next_removal_ms)

    def work_left(self) -> int:
        """Return about how much due work is left, 0 if there is none. It is the number of members
        that the first SCOPES passes still have to visit, and 1 for each further pass and each board
        with stale scopes, besides the work left for refreshes."""
        some = sum(self.index.pass_left(*each) for each in islice(self._passes, SCOPES))
        more = max(0, len(self._passes) - SCOPES) + self.refreshes.left()
        return some + len(self._stale_from) + more

    def _advance_first(self, limit: int) -> int:
        """Advance the board whose due boundary is the oldest; return the cost."""
        due_ms, number = self._due.first
        if self._is_stale(due_ms, number):
            self._due.pop()
            return 1
        state = self._by_number[number]
        return BOUNDARY_WORK if self.advance(state, limit) else limit

    def _opened(self, state: BoardState) -> None:
        """Schedule the refreshes, the closing of periods and the next boundary of a board that was
        restored or copied."""
        self.refreshes.watch(state)
        self.closings.restored(state)
        self._due.push(state.due_ms, state.number)

    def resume_passes(self) -> None:
        """Resume the passes of all rolling windows in a restored index."""
        for state in self._by_number.values():
            for window in state.rules.windows:
                if self.index.pass_left(state.number, window):
                    self._passes[state.number, window, ALL] = None
            self._set_scopes_stale(state)

    def _drop_expired(self, state: BoardState, scope: str = ALL) -> None:
        oldest_ms = oldest_stored(state.rules, state.floors, self.time_of(state))
        keys = self.index.keys(state.number, scope)
        gone = expired(oldest_ms, keys)
        if state.closing:
            gone = [key for key in gone if not _is_unsealed(state, key)]
            for window in () if scope else state.closing.keys() & oldest_ms.keys():
                closed = state.closing[window].closed
                self.index.thaw(state.number, window, min([oldest_ms[window], *closed]))
            now_ms = self.time_of(state)
            gone += [
                key for key in keys if _is_copy(state, key, now_ms) and not _is_unsealed(state, key)
            ]
        self.index.drop(gone)

    def _watch_boundary(self, state: BoardState) -> None:
        now_ms = self.time_of(state)
        due_ms = min(next_boundary(state.rules, now_ms), state.hidden.next_end_ms(now_ms))
        if due_ms != state.due_ms:
            state.due_ms = due_ms
            self._due.push(due_ms, state.number)
        while self._is_stale(*self._due.first):
            self._due.pop()
        if len(self._due) > _STALE + 2 * len(self._by_number):
            # Outdated items are removed above only from the front of the heap. In event time, a
            # board without new events can stay there for a long time, while outdated items of other
            # boards collect behind it.
            self._due.keep(lambda due_ms, number: not self._is_stale(due_ms, number))

    def _is_stale(self, due_ms: int, number: int) -> bool:
        state = self._by_number.get(number)
        return state is None or state.due_ms != due_ms


def _copied_steps(state: BoardState, window: str) -> Collection[int]:
    """Return the steps of a rolling window at whose ends the shown ranking is copied. The copies
    are dropped once they are sealed."""
    closing = state.closing.get(window)
    return () if closing is None else {*closing.open, *closing.closed}


def _is_copy(state: BoardState, key: RankingKey, now_ms: int) -> bool:
    """Return whether a ranking is the copy of a rolling window's ranking at the end of a step."""
    window = state.rules.windows[key.window]
    return window.steps > 0 and key.instance < window.instance_of(window.period_at(now_ms))


def _is_unsealed(state: BoardState, key: RankingKey) -> bool:
    """Return whether a ranking stays in memory since its period is not sealed yet."""
    closing = state.closing.get(key.window)
    return closing is not None and closing.is_unsealed(key.instance)
