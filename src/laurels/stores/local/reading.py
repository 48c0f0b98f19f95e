"""The reads of the local store: queries, changes and statistics, from the index and under its
lock."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from laurels.core.board_queries import listed_after
from laurels.core.board_state import BoardState, time_token, unknown_board
from laurels.core.changes import beginning
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.changes.cursor import NOW, decode_latest, ensure_not_ended
from laurels.core.changes.deleted import Deletion
from laurels.core.closing import ensure_sealed, is_archived
from laurels.core.fold import Fold
from laurels.core.hiding import HiddenMember
from laurels.core.index import Index
from laurels.core.payouts import Payout, payout_of
from laurels.core.query import Query
from laurels.core.query_context import QueryContext
from laurels.core.ranking_key import RankingKey
from laurels.core.read_plan import ReadPlan
from laurels.core.reads import cached_view
from laurels.core.requests import ReadRequest, ReadResult, find, find_in
from laurels.core.stats import (
    BoardStats,
    Stats,
    StoreFigures,
    board_stats,
    figures_of,
    store_stats,
)
from laurels.errors import ArchiveDamaged, NotReady, UnknownBoard
from laurels.errors.payouts import UnknownPayout
from laurels.model.board import Board
from laurels.model.validation import quoted, safe_repr
from laurels.stores.intake.commands import (
    ON_LOOP,
)
from laurels.stores.intake.shares import MAX_MEMBERS, SHARE
from laurels.timeline.instants import MAX_MS

from .archive.reads import ArchivedIndex
from .archive.segment import ArchivedPeriod, PeriodKey
from .state import LocalState

BOARDS_SHOWN = 1_000
"""The maximum number of boards with metrics of their own. The name of a board is a label value of
its metrics, and more label values would overload a metrics collector."""

T = TypeVar("T")


class LocalReads(LocalState):
    """The part of the store of one process that reads."""

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source; None if there is none."""
        return self.named(board).positions.get(source)

    def positions(self, board: str) -> dict[str, str]:
        """Return the last committed positions of all sources, sinks and imports."""
        with self.reading():
            stored = self.named(board).positions
            return {source: stored[source] for source in sorted(stored) if stored[source]}

    async def follow(self, boards: Collection[str]) -> None:
        """Do nothing, since change tokens are always up to date here."""

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        """Return a token that changes whenever the board's lists may have changed.

        It consists of the board's number, its number of changes, the next boundary, and whether
        that boundary has passed. On a board with decay it changes every second. Takes no lock;
        O(1).
        """
        state = self.named(board)
        changes = state.changes + self._fold.everywhere.version
        return (state.number, changes, *time_token(state, self._time_of(state)))

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        """Return members that are hidden on all boards, in the order of their ids."""
        behind = b"" if after is None else after.encode()
        with self.reading():
            fold = self.advanced_fold()
            listed = listed_after(fold.everywhere, fold.now_ms, behind, limit)
        return [replace(each, everywhere=True) for each in listed]

    def definition(self, name: str) -> Board:
        """Return the definition of a board."""
        return self.named(name).board

    def definitions(self) -> list[Board]:
        """Return all definitions, in the order of their names."""
        with self.reading():
            boards = self.advanced_fold().boards
            return [
                boards[name].board for name in sorted(boards) if not self._is_gone(boards[name])
            ]

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

    def _ask_once(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query, or raise NotReady if much of a pass has to be done before
        it. The archive is opened and read without the lock, since a disk may hang, and archived
        standings do not change. It has no entries that were left out of the ranking when the period
        was closed. If nothing has to be read for the answer to a query about past periods, it is
        computed without the lock, too."""
        with self.reading():
            plan, archived = self._planned(board, query)
            index, offset = self._fold.index, self._fold.offset
            if not archived and (plan.requests or not query.is_past):
                return plan.run_local(index, offset)
            in_memory = {
                request: find(index, request)
                for request in plan.requests
                if _period_of(request) not in archived
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
                pieces = periods[_period_of(request)].part(request.sealed)
                return ReadResult(0, [], [], None, None, sealed=pieces)
            return find_in(reader, replace(request, zeros=None, hidden=None))

        return plan.run(read, offset)

    def _planned(
        self, board: str, query: Query[T]
    ) -> tuple[ReadPlan[T], dict[tuple[str, int], PeriodKey]]:
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
        return plan, _archived(state, plan.requests, now_ms)

    def _opened_periods(
        self, board: str, query: Query[T], archived: Mapping[tuple[str, int], PeriodKey]
    ) -> dict[tuple[str, int], ArchivedPeriod]:
        """Return the periods that a query reads from the archive. Raises NotReady if the query does
        not read the same ones any more, since a period may have left the archive meanwhile."""
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
        """Return a sealed period from the archive."""
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

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return the result of `read` on the ranking of all events in a window's running period.
        Return None if no view of that ranking is cached or work is due; the caller then has to use
        `ask`."""
        self.ensure_usable()
        with self._lock:
            fold = self._fold
            state = fold.boards.get(board)
            if state is None or (now_ms := self._time_of(state)) >= state.due_ms:
                return None
            view = cached_view(state, window, now_ms)
            return None if view is None else read(fold.index, view.key)

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes after a cursor. With `initial`, the first pages have all current
        entries, and the next pages have the changes since then. Blocks that are no longer in memory
        are read from the disk, without a lock."""
        if initial or beginning.is_initial(after):
            cursor = beginning.cursor_of(after, partial(self._end_of_changes, board))
            with self.reading():
                state, deletion = self._followed(board, cursor.changes)
            # the board is deleted: its entries are gone, but its changes are kept
            if deletion is not None:
                return ChangePage([], cursor.changes, more=True)
            beginning.ensure_same_board(board, state.uid, cursor)
            steps = beginning.page(board, state.uid, state.rules, cursor, limit)
            page = beginning.run(steps, partial(self.ask, board))
            if not beginning.is_last(page):
                return page
            with self.reading():
                state = self.named(board)
                hidden = state.hidden.hidings(self._fold.time_of(state))
                return beginning.completed(page, state.positions, hidden)
        ensure_not_ended(board, after)
        with self.reading():
            state, deletion = self._followed(board, after)
            if deletion is None:
                self._fold.take_up(state)
            read = self._changes.read(state, after, limit, deletion)
        return read.page()

    def _followed(self, board: str, after: str | None) -> tuple[BoardState, Deletion | None]:
        """Return the board to which a cursor belongs, and its deletion if it is deleted. If the
        changes of that board are not kept, return the current board of the name. Raises
        UnknownBoard. Called under the lock."""
        uid = beginning.uid_of(after)
        current = self._fold.boards.get(board)
        if uid is not None and (current is None or current.uid != uid or self._is_gone(current)):
            fold = self.advanced_fold()
            deletion = fold.find_deletion(board, uid)
            if deletion is not None:
                return deletion.state, deletion
            current = fold.boards.get(board)
            # the board is past its `retain`, and stays until its last periods are sealed
            if current is not None and current.uid == uid:
                return current, None
        return self.named(board), None

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are kept, with the positions of a source."""
        with self.reading():
            fold = self.advanced_fold()
            fold.forget_expired()
            return [
                each.answer(None if source is None else each.state.positions.get(source))
                for each in fold.deletions
            ]

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor, which is an offset of the log."""
        seen = None if after is None else decode_latest(after)
        with self.reading():
            fold = self.advanced_fold()
            numbers = self._changes.latest.since(seen, fold.offset)
            if numbers is None:
                return ChangedBoards(None, str(fold.offset))
            deleted = {each.state.number: each.state for each in fold.deletions}
            states = [fold.find_by_number(number) or deleted.get(number) for number in numbers]
            names = [state.board.name for state in states if state is not None]
            return ChangedBoards([*dict.fromkeys(names)], str(fold.offset))

    def _end_of_changes(self, board: str) -> str:
        return self.changes(board, NOW, 1).cursor

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Read a page of changes in another thread; see `changes`."""
        return await asyncio.to_thread(self.changes, board, after, limit, initial=initial)

    def _times(self, numbers: Sequence[int]) -> dict[int, tuple[BoardState, int]]:
        """Return boards by their numbers, each with its current time. Deleted boards whose changes
        are kept are among them. Called under the lock."""
        fold = self._fold
        found = {number: fold.find_by_number(number) for number in numbers}
        if None in found.values():
            found |= {
                deletion.state.number: deletion.state
                for deletion in fold.deletions
                if deletion.state.number in found
            }
        return {
            number: (state, fold.time_of(state))
            for number, state in found.items()
            if state is not None
        }

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

    def payout(self, id: str) -> Payout:
        """Return a payout as of now. Raises UnknownPayout."""
        with self.reading():
            row = self.payouts.find(id)
            if row is None:
                raise UnknownPayout(f"there is no payout {safe_repr(id)}")
            state = self._fold.boards.get(row.board)
            return payout_of(row, self._now() if state is None else self._fold.time_of(state))

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board. Without `may_wait`, raise NotReady if much due work has
        to be done before they can be computed."""
        for _ in range(0, MAX_MEMBERS if may_wait else 0, SHARE):
            with suppress(NotReady):
                return self.board_stats(board, may_wait=False)
        with self.reading():
            state = self._advanced(board)
            stats = board_stats(self._fold, state, self._fold.time_of(state))
            unsent = self._changes.unsent(state)
            return replace(
                stats,
                changes_lost=self._changes.lost(state.number),
                changes_unsent=unsent,
                changes_used=unsent / state.rules.changes_max,
            )

    def stats(self) -> Stats:
        """Return the statistics of the whole store."""
        with self.reading():
            self._advance_clock()
            kept = self._snapshot_scheduler.recovery_start(self._log.first, self._log.doubt)
            return store_stats(self._fold, self._log.nbytes(), self.clock_status(), kept)

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
        if state.final_ms < MAX_MS:  # periods that are due and empty count as closed from here on
            self._fold.closings.due(state, self._fold.time_of(state))
        return state

    def advanced_fold(self) -> Fold:
        """Advance the fold's clock to now, and return the fold. Must be called under the lock of
        `reading`."""
        self._advance_clock()
        return self._fold

    def work(self, limit: int) -> tuple[int, int]:
        """Do the due work for about `limit` members. Return the number of members left, and the
        number of milliseconds until the next boundary."""
        left = self.work_share(limit)
        with self.reading():
            until_ms = MAX_MS if self._event_time else self._fold.next_due_ms - self._fold.clock_ms
        return left, max(0, until_ms)

    def work_share(self, limit: int) -> int:
        """Do the due work for about `limit` members. Return the number of members left."""
        with self.reading():
            self._advance_clock()
            left = 0
            if self._fold.has_work and not self._paused:
                left = self._run_or_disable(partial(self._fold.work, limit))
            dropped = self._fold.index.take_dropped()
        del dropped  # the memory is freed after the lock was released
        return left

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the statistics of the boards that `is_visible` accepts. If `is_visible` is None,
        return those of the whole store."""
        names = [
            board.name
            for board in self.definitions()
            if is_visible is None or is_visible(board.name)
        ]
        of_boards = replace(
            figures_of(map(self.board_stats, names[:BOARDS_SHOWN])), unpaid=self._unpaid(names)
        )
        if is_visible is not None:
            return of_boards
        store = self.stats()
        return replace(
            of_boards,
            of_boards_only=False,
            store=store,
            clock=store.clock,
            snapshot_taken=self.snapshot_taken(),
            write_failures=self.write_failures.count,
            writable=self.write_failures.reason is None,
        )

    def _unpaid(self, names: Sequence[str]) -> list[tuple[str, float]]:
        """Return the boards that stay after their `retain` until their payouts are confirmed, each
        with the seconds since."""
        with self.reading():
            fold = self.advanced_fold()
            kept = [fold.boards[name] for name in names[:BOARDS_SHOWN] if name in fold.boards]
            return [
                (state.board.name, (fold.clock_ms - state.rules.gone_ms) / 1_000)
                for state in kept
                if fold.outlives_retain(state)
            ]

    def snapshot_taken(self) -> float | None:
        """Return the time of the newest snapshot, in seconds since 1970; None if there is no
        snapshot."""
        return self._snapshot_scheduler.newest_time()


def _period_of(request: ReadRequest) -> tuple[str, int]:
    return request.key.window, request.key.instance


def _archived(
    state: BoardState, requests: Iterable[ReadRequest], now_ms: int
) -> dict[tuple[str, int], PeriodKey]:
    """Return the keys of the periods that requests read from the archive, by window and instance.
    Raises NotSealed, UnknownRevision."""
    archived = {}
    for request in requests:
        window, instance = period = _period_of(request)
        known = None if request.tally else state.rules.windows.get(window)
        if known is None or period in archived:
            continue
        if request.revision is not None:
            ensure_sealed(state, known, instance, request.revision)
            archived[period] = PeriodKey(state.uid, window, instance, request.revision)
        elif is_archived(state, known, instance, now_ms):
            revision = state.closing[window].sealed[instance].revision
            archived[period] = PeriodKey(state.uid, window, instance, revision)
    return archived


def _not_ready(board: str) -> NotReady:
    return NotReady(f"the step that has begun on the board {quoted(board)} is still being prepared")


async def _in_thread(threads: ThreadPoolExecutor | None, read: Callable[[], T]) -> T:
    """Return the result of a read that runs in one of these threads; None stands for those of the
    event loop."""
    if threads is None:
        return await asyncio.to_thread(read)
    return await asyncio.get_running_loop().run_in_executor(threads, read)


def _nothing(request: ReadRequest) -> ReadResult:
    """Takes the place of a function that reads, for a plan without requests."""
    raise AssertionError(f"a plan without requests has the request {request}")
