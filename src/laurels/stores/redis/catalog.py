"""This process's copy of the board definitions and the time, and how it is updated.

If the copy is out of date, the index refuses the call (`outdated.py`). The caller then
updates the copy and tries again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TypeVar

from laurels.core.board_state import Boards, BoardState
from laurels.core.changes.deleted import Deletion
from laurels.core.lifecycle import (
    NEVER,
    Due,
    Refreshed,
    due_of,
    expired,
    next_boundary,
    oldest_stored,
    rolling_state,
)
from laurels.errors import (
    Closed,
    Forked,
    LaurelsError,
    NotReady,
    Unavailable,
    UnknownScope,
    UnknownWindow,
)
from laurels.errors.placement import BoardMoving
from laurels.model.labels import ALL
from laurels.model.validation import quoted
from laurels.stores.intake.shares import MAX_MEMBERS, SHARE
from laurels.stores.intake.tags import new_tag
from laurels.stores.redis.connection.deadline import ends_in
from laurels.timeline.clock import Clock, EventClock
from laurels.timeline.instants import MAX_MS, MIN_MS

from .deletions import ServerDeletions, StoredDeletions
from .outdated import (
    DefinitionOutdated,
    PassesNotReady,
    PlanExpired,
    RefreshChanged,
    ScopesNotReady,
    StepNotReady,
)
from .protocols import FollowedIndex
from .refreshing import Place, refreshed_of
from .registry import Registry
from .remote import Opened, RefreshStates

ATTEMPTS = 100
AT_ONCE = 6
"""The maximum number of calls that one round of refreshes makes for one window. This many calls
complete the refresh of a small board. A write waits for its calls. So in a round it makes at most
one call for a refresh that is known to be large (`Refreshing.is_large`)."""
MAX_DUE = 20
"""The maximum number of windows that one round of refreshes handles."""

T = TypeVar("T")


class BoardCatalog:
    """This process's copy of the boards, the index that stores their rankings, and the time."""

    def __init__(
        self, index: FollowedIndex, registry: Registry, clock: Clock, stored: StoredDeletions
    ) -> None:
        self.index = index
        self.registry = registry
        self.clock = clock
        self.event_time = isinstance(clock, EventClock)
        """Whether the store uses event time, so that a board's time is the latest `at` of its
        events."""
        registry.boards.event_time = self.event_time
        self.latest_ms = MIN_MS
        """The latest time so far. `now` never returns an earlier time."""
        self.deletions = ServerDeletions(
            index, registry, stored, self.now, event_time=self.event_time
        )
        self._complete_passes: dict[tuple[int, str], int] = {}
        """The last step whose pass was found complete, by board number and window."""
        self._passes_due: dict[int, bool] = {}
        """Whether passes over the rankings of a board may be due, by board number, for boards that
        have or had a head. A missing board counts as due, since another process may have begun
        passes."""
        self._swept: dict[int, tuple[int, int]] = {}
        """The definition version and the next boundary of a board when it last had no stale scope,
        by board number."""

    @property
    def boards(self) -> Boards:
        return self.registry.boards

    # Boards

    async def find_board(self, board: str) -> BoardState:
        """Return the board of that name. If it is unknown, first read the definitions again."""
        self.set_gone()
        if board not in self.boards.boards:
            await self.load()
        return self.boards.named(board)

    async def load(self) -> bool:
        """Read the definitions; return whether any has changed since they were last read."""
        changed = await self.registry.load()
        self.set_gone()
        return changed

    def set_gone(self) -> None:
        """Remove from this process's copy the boards that are no longer retained."""
        if self.boards.next_removal_ms < MAX_MS:
            self.registry.set_gone(self.now())

    async def remove_gone(self) -> None:
        """Remove from the server the data of boards that are no longer retained. Skip boards that
        another process has already removed."""
        self.set_gone()
        await self.deletions.forget_expired()
        if not self.registry.gone:
            return
        for name, state in list(self.registry.gone.items()):
            if self.registry.gone.get(name) is state:
                with suppress(BoardMoving):  # it is removed after the move
                    await self.deletions.delete(state, state.rules.gone_ms, new_tag())
        await self.remove_deleted()

    async def reload_board(self, state: BoardState) -> None:
        """Read the definitions again, and register this board on the server if it still exists."""
        await self.registry.load()
        before = self.boards.find_by_number(state.number)
        if before is None:
            return
        await self.index.open(opened_as(before))
        await self.registry.load()
        if self.boards.find_by_number(state.number) is None:  # the board was deleted meanwhile
            await self.deletions.close(opened_as(before))

    async def remove_deleted(self) -> None:
        """Remove the remaining data of deleted boards, except changes that are kept."""
        await self.deletions.remove_deleted()

    async def find_deletion(self, board: str, uid: str | None) -> Deletion | None:
        """Return the deleted board with this name and unique id; None if there is none, or if its
        changes are no longer kept."""
        await self.remove_gone()
        return None if uid is None else await self.deletions.find(board, uid)

    async def retry_outdated(self, board: str, action: Callable[[BoardState], Awaitable[T]]) -> T:
        """Return the result of `action` for a board. If the index refuses a call because this
        process's copy is outdated, update the copy and call `action` again."""
        reread = False
        for _ in range(ATTEMPTS):
            self.set_gone()
            state = self.boards.boards.get(board) or await self.find_board(board)
            try:
                if self.event_time:
                    await self.read_time(state)
                return await action(state)
            except (UnknownWindow, UnknownScope):
                if reread or not await self.load():
                    raise
                reread = True
            except DefinitionOutdated:
                await self.reload_board(state)
            except PlanExpired as error:
                self.note_time(state, error.now_ms)
            except StepNotReady as error:
                await self.advance(state, self.time_of(state), error)
            except PassesNotReady:
                self.note_passes_due(state)
                await self.advance_head(state, MAX_MEMBERS)
            except RefreshChanged:
                continue
        raise NotReady(f"the board {quoted(board)} kept changing while it was read")

    # Time

    def now(self) -> int:
        """Return the later of the clock's time and the latest time so far."""
        self.latest_ms = max(self.latest_ms, self.clock.now_ms())
        return self.latest_ms

    def time_of(self, state: BoardState) -> int:
        """Return the current time of a board. In event time this is the latest `at` that this
        process knows of."""
        return state.now_ms if self.event_time else self.now()

    def _time_of_number(self, number: int) -> int:
        state = self.boards.find_by_number(number)
        return self.latest_ms if state is None else self.time_of(state)

    def note_time(self, state: BoardState, now_ms: int) -> None:
        """Record that a board has reached a time."""
        state.now_ms = max(state.now_ms, now_ms)
        self.latest_ms = max(self.latest_ms, now_ms)
        if isinstance(self.clock, EventClock):
            self.clock.observe(now_ms)

    async def read_time(self, state: BoardState) -> None:
        """Read the time that a board has reached by events of other processes."""
        if (now_ms := await self.index.time(opened_as(state))) is not None:
            self.note_time(state, now_ms)

    async def rotate_step(self, state: BoardState, now_ms: int) -> None:
        """Rotate the rolling windows of a board to the running step."""
        for window in state.rules.windows.values():
            roll = rolling_state(state.number, window, now_ms)
            if roll is None:
                continue
            for _ in range(0, MAX_MEMBERS, SHARE):
                if await self.index.rotate_step(opened_as(state), roll, now_ms, SHARE):
                    break
            else:
                raise _not_ready(state)

    async def advance(self, state: BoardState, now_ms: int, error: StepNotReady) -> None:
        """Advance the scopes that the index reported as stale. Raises NotReady if that takes the
        work of more than MAX_MEMBERS members. If the definition has changed, read it again and
        return, so that the caller tries again."""
        try:
            with ends_in(
                inf, anew=True
            ):  # this loop needs no time limit: it makes progress as long as the server answers
                await self._advance(state, now_ms, error)
        except DefinitionOutdated:
            await self.reload_board(state)

    async def _advance(self, state: BoardState, now_ms: int, error: StepNotReady) -> None:
        if ALL in error.scopes:
            await self.rotate_step(state, now_ms)
        scopes = [scope for scope in error.scopes if scope]
        full = isinstance(error, ScopesNotReady)
        opened, due = opened_as(state), self.due_work(state, now_ms)
        if scopes and not await self.index.advance_scopes(
            opened, scopes, due, MAX_MEMBERS, full=full
        ):
            raise _not_ready(state)
        if full:  # the call was a list of scopes: the next list may include other stale scopes
            await self.index.sweep(opened, due, SHARE)

    def due_work(self, state: BoardState, now_ms: int) -> Due:
        """Return the work that is due for the scopes of a board."""
        return due_of(state.number, state.rules, state.floors, now_ms)

    async def work(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work. Return approximately how much work is left, and in how many
        milliseconds more work falls due."""
        left = 0
        await self.remove_gone()
        for state in list(self.boards.boards.values()):
            now_ms = self.time_of(state)
            try:
                if state.due_ms <= now_ms:
                    await self.pass_boundary(state, now_ms)
                    if state.rules.has_label_replica:  # a failed process may have left events
                        left += not await self.feed(state.board.name)
                left += await self._advance_passes(state, now_ms, limit)
                left += await self.advance_head(state, limit)
                left += await self.sweep(state, now_ms, limit)
            except DefinitionOutdated:
                await self.reload_board(state)
            except (Unavailable, Closed, Forked):
                raise
            except LaurelsError:  # an error of one board must not delay the others
                continue
        refreshing = self.registry.refreshing
        left += await self._refresh_due_windows(AT_ONCE)
        now_ms = self.now()
        due = [state.due_ms for state in self.boards.boards.values()]
        due.append(self.boards.next_removal_ms)
        if (next_ms := refreshing.next_ms()) > now_ms:
            due.append(next_ms)
        until_ms = max(0, min(due, default=now_ms) - now_ms)
        return left, min(until_ms, refreshing.interval_ms(self.boards))

    # Refreshed windows

    def note_refresh_states(self, state: BoardState, refresh_states: RefreshStates) -> None:
        """Store the refresh states of a board's windows. Do nothing if the board is gone: after the
        server was emptied, another board may have the same number."""
        if state.rules.refreshed and self.boards.find_current(state) is not None:
            self.registry.refreshing.note(state, refresh_states, self.time_of(state))

    def ensure_unchanged(
        self,
        state: BoardState,
        before: Sequence[Mapping[str, Refreshed]],
        states: RefreshStates,
    ) -> None:
        """Raise RefreshChanged if a window was refreshed since the states `before` were read.
        If `states` has the states of the label replica, compare the states of the rankings by a
        label, otherwise those of the rankings of members."""
        self.note_refresh_states(state, states)
        by = state.rules.has_label_replica and state.rules.shards in states
        for window in state.rules.refreshed:
            own = {shard: windows[window] for shard, windows in states.items()}
            current, was = refreshed_of(state, own, by=by), before[by].get(window)
            if was is None or (was.offset, was.now_ms) != (current.offset, current.now_ms):
                raise RefreshChanged

    async def refresh_due_windows(self, *, paced: bool) -> None:
        """Refresh the windows that are due. Make only one call for a large refresh, since the
        writer waits for it. With `paced`, make no call for it, since a background task does large
        refreshes."""
        with suppress(LaurelsError):  # after an error, the work stays due
            await self._refresh_due_windows(0 if paced else 1)

    async def _refresh_due_windows(self, calls: int) -> int:
        """Continue the refreshes that are due. A large refresh is continued by at most `calls`
        calls. Return approximately how many members are left."""
        left = 0
        for place in self.registry.refreshing.due(self.now(), MAX_DUE, self._time_of_number):
            state = self.boards.find_by_number(place[0])
            large = self.registry.refreshing.is_large(place)
            most = calls if large else max(calls, AT_ONCE)
            if state is None or not most:
                continue
            refresh = partial(self._refresh_window, place, most)
            try:
                left += await self.retry_outdated(state.board.name, refresh)
            except (Unavailable, Closed, Forked):
                raise
            except LaurelsError:  # an error of one board must not delay the others
                continue
        return left

    async def _refresh_window(self, place: Place, calls: int, state: BoardState) -> int:
        """Continue one refresh if it is still due. Return approximately how many members are
        left."""
        number, window = place
        if state.number != number or window not in state.rules.refreshed:
            return 0
        now_ms, opened, left = self.time_of(state), opened_as(state), 0
        due_ms = next_boundary(state.rules, now_ms)
        if not state.refreshed.get(window, NEVER).waiting:
            read = await self.index.read(opened, [], now_ms=now_ms, due_ms=due_ms)
            self.note_refresh_states(state, read.refresh_states)
        for _ in range(calls if self.registry.refreshing.is_due(place, now_ms) else 0):
            left, states = await self.index.refresh(opened, window, now_ms=now_ms, due_ms=due_ms)
            self.note_refresh_states(state, states)
            if not left:
                self._swept.pop(number, None)  # some scopes may be empty now
                break
        self.registry.refreshing.note_progress(place, left)
        return left

    async def _advance_passes(self, state: BoardState, now_ms: int, limit: int) -> int:
        """Continue the passes of a board, by one share of work for each window whose pass is not
        known to be complete. Return how many members are left."""
        left = 0
        for window in state.rules.windows.values():
            roll = rolling_state(state.number, window, now_ms)
            if (
                roll is None
                or self._complete_passes.get((state.number, window.name)) == roll.running
            ):
                continue
            of_window = await self.index.advance_pass(opened_as(state), window.name, limit)
            if not of_window:
                self._complete_passes[state.number, window.name] = roll.running
            left += of_window
        return left

    def note_passes_due(self, state: BoardState) -> None:
        """Record that passes over rankings with a head are due."""
        self._passes_due[state.number] = True

    async def advance_head(self, state: BoardState, limit: int) -> int:
        """Continue the passes over the rankings of a board that has or had a head, by one share of
        work. Do nothing if they are known to be complete. Return how many members are left."""
        if not self._passes_due.get(state.number, state.rules.head > 0):
            return 0
        left = await self.index.advance_head(opened_as(state), limit)
        self._passes_due[state.number] = left > 0
        return left

    async def sweep(self, state: BoardState, now_ms: int, limit: int) -> int:
        """Advance some stale scopes, at a cost of about `limit` members. Return 0 if no stale scope
        is left, else 1."""
        before = state.version, state.due_ms
        if not state.rules.scoped or self._swept.get(state.number) == before:
            return 0
        if await self.index.sweep(opened_as(state), self.due_work(state, now_ms), limit):
            self._swept[state.number] = before
            return 0
        return 1

    async def feed(self, board: str) -> bool:
        """Bring the rankings by a label up to date: count in them the events that the shards of a
        board have counted. Return False if some of these events are left."""

        async def feed(state: BoardState) -> bool:
            return await self.index.feed(opened_as(state), self.time_of(state))

        return await self.retry_outdated(board, feed)

    async def pass_boundary(self, state: BoardState, now_ms: int) -> None:
        """Do the work of a board that is due because a period or step has ended."""
        try:
            await self.rotate_step(state, now_ms)
            oldest_ms = oldest_stored(state.rules, state.floors, now_ms)
            keys = await self.index.keys(opened_as(state), empty=True)
            periods = [key for key in keys if key.window in oldest_ms]
            gone = {*expired(oldest_ms, periods)}
            await self.index.drop(opened_as(state), [*gone])
            kept = [key for key in periods if key not in gone]
            await self.index.expire(opened_as(state), kept, now_ms)
            await self.index.forget(opened_as(state), now_ms)
            if state.rules.has_ended(now_ms) and state.rules.gone_ms < MAX_MS:
                # The expiry is set again, since a process that changed the board may have failed
                # before it had set the expiry of all keys.
                await self.index.expire_all(opened_as(state), now_ms)
        except DefinitionOutdated:
            await self.reload_board(state)
        state.due_ms = next_boundary(state.rules, now_ms)


def opened_as(state: BoardState) -> Opened:
    """Return a board with its version and rules, in the form that calls of the index take."""
    return Opened(state.number, state.version, state.rules, uid=state.uid)


def _not_ready(state: BoardState) -> NotReady:
    return NotReady(
        f"the next step of the board {quoted(state.board.name)} is still being prepared"
    )
