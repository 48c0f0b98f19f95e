"""Answer queries about one board, each from a single state of it."""

from functools import partial
from typing import TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.lifecycle import next_boundary
from laurels.core.queries import Query
from laurels.core.query_context import QueryContext
from laurels.core.read_plan import ReadPlan
from laurels.stores.redis.connection.deadline import VERB_SECONDS, ends_in

from .present import BoardCatalog, opened_as
from .remote import Opened
from .retry import read_only

T = TypeVar("T")


class _Now(Struct, frozen=True):
    """The description of a board for index calls, valid until its next boundary."""

    opened: Opened
    due_ms: int

    def holds(self, state: BoardState, now_ms: int) -> bool:
        known = self.opened
        return (
            now_ms < self.due_ms and known.rules is state.rules and known.version == state.version
        )


class Questions:
    """Answers queries by reads from the index."""

    def __init__(self, present: BoardCatalog) -> None:
        self._present = present
        self._nows: dict[int, _Now] = {}

    @read_only
    async def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board."""
        with ends_in(VERB_SECONDS):
            return await self._present.again(board, partial(self._answer, query))

    async def _answer(self, query: Query[T], state: BoardState) -> T:
        now_ms = self._present.time_of(state)
        known = state.refreshed.copy(), state.refreshed_by.copy()
        plan = query.plan(QueryContext(state, now_ms))
        now = self._now(state, now_ms)
        while True:
            read = await self._present.index.read(
                now.opened, plan.requests, now_ms=now_ms, due_ms=now.due_ms
            )
            if state.rules.refreshed:
                self._present.ensure_unchanged(state, known, read.refresh_states)
            result = plan.finish(read.found, read.offset)
            if not isinstance(result, ReadPlan):
                return result
            plan = result

    def _now(self, state: BoardState, now_ms: int) -> _Now:
        """Return the cached description of a board. It is computed again when the board is
        redefined or a boundary passes; here time never goes back."""
        now = self._nows.get(state.number)
        if now is None or not now.holds(state, now_ms):
            if len(self._nows) > len(self._present.boards.boards):  # some boards were deleted
                self._nows.clear()
            now = _Now(opened_as(state), next_boundary(state.rules, now_ms))
            self._nows[state.number] = now
        return now
