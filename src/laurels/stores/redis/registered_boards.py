"""This process's copy of the board definitions and of the time."""

from contextlib import suppress

from laurels.core.board_state import Boards, BoardState
from laurels.core.changes.deleted import Deletion
from laurels.errors import UnknownBoard
from laurels.errors.placement import BoardMoving
from laurels.stores.intake.tags import new_tag
from laurels.timeline.clock import Clock, EventClock
from laurels.timeline.instants import MAX_MS, MIN_MS

from .closing import ServerClosings, answering_from_archive, renewed
from .deletions import ServerDeletions, StoredDeletions
from .hidings import BoardHidings
from .outdated import DefinitionOutdated
from .protocols import FollowedIndex
from .registry import Registry
from .remote import opened_as
from .removals import ServerRemovals


class RegisteredBoards:
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
        self.closings = ServerClosings(index, opened_as, event_time=self.event_time)
        self.removals = ServerRemovals(index, stored)
        self.deletions = ServerDeletions(
            index, registry, stored, self.removals, self.now, event_time=self.event_time
        )
        self.hidings = BoardHidings(index, registry, self.reload_board)
        self.closings.update_hidden = self.hidings.update

    @property
    def boards(self) -> Boards:
        return self.registry.boards

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
        another process has already removed. Boards that close periods are skipped, too: a
        background task removes them when all their periods are sealed."""
        self.set_gone()
        await self.deletions.forget_expired()
        if not self.registry.gone:
            return
        for state in list(self.registry.gone.values()):
            if state.closing:
                self.closings.note_unsealed(state)
            else:
                await self._remove(state)
        await self.remove_deleted()

    def unpaid(self) -> list[tuple[str, float]]:
        """Return the boards that stay after the end of their `retain` until their ledger says that
        all payouts are confirmed, each with the number of seconds since that end."""
        self.set_gone()
        states = [self.boards.find_by_number(number) for number in self.registry.unpaid]
        now_ms = self.now()
        return [
            (state.board.name, (now_ms - state.rules.gone_ms) / 1_000)
            for state in states
            if state is not None and state.rules.is_gone(now_ms)
        ]

    async def remove_paid(self, state: BoardState) -> None:
        """Remove a board whose `retain` is over and whose payouts are all confirmed."""
        try:
            await self.closings.ensure_loaded(state)
        except DefinitionOutdated:  # it is tried again later
            await self.reload_board(state)
            return
        if await self.deletions.delete(state, self.now(), new_tag()):
            await self.remove_deleted()

    async def remove_settled(self, state: BoardState) -> None:
        """Remove the data of a board that is no longer retained and whose periods are sealed."""
        await self._remove(state)
        await self.remove_deleted()
        self.closings.forget(state.board.ledger, state.number)

    async def _remove(self, state: BoardState) -> None:
        """Remove a board that is no longer retained, unless another process has done it."""
        if self.registry.gone.get(state.board.name) is state:
            with suppress(BoardMoving):  # the board is removed after the move
                await self.deletions.delete(state, state.rules.gone_ms, new_tag())

    def find_retained_or_gone(self, number: int) -> BoardState | None:
        """Return the board with a number; None if there is none. A board that is no longer retained
        but not removed yet is found, too. O(1) for a retained board, otherwise O(boards that are no
        longer retained)."""
        state = self.boards.find_by_number(number)
        if state is not None:
            return state
        gone = [state for state in self.registry.gone.values() if state.number == number]
        return gone[0] if gone else None

    async def reload_board(self, state: BoardState) -> None:
        """Read the definitions again, and register this board on the server if it still exists.
        Read its hidden members, too."""
        await self.registry.load()
        before = self.boards.find_by_number(state.number)
        if before is None:
            return
        is_fenced = await self.index.open(opened_as(before))
        await self.registry.load()
        current = self.boards.find_by_number(state.number)
        if current is None:  # the board was deleted meanwhile
            kept = await self.removals.kept(before.uid)
            await self.deletions.close(opened_as(before) if kept is None else kept[0])
            return
        if is_fenced and current.version == before.version:
            await self._end_fence(current)
        # If this fails, the next call for the board is refused, and then this is done again.
        with suppress(DefinitionOutdated, UnknownBoard):
            await self.hidings.update(current)

    async def _end_fence(self, state: BoardState) -> None:
        """Give a board another version, which ends the fence, since the process that set it may
        have ended. From then on periods can be closed again. If that process still runs, it cannot
        clear the board without reading it again."""
        if await self.registry.change(state, renewed(state)):
            current = self.boards.find_by_number(state.number)
            if current is not None:
                await self.index.open(opened_as(current))

    async def answer_from_archive(self, state: BoardState) -> None:
        """Let only the archive answer for the sealed periods of a board. Raises DefinitionOutdated
        if the definition has changed meanwhile."""
        if not await self.registry.change(state, answering_from_archive(state)):
            raise DefinitionOutdated
        current = self.boards.find_by_number(state.number)
        if current is not None:
            await self.index.open(opened_as(current))
            await self.closings.load(current)

    async def load_closings(self, state: BoardState) -> None:
        """Read again which periods are closed and sealed. If the definition of the board has
        changed, read the definition instead."""
        try:
            await self.closings.load(state)
        except DefinitionOutdated:
            await self.reload_board(state)

    async def remove_deleted(self) -> None:
        """Remove the remaining data of deleted boards, except changes that are kept."""
        await self.deletions.remove_deleted()

    async def find_deletion(self, board: str, uid: str | None) -> Deletion | None:
        """Return the deleted board with this name and unique id; None if there is none, or if its
        changes are no longer kept."""
        await self.remove_gone()
        return None if uid is None else await self.deletions.find(board, uid)

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
