"""Refreshes: which windows are recomputed at intervals, and when each refresh is due.

A refreshed window shows the result of its last logged refresh. A refresh is a record like any
other, so the state stays a function of the log. This module determines which refreshes are due, and
builds large rankings ahead, in shares, so that applying the record is O(1). Small rankings are
built when the record is written.

The interval of a window determines its refresh times (`model.windows.refresh_times`). A refresh is
due at the first refresh time after the last refresh, or at once if there was none. Windows that
cannot have members are not refreshed. A build starts over when a step of its window ends.
"""

import heapq
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from laurels.timeline.instants import MAX_MS

from .board_state import BoardState
from .index import COUNTED, Index, Outcomes
from .lifecycle import NEVER, Refreshed
from .plan import Plan

UNBUILT_CELLS = 4_096
"""The maximum number of cells that a commit adds up for refreshes that were not built ahead. Adding
up so many cells takes about a millisecond."""
MOST = 100
"""The maximum number of refreshes in one commit."""
SCOPE_WORK = 10
"""The cost of visiting a scope, in cells."""

Due = tuple[BoardState, str]
"""A board, and the name of the window to refresh."""


class Build(Struct):
    """The progress of a build: the step for which the ranking is built (`running`), and the scope
    that the build has reached (`place`)."""

    running: int | None = None
    place: tuple[str, str] | None = None
    complete: bool = False


class Refreshes:
    """The refreshed windows of all boards.

    `time_of`, `advance` and `advance_scopes` are methods of the fold. `builds` has the progress of
    each refresh that is being built. In event time each board has its own time, but all refreshes
    are in one heap. If the first refresh in the heap is later than the time of its own board, it is
    set aside in `_parked` until this board counts an event.
    """

    def __init__(
        self,
        index: Index,
        find_by_number: Callable[[int], BoardState | None],
        time_of: Callable[[BoardState], int],
        advance: Callable[[BoardState, int], bool],
        advance_scopes: Callable[[BoardState, Iterable[str], int], bool],
    ) -> None:
        self._index = index
        self._find_by_number = find_by_number
        self._time_of = time_of
        self._advance = advance
        self._advance_scopes = advance_scopes
        self._due: list[tuple[int, int, str]] = []
        self._parked: dict[int, list[tuple[int, int, str]]] = {}
        self.builds: dict[tuple[int, str], Build] = {}

    # Notifications from the fold

    def watch(self, state: BoardState) -> None:
        """Schedule the refreshes of a board's windows."""
        for name in state.refreshed:
            self._push(state, name)

    def counted(self, state: BoardState, plan: Plan, outcomes: Outcomes) -> None:
        """Record that events of a board were counted."""
        for due in self._parked.pop(state.number, ()):
            heapq.heappush(self._due, due)
        for name in state.rules.refreshed:
            current = state.refreshed.get(name, NEVER)
            if not current.waiting and _counts_in(name, plan, outcomes):
                self._set_state(state, name, replace(current, waiting=True))

    def changed(self, state: BoardState, offset: int) -> None:
        """Record that the log entry at this offset changed the lists that refreshed windows show:
        it removed a member or changed a member's data."""
        for name, current in state.refreshed.items():
            is_later = isinstance(current.offset, int) and current.offset > offset
            if current.now_ms is not None and not is_later:
                state.refreshed[name] = replace(current, offset=offset)
        self._index.touch(state.number)

    def refreshed(self, state: BoardState, window: str, now_ms: int, offset: int) -> None:
        """Refresh a window of a board that has been advanced.

        This takes O(1) if the build is complete. Otherwise all scopes are refreshed here; the
        caller must have advanced them.
        """
        refresh = (
            self._index.switch_to_built if self.is_built(state, window) else self._index.refresh
        )
        self.builds.pop((state.number, window), None)
        self._set_state(state, window, Refreshed(offset, now_ms, refresh(state.number, window)))

    def is_built(self, state: BoardState, window: str) -> bool:
        """Return whether the build of a window is complete in every scope."""
        build = self.builds.get((state.number, window))
        running = state.rules.refreshed[window].number_at(self._time_of(state))
        return build is not None and build.complete and build.running == running

    def forget(self, number: int) -> None:
        """Forget a board."""
        self._parked.pop(number, None)
        for each in [each for each in self.builds if each[0] == number]:
            del self.builds[each]

    def _set_state(self, state: BoardState, name: str, refreshed: Refreshed) -> None:
        state.refreshed[name] = refreshed
        self._push(state, name)
        self._index.touch(state.number)

    def _push(self, state: BoardState, name: str) -> None:
        due_ms = state.refreshed[name].due_ms(state.rules.refreshed[name])
        if due_ms < MAX_MS:
            heapq.heappush(self._due, (due_ms, state.number, name))

    # Due refreshes

    @property
    def pending(self) -> bool:
        """Whether any refresh is being built, or will be due at some time."""
        return bool(self._due or self.builds)

    def ready(self, now_ms: int) -> list[Due]:
        """Return the due refreshes that can be written now: those whose build is complete, and
        small ones, which need no build. Begin to build the other due refreshes. No board's time may
        be after `now_ms`."""
        refreshes: list[Due] = []
        for number, window in self.builds:
            state = self._state(number)
            if len(refreshes) < MOST and self.is_built(state, window):
                refreshes.append((state, window))
        room = UNBUILT_CELLS
        kept: list[tuple[int, int, str]] = []
        while self._due and self._due[0][0] <= now_ms and len(refreshes) < MOST and room >= 0:
            due = heapq.heappop(self._due)
            due_ms, number, window = due
            if self._is_stale(due) or (number, window) in self.builds:
                continue
            if due_ms > self._time_of(self._state(number)):
                self._parked.setdefault(number, []).append(due)
                continue
            cost = self._index.refresh_cost(number, window, UNBUILT_CELLS)
            if cost > UNBUILT_CELLS:
                self.builds[number, window] = Build()
                continue
            kept.append(due)
            if cost <= room:
                refreshes.append((self._state(number), window))
            room -= cost
        for due in kept:
            heapq.heappush(self._due, due)
        return refreshes

    def _is_stale(self, due: tuple[int, int, str]) -> bool:
        due_ms, number, window = due
        if (state := self._find_by_number(number)) is None:
            return True
        current = state.refreshed.get(window, NEVER)
        return current.due_ms(state.rules.refreshed[window]) != due_ms

    def _state(self, number: int) -> BoardState:
        state = self._find_by_number(number)
        assert state is not None, "the builds of a deleted board are removed"
        return state

    # Builds

    def work(self, limit: int) -> int:
        """Continue the builds by about `limit` cells; return the part of the limit that is left."""
        for number, window in list(self.builds):
            if limit <= 0:
                break
            limit -= self._build(self._state(number), window, limit)
        return limit

    def left(self) -> int:
        """Return about how many cells the builds have left, 0 if all are complete. A scope that was
        not visited yet counts as one cell."""
        total = 0
        for number, window in self.builds:
            if not self.is_built(self._state(number), window):
                total += 1 + self._index.build_left(number, window)
        return total

    @property
    def interval_ms(self) -> int:
        """The shortest refresh interval of the windows being built, MAX_MS if there are
        none."""
        return min(
            (
                self._state(number).rules.refreshed[window].interval_ms
                for number, window in self.builds
            ),
            default=MAX_MS,
        )

    def _build(self, state: BoardState, window: str, limit: int) -> int:
        """Continue a build; return the cost."""
        build = self.builds[state.number, window]
        if not self._advance(state, limit):
            return limit
        running = state.rules.refreshed[window].number_at(self._time_of(state))
        if build.running != running:
            build = self.builds[state.number, window] = Build(running)
            self._index.begin_build(state.number, window)
        if build.complete:
            return 0
        spent = 0
        if build.place is None:
            spent, done = self._build_scope(state, window, "", limit)
            if not done:
                return limit
        while spent < limit and not build.complete:
            count = max(1, (limit - spent) // SCOPE_WORK)
            places = self._index.next_scopes(state.number, build.place, count)
            for place in places:
                cost, done = self._build_scope(state, window, place[1], max(1, limit - spent))
                spent += cost + SCOPE_WORK
                if not done:
                    return limit
                build.place = place
                if spent >= limit:
                    return spent
            build.complete = len(places) < count
        return spent

    def _build_scope(
        self, state: BoardState, window: str, scope: str, limit: int
    ) -> tuple[int, bool]:
        """Continue the build of one scope; return the cost, and whether it is complete."""
        if scope and not self._advance_scopes(state, [scope], max(limit, SCOPE_WORK)):
            return limit, False
        before = self._index.build_left(state.number, window, scope)
        left = self._index.build(state.number, window, limit, scope) if before else 0
        return max(1, before - left), left == 0


def _counts_in(window: str, plan: Plan, outcomes: Outcomes) -> bool:
    """Return whether any event was counted in a window."""
    counting = [i for i, spec in enumerate(plan.specs) if spec.window == window]
    return any(
        code in COUNTED and any(plan.index_of(spec, event) >= 0 for spec in counting)
        for event, code in enumerate(outcomes.codes)
    )
