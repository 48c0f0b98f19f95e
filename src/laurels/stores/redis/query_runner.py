"""Answers queries about a board, each from a single state of the board."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from laurels.core.archived import VerifiedPeriod
from laurels.core.archived_requests import PeriodPlace, archived_periods, place_of
from laurels.core.board_state import BoardState, unknown_board
from laurels.core.index import Offset
from laurels.core.lifecycle import next_boundary
from laurels.core.query import Query
from laurels.core.query_context import QueryContext
from laurels.core.read_plan import ReadPlan
from laurels.core.requests import ReadRequest, ReadResult
from laurels.errors import NotSealed, PeriodExpired, UnknownBoard, UnknownRevision
from laurels.model.labels import is_by
from laurels.stores.redis.connection.deadline import VERB_SECONDS, ends_in
from laurels.timeline.instants import MIN_MS

from .catalog import BoardCatalog
from .closing import may_be_unpaid
from .ledgers import Ledgers
from .payout_lists import FetchedPayouts
from .payouts import ServerPayouts
from .remote import Opened, Reading, opened_as
from .retry import read_only
from .sealed_reads import read_sealed, verify_sealed

RESTARTS = 8
"""How often a plan with several reads is begun again because events were counted between them.
After that, the plan continues, and itself has to detect reads of different states."""

T = TypeVar("T")


class _CachedBoard(Struct, frozen=True):
    """The argument by which calls of the index get a board. It is valid until the next boundary of
    the board, `due_ms`."""

    opened: Opened
    due_ms: int

    def is_valid(self, state: BoardState, now_ms: int) -> bool:
        opened = self.opened
        same = opened.rules is state.rules and opened.version == state.version
        same = same and opened.hidden == state.hidden.stored_text
        if opened.closings is not None and opened.closings != state.closings:
            return False
        return same and now_ms < self.due_ms


class Reply(Struct, Generic[T], frozen=True):
    """The result of a query. `state` is the state of the board, None if the board was deleted.
    `offset` is the offset that the result shows, None if the label replica was read. The result may
    be repeated until the time of the board is `until_ms`; MIN_MS if it may not be repeated."""

    result: T
    state: BoardState | None
    offset: Offset | None
    until_ms: int


class QueryRunner:
    """Answers queries by reading from the index."""

    def __init__(self, catalog: BoardCatalog, ledgers: Ledgers, payouts: ServerPayouts) -> None:
        self._catalog = catalog
        self._payouts = payouts
        self._ledgers = ledgers
        self._cached: dict[int, _CachedBoard] = {}

    async def ask(self, board: str, query: Query[T]) -> T:
        """Return the result of a query about a board."""
        return (await self.reply(board, query)).result

    @read_only
    async def reply(self, board: str, query: Query[T]) -> Reply[T]:
        """Return the result of a query about a board, with the data needed to cache it."""
        with ends_in(VERB_SECONDS):
            try:
                return await self._catalog.retry_outdated(board, partial(self._answer, query))
            except UnknownBoard:
                if not query.outlives_board:
                    raise
                return await self._reply_without_board(board, query)

    async def _answer(self, query: Query[T], state: BoardState) -> Reply[T]:
        now_ms = self._catalog.time_of(state)
        before = state.refreshed.copy(), state.refreshed_by.copy()
        cached = self._cached_board(state, now_ms)
        positions: dict[str, str] = {}
        if query.reads_positions and not self._catalog.event_time:
            positions = await self._catalog.index.positions(cached.opened)
        first = plan = await self._plan(query, state, now_ms, positions)
        seen: Offset | None = None
        restarts = RESTARTS
        while True:
            archived = archived_periods(state, plan.requests, now_ms) if state.closing else {}
            stored = [each for each in plan.requests if place_of(each) not in archived]
            read = await self._catalog.index.read(
                cached.opened, stored, now_ms=now_ms, due_ms=cached.due_ms
            )
            if state.rules.refreshed:
                self._catalog.ensure_unchanged(state, before, read.refresh_states)
            results = read.results
            if archived:
                results = await self._with_archived(state, cached, plan.requests, archived, read)
            if seen is not None and seen != read.offset and restarts:
                plan, seen, restarts = first, None, restarts - 1  # events were counted meanwhile
                continue
            result = plan.finish(results, read.offset)
            if not isinstance(result, ReadPlan):
                until_ms = MIN_MS
                if query.cacheable and state.rules.max_age_ms:
                    until_ms = min(cached.due_ms, _repeatable_until(state, plan.requests, now_ms))
                is_own = not state.rules.has_label_replica or not _reads_by_label(plan.requests)
                return Reply(result, state, read.offset if is_own else None, until_ms)
            plan, seen = result, read.offset

    async def _reply_without_board(self, board: str, query: Query[T]) -> Reply[T]:
        """Return the result of a query about a board that was deleted. Raises UnknownBoard."""
        now_ms = self._catalog.now()
        payouts = await self._fetched(board, query, now_ms)
        found = query.without_board(payouts, board, now_ms)
        if found is None:
            raise unknown_board(board)
        return Reply(found, None, None, MIN_MS)

    async def _fetched(self, board: str, query: Query[T], now_ms: int) -> FetchedPayouts | None:
        """Return the payouts that a query asks for; None if it asks for none."""
        request = query.payout_request(board)
        return None if request is None else await self._payouts.fetch(board, request, now_ms)

    async def _plan(
        self, query: Query[T], state: BoardState, now_ms: int, positions: Mapping[str, str]
    ) -> ReadPlan[T]:
        """Return the plan of a query. On a board that closes periods, first read which periods are
        closed and, if the query depends on it, which are not closed yet."""
        payouts = await self._fetched(state.board.name, query, now_ms)
        if query.reads_positions and may_be_unpaid(state) and state.rules.is_gone(now_ms):
            payouts = await self._payouts.open_periods(state)
        context = QueryContext(state, now_ms, positions, payouts)
        if not state.closing:
            return query.plan(context)
        if query.reads_positions:
            await self._catalog.closings.find_open(state, now_ms)
            return query.plan(context)
        await self._catalog.closings.ensure_loaded(state)
        try:
            return query.plan(context)
        # another process may have sealed the period meanwhile
        except (PeriodExpired, NotSealed, UnknownRevision):
            await self._catalog.closings.load(state)
            await self._catalog.closings.find_open(state, now_ms)
            return query.plan(context)

    async def _with_archived(
        self,
        state: BoardState,
        cached: _CachedBoard,
        requests: Sequence[ReadRequest],
        archived: Mapping[PeriodPlace, int],
        read: Reading,
    ) -> list[ReadResult]:
        """Return the results of requests: those that were read from the index server, and those
        about sealed periods, which the ledger answers. The data of members comes from the index
        server."""
        ledger = self._ledgers.named(state.board.ledger)
        of_ledger = [each for each in requests if place_of(each) in archived]
        from_ledger = iter(await read_sealed(ledger, state, of_ledger, archived))
        from_index = iter(read.results)
        results = []
        for request in requests:
            if place_of(request) not in archived:
                results.append(next(from_index))
                continue
            result = next(from_ledger)
            if request.data:
                result = await self._with_data(state, cached, request, result)
            results.append(result)
        return results

    async def _with_data(
        self, state: BoardState, cached: _CachedBoard, request: ReadRequest, result: ReadResult
    ) -> ReadResult:
        """Return a result about a sealed period with the present data of its members."""
        groups = [*[part.members for part in result.slices], list(request.members)]
        members = tuple(dict.fromkeys(member for group in groups for member in group))
        wanted = ReadRequest(request.key, members=members, data=True)
        now_ms = self._catalog.time_of(state)
        read = await self._catalog.index.read(
            cached.opened, [wanted], now_ms=now_ms, due_ms=cached.due_ms
        )
        [found] = read.results
        assert found.data is not None
        data = dict(zip(members, found.data[-1], strict=True))
        return msgspec.structs.replace(
            result, data=[[data[member] for member in group] for group in groups]
        )

    async def verify(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Compute the digest of a sealed period from the ledger. Raises NotSealed, PeriodExpired,
        ArchiveDamaged, LedgerUnavailable."""

        async def verify(state: BoardState) -> VerifiedPeriod:
            await self._catalog.closings.load(state)
            now_ms = self._catalog.time_of(state)
            return await verify_sealed(self._ledgers, state, window, period, now_ms)

        return await self._catalog.retry_outdated(board, verify)

    def _cached_board(self, state: BoardState, now_ms: int) -> _CachedBoard:
        """Return the cached description of a board. It is computed again if the board was redefined
        or its next boundary has passed. Time never goes back, so no earlier boundary has to be
        checked."""
        cached = self._cached.get(state.number)
        if cached is None or not cached.is_valid(state, now_ms):
            # with more descriptions than boards, some of the cached boards have been deleted
            if len(self._cached) > len(self._catalog.boards.boards):
                self._cached.clear()
            cached = _CachedBoard(opened_as(state), next_boundary(state.rules, now_ms))
            self._cached[state.number] = cached
        return cached


def _reads_by_label(requests: Sequence[ReadRequest]) -> bool:
    """Return whether any request reads a ranking by a label."""
    return any(is_by(request.key.scope) for request in requests)


def _repeatable_until(state: BoardState, requests: Sequence[ReadRequest], now_ms: int) -> int:
    """Return the time of the board until which an answer from these rankings can be repeated: until
    the next refresh of any of them, or the next end of a hiding. Return MIN_MS if a ranking has
    decay, since its scores change all the time."""
    until_ms = state.hidden.next_end_ms(now_ms)
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
