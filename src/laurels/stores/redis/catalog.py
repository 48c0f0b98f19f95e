"""This process's copy of the board definitions and the time, and how it is updated.

If the copy is out of date, the index refuses the call (`outdated.py`). The caller then
updates the copy and tries again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from laurels.core.board_state import BoardState
from laurels.core.lifecycle import NEVER, Refreshed, next_boundary
from laurels.errors import (
    Closed,
    Forked,
    LaurelsError,
    NotReady,
    Unavailable,
    UnknownBoard,
    UnknownScope,
    UnknownWindow,
)
from laurels.model.validation import quoted
from laurels.stores.intake.shares import MAX_MEMBERS

from .due_work import DueWork
from .outdated import (
    ClosingsMoved,
    DefinitionOutdated,
    PassesNotReady,
    PlanExpired,
    RefreshChanged,
    StepNotReady,
)
from .refreshing import Place, refreshed_of
from .remote import RefreshStates, opened_as
from .retry import read_only

ATTEMPTS = 100
AT_ONCE = 6
"""The maximum number of calls that one round of refreshes makes for one window. This many calls
complete the refresh of a small board. A write waits for its calls. So in a round it makes at most
one call for a refresh that is known to be large (`Refreshing.is_large`)."""
MAX_DUE = 20
"""The maximum number of windows that one round of refreshes handles."""

T = TypeVar("T")


class BoardCatalog(DueWork):
    """The boards of an index server. It repeats calls that are refused because this process's copy
    is outdated, and does the due work of all boards."""

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
            except ClosingsMoved:
                await self.load_closings(state)
            except RefreshChanged:
                continue
        raise NotReady(f"the board {quoted(board)} kept changing while it was read")

    @read_only
    async def read_hidden(self, board: str) -> BoardState:
        """Return a board, after its hidden members were read from the server."""

        async def read(state: BoardState) -> BoardState:
            await self.hidings.update(state)
            return self.boards.current(state)

        return await self.retry_outdated(board, read)

    async def end_hidings(self, state: BoardState) -> None:
        """Remove the hidings that have ended: those of a board, and those on all boards."""
        now_ms = self.time_of(state)
        # Periods are closed before hidings end: a member who was hidden when a period became final
        # stays hidden in it.
        if now_ms >= state.final_ms:
            await self.closings.close_due(state, now_ms)
        await self.hidings.do_due_work(self.now())
        await self.hidings.end_due(state, now_ms)

    async def close_all_due(self) -> None:
        """Close the due periods of all boards."""

        async def close(state: BoardState) -> int:
            return await self.closings.close_due(state, self.time_of(state))

        for state in list(self.boards.boards.values()):
            if self.time_of(state) >= state.final_ms:
                with suppress(UnknownBoard):  # the board was deleted meanwhile
                    await self.retry_outdated(state.board.name, close)

    async def work(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work. Return approximately how much work is left, and in how many
        milliseconds more work falls due."""
        left = 0
        await self.remove_gone()
        await self.hidings.do_due_work(self.now())
        for state in list(self.boards.boards.values()):
            now_ms = self.time_of(state)
            try:
                await self.closings.ensure_loaded(state)
                await self.closings.close_due(state, now_ms)
                if state.hidden:
                    await self.hidings.end_due(state, now_ms)
                if state.due_ms <= now_ms:
                    await self.pass_boundary(state, now_ms)
                    if state.rules.has_label_replica:  # its feeds may have uncounted events
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
        due = [min(state.due_ms, state.final_ms) for state in self.boards.boards.values()]
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
        """Refresh the windows that are due, at the end of a write. For each large refresh make only
        one call, since the write waits for it; with `paced` make none, since a background task does
        the large refreshes."""
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
                self._swept.pop(number, None)  # sweep again: scopes may be empty now
                break
        self.registry.refreshing.note_progress(place, left)
        return left

    async def feed(self, board: str) -> bool:
        """Bring the rankings by a label up to date: count in them the events that the shards of a
        board have counted. Return False if some of these events are still not counted there."""

        async def feed(state: BoardState) -> bool:
            return await self.index.feed(opened_as(state), self.time_of(state))

        return await self.retry_outdated(board, feed)
