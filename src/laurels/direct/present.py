"""What this process knows of the boards and of the time, and how it comes to know better.

The copy of the definitions may be old and so may be what time it is: the index says so
(`index.remote`), and whoever asked looks again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from laurels.boards import Boards, BoardState
from laurels.clock import Clock, EventClock
from laurels.errors import (
    Closed,
    Forked,
    LaurelsError,
    NotReady,
    Unavailable,
    UnknownWindow,
)
from laurels.index.remote import Behind, Opened, RemoteIndex, Stale, Unturned
from laurels.plan import counted_from, next_boundary, roll_of
from laurels.service import MOST, SHARE
from laurels.windows import MIN_MS, Rolling

from .registry import Registry

TRIES = 100

T = TypeVar("T")


class Present:
    """The boards as they are known here, the index that holds them, and the time."""

    def __init__(self, index: RemoteIndex, registry: Registry, clock: Clock) -> None:
        self.index = index
        self.registry = registry
        self.clock = clock
        self.latest_ms = MIN_MS
        """The newest time that was seen."""
        self._prepared: dict[tuple[int, str], int] = {}
        """The step in which the pass of a rolling window was found complete."""

    @property
    def boards(self) -> Boards:
        return self.registry.boards

    @property
    def event_time(self) -> bool:
        """Whether now is the latest `at` seen."""
        return isinstance(self.clock, EventClock)

    # Boards

    async def know(self, board: str) -> BoardState:
        """The board of that name."""
        if board not in self.boards.boards:
            await self.registry.load()
        return self.boards.named(board)

    async def refresh(self, state: BoardState) -> None:
        """Reads the definitions again and has the server know this board, if it is one."""
        await self.registry.load()
        known = self.boards.numbered(state.number)
        if known is None:
            return
        await self.index.open(opened_as(known))
        await self.registry.load()
        if self.boards.numbered(state.number) is None:  # deleted meanwhile: nothing is left behind
            await self.index.close(opened_as(known))

    async def clear(self) -> None:
        """Takes away what is left of boards that were deleted."""
        for body, opened in await self.registry.deleted():
            await self.index.close(opened)
            await self.registry.cleared(body)

    async def again(self, board: str, look: Callable[[BoardState], Awaitable[T]]) -> T:
        """What a look at a board says, repeated where the board was known wrongly."""
        reread = False
        for _ in range(TRIES):
            state = await self.know(board)
            try:
                return await look(state)
            except UnknownWindow:
                if reread or not await self.registry.load():
                    raise
                reread = True
            except Stale:
                await self.refresh(state)
            except Behind as behind:
                self.see(behind.now_ms)
            except Unturned:
                await self.turn(state, self.now())
        raise NotReady(f"the board {board!r} does not stand still")

    # Time

    def now(self) -> int:
        """The time, never less than what was seen."""
        self.see(self.clock.now_ms())
        return self.latest_ms

    def see(self, now_ms: int) -> None:
        """Takes note of a time that has come."""
        self.latest_ms = max(self.latest_ms, now_ms)
        if isinstance(self.clock, EventClock):
            self.clock.observe(now_ms)

    async def turn(self, state: BoardState, now_ms: int) -> None:
        """Brings the rolling windows of a board to the step that runs; NotReady after MOST
        members: another call goes on from there."""
        for window in state.rules.windows.values():
            roll = roll_of(state.number, window, now_ms)
            if roll is None:
                continue
            for _ in range(0, MOST, SHARE):
                if await self.index.turn(opened_as(state), roll, now_ms, SHARE):
                    break
            else:
                raise NotReady(f"a step of the board {state.board.name!r} is being prepared")

    async def work(self, limit: int) -> tuple[int, int]:
        """Does a share of what time has made due; what is left, and the milliseconds until more
        is."""
        now_ms = self.now()
        left = 0
        for state in list(self.boards.boards.values()):
            try:
                if state.due_ms <= now_ms:
                    await self.pass_boundary(state, now_ms)
                left += await self._prepare(state, now_ms, limit)
            except Stale:
                await self.refresh(state)
            except (Unavailable, Closed, Forked):
                raise
            except LaurelsError:  # what is wrong with one board does not hold up the others
                continue
        due = [state.due_ms for state in self.boards.boards.values()]
        return left, max(0, min(due, default=now_ms) - now_ms)

    async def _prepare(self, state: BoardState, now_ms: int, limit: int) -> int:
        """Does a share of the passes of a board that are not known to be complete; what is
        left."""
        left = 0
        for window in state.rules.windows.values():
            roll = roll_of(state.number, window, now_ms)
            if roll is None or self._prepared.get((state.number, window.name)) == roll.running:
                continue
            of_window = await self.index.advance(opened_as(state), window.name, limit)
            if not of_window:
                self._prepared[state.number, window.name] = roll.running
            left += of_window
        return left

    async def pass_boundary(self, state: BoardState, now_ms: int) -> None:
        """Does what the end of a period or step has made due for a board."""
        try:
            await self.turn(state, now_ms)
            oldest_ms = {
                name: counted_from(window, state.floors.get(name, MIN_MS), now_ms)
                for name, window in state.rules.windows.items()
                if not isinstance(window, Rolling)
            }
            keys = await self.index.keys(opened_as(state))
            gone = [k for k in keys if k.instance < oldest_ms.get(k.window, k.instance)]
            await self.index.drop(opened_as(state), gone)
            await self.index.forget(opened_as(state), now_ms)
        except Stale:
            await self.refresh(state)
        state.due_ms = next_boundary(state.rules, now_ms)


def opened_as(state: BoardState) -> Opened:
    """A board as the index is told of it."""
    return Opened(state.number, state.version, state.rules)
