"""The refreshed windows that this process knows, and when to refresh them.

Every call that counts, reads or refreshes also returns the refresh states of its board, so a
process knows when the windows of the boards that it uses are due. It also checks the windows of all
other boards once per refresh interval, since the processes that write to these boards may have
ended. The server decides whether a window is still due, since another process may have refreshed it
in the meantime.
"""

import heapq
from collections.abc import Callable, Mapping

from laurels.core.board_state import Boards, BoardState
from laurels.core.lifecycle import Refreshed, RefreshState, of_shards
from laurels.model.windows.rolling import Rolling
from laurels.timeline.instants import MAX_MS, MIN_MS

from .remote import RefreshStates

Place = tuple[int, str]
"""The number of a board, and the name of one of its windows."""


class Refreshing:
    """The refresh states of all boards, and when each window is due.

    An entry of the queue is outdated, and skipped, if its time differs from the window's time in
    `_due`. `_large` has the windows whose refresh a write has begun and left unfinished.
    """

    def __init__(self) -> None:
        self._refresh_states: dict[Place, dict[int, RefreshState]] = {}
        self._queue: list[tuple[int, int, str]] = []
        self._due: dict[Place, int] = {}
        self._large: set[Place] = set()

    def watch(self, state: BoardState) -> None:
        """Schedule a check of the windows of a board that is new to this process."""
        for window in state.rules.refreshed:
            self._put((state.number, window), MIN_MS)

    def note(self, state: BoardState, refresh_states: RefreshStates, now_ms: int) -> None:
        """Store refresh states of windows, except those that are older than the stored ones."""
        for shard, windows in refresh_states.items():
            for name, refresh_state in windows.items():
                own = self._refresh_states.setdefault((state.number, name), {})
                if shard not in own or own[shard].seen <= refresh_state.seen:
                    own[shard] = refresh_state
        for name, window in state.rules.refreshed.items():
            own = self._refresh_states.get((state.number, name), {})
            state.refreshed[name] = refreshed_of(state, own)
            if state.rules.has_label_replica:
                state.refreshed_by[name] = refreshed_of(state, own, by=True)
            self._put((state.number, name), _due_ms(window, own, now_ms, state.rules.shards))

    def forget(self, number: int) -> None:
        """Remove the refresh states of a board."""
        for place in [place for place in self._due if place[0] == number]:
            del self._due[place]
            self._refresh_states.pop(place, None)
            self._large.discard(place)

    def next_ms(self) -> int:
        """Return the time at which the next window has to be checked; MAX_MS if there are no
        windows."""
        while self._queue and self._is_stale(self._queue[0]):
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else MAX_MS

    def due(
        self, now_ms: int, most: int, time_of: Callable[[int], int] | None = None
    ) -> list[Place]:
        """Return up to `most` windows to check now, in the order in which they became due. A window
        stays due until `note` stores another refresh state of it. `time_of`, which returns the time
        of a board by its number, is needed only if a board's time may be before `now_ms`."""
        due: list[tuple[int, int, str]] = []
        early: list[tuple[int, int, str]] = []
        while len(due) < most and self.next_ms() <= now_ms:
            entry = heapq.heappop(self._queue)
            is_due = time_of is None or entry[0] <= time_of(entry[1])
            (due if is_due else early).append(entry)
        for entry in (*due, *early):
            heapq.heappush(self._queue, entry)
        return list(dict.fromkeys(entry[1:] for entry in due))

    def is_due(self, place: Place, now_ms: int) -> bool:
        """Return whether a window is due according to the stored refresh states."""
        return self._due.get(place, MAX_MS) <= now_ms

    def interval_ms(self, boards: Boards) -> int:
        """Return the shortest refresh interval of the large windows (see `is_large`); MAX_MS if
        there are none."""
        states = [(boards.find_by_number(number), window) for number, window in self._large]
        intervals = [
            state.rules.refreshed[window].interval_ms
            for state, window in states
            if state is not None and window in state.rules.refreshed
        ]
        return min(intervals, default=MAX_MS)

    def is_large(self, place: Place) -> bool:
        """Return whether a refresh of the window was so large that the write that began it could
        not complete it."""
        return place in self._large

    def note_progress(self, place: Place, left: int) -> None:
        """Record how many members a refresh still has to process."""
        if left:
            self._large.add(place)
        else:
            self._large.discard(place)

    def _put(self, place: Place, due_ms: int) -> None:
        if self._due.get(place) != due_ms:
            self._due[place] = due_ms
            heapq.heappush(self._queue, (due_ms, *place))

    def _is_stale(self, entry: tuple[int, int, str]) -> bool:
        return self._due.get(entry[1:]) != entry[0]


def refreshed_of(
    state: BoardState, states: Mapping[int, RefreshState], *, by: bool = False
) -> Refreshed:
    """Combine the refresh states of a board's shards into that of the rankings of members. With
    `by`, return the refresh state of the rankings by a label, which are in the label replica."""
    count = state.rules.shards
    shards = [count] if by else range(count)
    return of_shards([states.get(shard, RefreshState()) for shard in shards])


def _due_ms(window: Rolling, states: Mapping[int, RefreshState], now_ms: int, shards: int) -> int:
    """Return when a window is due. It is due at once if the state of a shard is unknown, as after
    the first write of a process, which returns the states of those shards only that it wrote to."""
    if any(shard not in states for shard in range(shards)):
        return MIN_MS
    return min(
        [
            window.due_after(now_ms),
            *[each.due_ms(window) for each in states.values()],
        ]
    )
