"""Answers queries about a board, each from a single state of the board."""

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.index import Offset
from laurels.core.lifecycle import next_boundary
from laurels.core.query import Query
from laurels.core.query_context import QueryContext
from laurels.core.read_plan import ReadPlan
from laurels.core.requests import ReadRequest
from laurels.model.labels import is_by
from laurels.stores.redis.connection.deadline import VERB_SECONDS, ends_in
from laurels.timeline.instants import MAX_MS, MIN_MS

from .catalog import BoardCatalog
from .registered_boards import opened_as
from .remote import Opened
from .retry import read_only

T = TypeVar("T")


class _CachedBoard(Struct, frozen=True):
    """The argument by which calls of the index get a board. It is valid until the next boundary of
    the board, `due_ms`."""

    opened: Opened
    due_ms: int

    def is_valid(self, state: BoardState, now_ms: int) -> bool:
        opened = self.opened
        same = opened.rules is state.rules and opened.version == state.version
        return same and now_ms < self.due_ms


class Reply(Struct, Generic[T], frozen=True):
    """The result of a query about a board with the state `state`. `offset` is the offset that it
    shows; None if the label replica was read. `until_ms` is the time of the board until which the
    result can be repeated; MIN_MS if it cannot."""

    result: T
    state: BoardState
    offset: Offset | None
    until_ms: int


class QueryRunner:
    """Answers queries by reading from the index."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog
        self._cached: dict[int, _CachedBoard] = {}

    async def ask(self, board: str, query: Query[T]) -> T:
        """Return the result of a query about a board."""
        return (await self.reply(board, query)).result

    @read_only
    async def reply(self, board: str, query: Query[T]) -> Reply[T]:
        """Return the result of a query about a board, with what is needed to cache it."""
        with ends_in(VERB_SECONDS):
            return await self._catalog.retry_outdated(board, partial(self._answer, query))

    async def _answer(self, query: Query[T], state: BoardState) -> Reply[T]:
        now_ms = self._catalog.time_of(state)
        before = state.refreshed.copy(), state.refreshed_by.copy()
        cached = self._cached_board(state, now_ms)
        positions: dict[str, str] = {}
        if query.reads_positions and not self._catalog.event_time:
            positions = await self._catalog.index.positions(cached.opened)
        plan = query.plan(QueryContext(state, now_ms, positions))
        while True:
            read = await self._catalog.index.read(
                cached.opened, plan.requests, now_ms=now_ms, due_ms=cached.due_ms
            )
            if state.rules.refreshed:
                self._catalog.ensure_unchanged(state, before, read.refresh_states)
            result = plan.finish(read.results, read.offset)
            if not isinstance(result, ReadPlan):
                until_ms = MIN_MS
                if query.cacheable and state.rules.max_age_ms:
                    until_ms = min(cached.due_ms, _repeatable_until(state, plan.requests))
                is_own = not state.rules.has_label_replica or not _reads_by_label(plan.requests)
                return Reply(result, state, read.offset if is_own else None, until_ms)
            plan = result

    def _cached_board(self, state: BoardState, now_ms: int) -> _CachedBoard:
        """Return the cached description of a board. It is computed again if the board was redefined
        or its next boundary has passed. Time never goes back, so no earlier boundary has to be
        checked."""
        cached = self._cached.get(state.number)
        if cached is None or not cached.is_valid(state, now_ms):
            if len(self._cached) > len(self._catalog.boards.boards):  # a cached board was deleted
                self._cached.clear()
            cached = _CachedBoard(opened_as(state), next_boundary(state.rules, now_ms))
            self._cached[state.number] = cached
        return cached


def _reads_by_label(requests: Sequence[ReadRequest]) -> bool:
    """Return whether any request reads a ranking by a label."""
    return any(is_by(request.key.scope) for request in requests)


def _repeatable_until(state: BoardState, requests: Sequence[ReadRequest]) -> int:
    """Return the time of the board until which an answer from these rankings can be repeated: the
    next refresh of any of them, or MIN_MS if one of them decays, since its scores change all the
    time."""
    until_ms = MAX_MS
    for request in requests:
        window = state.rules.windows[request.key.window]
        if window.weighing is not None:
            return MIN_MS
        refreshed = state.rules.refreshed.get(window.name)
        if refreshed is not None:
            shown = state.as_refreshed(window, request.key.scope)
            assert shown is not None
            until_ms = min(until_ms, shown.due_ms(refreshed))
    return until_ms
