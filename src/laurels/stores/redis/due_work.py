"""The work that falls due on an index server as time passes: steps of rolling windows, periods that
are no longer kept, stale scopes, and passes over rankings."""

from math import inf

from msgspec.structs import replace

from laurels.core.board_state import BoardState
from laurels.core.lifecycle import Due, due_of, expired, next_boundary, oldest_stored, rolling_state
from laurels.errors import NotReady
from laurels.model.labels import ALL
from laurels.model.validation import quoted
from laurels.stores.intake.shares import MAX_MEMBERS, SHARE
from laurels.stores.redis.connection.deadline import ends_in
from laurels.timeline.clock import Clock
from laurels.timeline.instants import MAX_MS

from .closing import is_settled, may_be_unpaid
from .deletions import StoredDeletions
from .outdated import DefinitionOutdated, ScopesNotReady, StepNotReady
from .protocols import FollowedIndex
from .registered_boards import RegisteredBoards
from .registry import Registry
from .remote import opened_as
from .unrecorded import is_unsealed, oldest_boundaries, oldest_unsealed


class DueWork(RegisteredBoards):
    """The boards of an index server, with methods that do the due work of one board."""

    def __init__(
        self, index: FollowedIndex, registry: Registry, clock: Clock, stored: StoredDeletions
    ) -> None:
        super().__init__(index, registry, clock, stored)
        self._complete_passes: dict[tuple[int, str], int] = {}
        """The last step whose pass was found complete, by board number and window."""
        self.closings.rotate_steps = self.rotate_step
        self.closings.rotate_scopes = self.rotate_scopes
        self._passes_due: dict[int, bool] = {}
        """Whether passes over the rankings of a board may be due, by board number, for boards that
        have or had a head. A missing board counts as due, since another process may have begun
        passes."""
        self._swept: dict[int, tuple[int, int]] = {}
        """The definition version and the next boundary of a board when it last had no stale scope,
        by board number."""

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

    async def rotate_scopes(self, state: BoardState, now_ms: int) -> None:
        """Advance all stale scopes of a board, which rotates their rolling windows to the running
        step. Raises NotReady if that takes the work of more than MAX_MEMBERS members."""
        if now_ms < state.due_ms and self._swept.get(state.number) == (state.version, state.due_ms):
            return
        due = self.due_work(state, now_ms)
        for _ in range(0, MAX_MEMBERS, SHARE):
            if await self.index.sweep(opened_as(state), due, SHARE):
                return
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
        """Return the description of the due work in the scopes of a board that calls take."""
        due = due_of(state.number, state.rules, state.floors, now_ms)
        if not state.closing:
            return due
        oldest = oldest_unsealed(state, due.oldest_ms) | oldest_boundaries(state, now_ms)
        return replace(due, oldest_ms=oldest)

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
        """Record that the heads or grids of a board may have to be refilled or renewed."""
        self._passes_due[state.number] = True

    async def advance_head(self, state: BoardState, limit: int) -> int:
        """Continue to refill the heads of a board's rankings and to renew their grids, by one share
        of work. Do nothing if the board never had a head, or if this work is known to be complete.
        Return how many members are left."""
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

    async def set_scopes_stale(self, state: BoardState, now_ms: int) -> None:
        """Mark all scopes of a board as stale. Those that have become empty are then removed by a
        sweep, or when scopes are listed."""
        await self.index.set_stale(opened_as(state), now_ms)
        self._swept.pop(state.number, None)

    async def expire_ended(self, state: BoardState, now_ms: int) -> None:
        """If a board has ended and all its periods are sealed, let its keys expire at the time at
        which the board will be removed."""
        if not state.rules.has_ended(now_ms) or state.rules.gone_ms == MAX_MS:
            return
        if may_be_unpaid(state):  # it stays until its payouts are confirmed
            return
        if state.closing:
            await self.closings.find_open(state)
            if not is_settled(state, now_ms):
                return
        await self.index.expire_all(opened_as(state), now_ms, settled=True)

    async def pass_boundary(self, state: BoardState, now_ms: int) -> None:
        """Do the work of a board that is due because a period or step has ended."""
        try:
            await self.rotate_step(state, now_ms)
            await self.closings.ensure_loaded(state)
            oldest_ms = oldest_stored(state.rules, state.floors, now_ms)
            oldest_ms |= oldest_boundaries(state, now_ms)
            keys = await self.index.keys(opened_as(state), empty=True)
            periods = [key for key in keys if key.window in oldest_ms]
            if state.closing:
                periods = [key for key in periods if not is_unsealed(state, key)]
            gone = {*expired(oldest_ms, periods)}
            await self.index.drop(opened_as(state), [*gone])
            kept = [key for key in periods if key not in gone]
            await self.index.expire(opened_as(state), kept, now_ms)
            await self.index.forget(opened_as(state), now_ms)
            # The expiry is set again, since a process that changed the board may have failed before
            # it had set the expiry of all keys.
            await self.expire_ended(state, now_ms)
        except DefinitionOutdated:
            await self.reload_board(state)
        state.due_ms = next_boundary(state.rules, now_ms)


def _not_ready(state: BoardState) -> NotReady:
    return NotReady(
        f"the next step of the board {quoted(state.board.name)} is still being prepared"
    )
