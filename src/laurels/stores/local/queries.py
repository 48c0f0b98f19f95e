"""The queries of the local store: answers made from one state of a board, in memory or in the
archive."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from laurels.core.archived_requests import PeriodPlace, archived_periods, place_of
from laurels.core.board_state import BoardState, unknown_board
from laurels.core.fold import Fold
from laurels.core.index import Index
from laurels.core.query import Query
from laurels.core.query_context import QueryContext
from laurels.core.ranking_key import RankingKey
from laurels.core.read_plan import ReadPlan
from laurels.core.reads import cached_view
from laurels.core.requests import ReadRequest, ReadResult, find, find_in
from laurels.errors import ArchiveDamaged, NotReady, UnknownBoard
from laurels.model.validation import quoted
from laurels.stores.intake.commands import (
    ON_LOOP,
)
from laurels.stores.intake.shares import MAX_MEMBERS, SHARE
from laurels.timeline.instants import MAX_MS

from .archive.reads import ArchivedIndex
from .archive.segment import ArchivedPeriod, PeriodKey
from .state import LocalState

T = TypeVar("T")


class LocalQueries(LocalState):
    """The part of the store of one process that answers queries."""

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, made from a single state of it.

        If a step has begun and much of its pass is left, the pass is completed first, in shares, so
        that other callers are not blocked. Raises NotReady if more than MAX_MEMBERS members are
        left; the next call continues the pass.
        """
        for _ in range(0, MAX_MEMBERS + SHARE, SHARE):
            with suppress(NotReady):
                return self._ask_once(board, query)
        return self._ask_once(board, query)

    async def ask_async(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query. A short query is answered on the loop if nothing blocks it,
        any other query in a thread. Queries about past periods have threads of their own, since
        they may read the archive. Otherwise many such queries would leave no processor time for
        other calls or, if the disk hangs, no threads."""
        threads = self._past_threads if query.is_past else None
        if query.size > ON_LOOP:
            return await _in_thread(threads, partial(self.ask, board, query))
        return await self._read_async(
            lambda may_wait: (self.ask if may_wait else self.try_ask)(board, query), threads
        )

    def try_ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query. Raises NotReady if much of a pass has to be done before it
        can be answered, or if the archive or another file has to be read."""
        if query.reads_files:
            raise NotReady(f"a file of the board {quoted(board)} has to be read")
        with self.reading():
            plan, archived = self._planned(board, query)
            if archived:
                raise NotReady(f"the archive of the board {quoted(board)} has to be read")
            return plan.run_local(self._fold.index, self._fold.offset)

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return the result of `read` on the ranking of all events in a window's running period.
        Return None if no view of that ranking is cached, or if due work has to be done first; the
        caller then has to use `ask`."""
        self.ensure_usable()
        with self._lock:
            fold = self._fold
            state = fold.boards.get(board)
            if state is None or (now_ms := self._time_of(state)) >= state.due_ms:
                return None
            view = cached_view(state, window, now_ms)
            return None if view is None else read(fold.index, view.key)

    async def read_async(self, read: Callable[[bool], T]) -> T:
        """Return the result of a short read. `read(False)` runs on the loop. If another thread,
        such as a commit, holds the lock, or if `read(False)` raises NotReady since much due work
        comes before the read, `read(True)` runs in a thread instead."""
        return await self._read_async(read, None)

    async def _read_async(self, read: Callable[[bool], T], threads: ThreadPoolExecutor | None) -> T:
        """Return the result of a short read; see `read_async`."""
        lock = self.try_lock()
        if lock is not None:
            try:
                return read(False)
            except NotReady:
                pass  # the read is then done in a thread
            finally:
                lock.release()
        return await _in_thread(threads, partial(read, True))

    def _ask_once(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query, or raise NotReady if much of a pass has to be done before
        it. The archive is opened and read without the lock, since a disk may hang, and archived
        standings do not change. They lack the entries that were left out of the ranking when the
        period was closed, so none has to be left out here. An answer about past periods for which
        nothing has to be read is computed without the lock, too."""
        with self.reading():
            plan, archived = self._planned(board, query)
            index, offset = self._fold.index, self._fold.offset
            if not archived and (plan.requests or not query.is_past):
                return plan.run_local(index, offset)
            in_memory = {
                request: find(index, request)
                for request in plan.requests
                if place_of(request) not in archived
            }
            rules = self._fold.named(board).rules if archived else None
        if rules is None:
            return plan.run(_nothing, offset)
        periods = self._opened_periods(board, query, archived)
        reader = ArchivedIndex(rules, periods, self._data)

        def read(request: ReadRequest) -> ReadResult:
            result = in_memory.get(request)
            if result is not None:
                return result
            if request.sealed is not None:
                pieces = periods[place_of(request)].part(request.sealed)
                return ReadResult(0, [], [], None, None, sealed=pieces)
            return find_in(reader, replace(request, zeros=None, hidden=None))

        return plan.run(read, offset)

    def _planned(
        self, board: str, query: Query[T]
    ) -> tuple[ReadPlan[T], dict[PeriodPlace, PeriodKey]]:
        """Return the plan of a query, and the keys of the periods that it reads from the archive,
        by window and instance. Must be called under the lock."""
        try:
            state = self._advanced(board)
        except UnknownBoard:
            if not query.outlives_board:
                raise
            payouts, now_ms = self.payouts, self._now()

            def answer(*_: object) -> T:
                found = query.without_board(payouts, board, now_ms)
                if found is None:
                    raise unknown_board(board)
                return found

            return ReadPlan((), answer), {}
        positions = {} if self._event_time else state.positions
        now_ms = self._fold.time_of(state)
        plan = query.plan(QueryContext(state, now_ms, positions, self.payouts))
        if state.rules.scoped and not self._are_scopes_advanced(state, plan.requests):
            raise _not_ready(board)
        if not state.closing:
            return plan, {}
        archived = archived_periods(state, plan.requests, now_ms)
        return plan, {
            place: PeriodKey(state.uid, *place, revision) for place, revision in archived.items()
        }

    def _opened_periods(
        self, board: str, query: Query[T], archived: Mapping[PeriodPlace, PeriodKey]
    ) -> dict[PeriodPlace, ArchivedPeriod]:
        """Return the periods that a query reads from the archive. If a period has left the archive
        since the query was planned, and the query would now read other periods, NotReady is raised,
        so that the query is planned again."""
        try:
            return {period: self._opened(key) for period, key in archived.items()}
        except ArchiveDamaged:
            with self.reading():
                if self._planned(board, query)[1] != archived:
                    raise NotReady(
                        f"the archive of the board {quoted(board)} has changed"
                    ) from None
            raise

    def _opened(self, key: PeriodKey) -> ArchivedPeriod:
        """Return a sealed period from the archive. Raises ArchiveDamaged if the archive does not
        have it."""
        if (period := self.archive.open(key)) is None:
            raise ArchiveDamaged(
                f"the archive has no standings of the window {quoted(key.window)} from "
                f"{key.instance}, revision {key.revision}, of the board with the uid {key.uid}"
            )
        return period

    def _data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        """Return the data of members of a board."""
        with self.reading():
            return self._fold.index.data(board, members)

    def _are_scopes_advanced(self, state: BoardState, requests: Iterable[ReadRequest]) -> bool:
        """Advance the scopes that `requests` read, by one share of work. Return whether all of them
        are up to date."""
        return self._fold.advance_scopes(
            state, {request.key.scope for request in requests}, SHARE
        ) and all(
            self._fold.advance_listed(state, request.scopes, SHARE)
            for request in requests
            if request.scopes is not None
        )

    def _advanced(self, board: str) -> BoardState:
        """Advance a board to its current time, and return it. Raises NotReady if that takes more
        than a share of work."""
        self._advance_clock()
        state = self._fold.named(board)
        # a board past its `retain` is refused only after its last periods are sealed
        if state.rules.gone_ms < MAX_MS and self._is_gone(state):
            raise unknown_board(board)
        if not self._fold.advance(state, SHARE):
            raise _not_ready(board)
        self._fold.take_up(state)
        if state.final_ms < MAX_MS:  # closes the due periods that are empty
            self._fold.closings.due(state, self._fold.time_of(state))
        return state

    def advanced_fold(self) -> Fold:
        """Advance the fold's clock to now, and return the fold. Must be called under the lock of
        `reading`."""
        self._advance_clock()
        return self._fold


def _not_ready(board: str) -> NotReady:
    return NotReady(f"the step that has begun on the board {quoted(board)} is still being prepared")


async def _in_thread(threads: ThreadPoolExecutor | None, read: Callable[[], T]) -> T:
    """Run `read` in one of `threads` or, if that is None, in one of the default threads of the
    event loop. Return its result."""
    if threads is None:
        return await asyncio.to_thread(read)
    return await asyncio.get_running_loop().run_in_executor(threads, read)


def _nothing(request: ReadRequest) -> ReadResult:
    """Carries out the requests of a plan that has none: any call is an error."""
    raise AssertionError(f"a plan without requests has the request {request}")
