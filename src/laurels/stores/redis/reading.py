"""The reads of a store on an index server."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from laurels.core.archived import VerifiedPeriod
from laurels.core.board_queries import listed_after
from laurels.core.board_state import BoardState
from laurels.core.changes import beginning
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.due_payouts import DuePayouts, UnerasedPayouts
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import NOTHING_COUNTED, HotReport
from laurels.core.query import Query
from laurels.core.stats import BoardStats, Stats
from laurels.errors import NotReady
from laurels.errors.payouts import PayoutsOpen
from laurels.wire.audit_page import AuditPage, about, page_of
from laurels.wire.queries import decode_answer

from .due_payouts import ServerDuePayouts
from .remote import opened_as
from .retry import read_only
from .state import RedisState

T = TypeVar("T")


class RedisReads(RedisState):
    """Answers to queries, changes, positions and statistics of boards on an index server."""

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board, made from a single state of it. The answer is
        cached if `max_age` permits it."""
        self.ensure_usable()
        kept = self.answers.find_own(board, query)
        if kept is not None:
            return decode_answer(query, kept)
        answer: T = self.run(self.answers.ask(board, query))
        return answer

    def cached_view(self, _board: str, _window: str | None, _look: Callable[..., T]) -> T | None:
        """Return None, since no view of a ranking on an index server is cached."""
        return None

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes after a cursor. With `initial`, the first pages have all current
        entries, and the next pages have the changes since then."""
        page: ChangePage = self.run(self.changes_async(board, after, limit, initial=initial))
        return page

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor, by one call."""
        changed: ChangedBoards = self.run(self._changes.changed_boards(after))
        return changed

    @property
    def due_payouts(self) -> DuePayouts:
        """The due payouts of all boards."""
        due = ServerDuePayouts(self._payouts, self.run)
        return UnerasedPayouts(due, self._settle_erasure_of)

    async def _ensure_erased(self) -> None:
        """Complete the erasure that is in progress. Raises NotReady if it has to wait for payouts
        that are not confirmed."""
        try:
            await self._complete_erasure()
        except PayoutsOpen as error:
            raise NotReady("an erasure waits for payouts that are not confirmed") from error

    def _settle_erasure_of(self, members: Collection[str]) -> bool:
        """Complete the erasure of one of the members, and return whether there was one. The erasure
        of a member with payouts that are not confirmed has to wait for them."""
        try:
            settled: bool = self.run(self._complete_erasure(members))
        except PayoutsOpen:
            return False
        return settled

    @abstractmethod
    async def _complete_erasure(self, members: Collection[str] | None = None) -> bool:
        """Complete the erasure that is in progress, with `members` only if it is that of one of
        them. Return whether there was one. A reader that begins with all current entries also reads
        the archive and the payouts, and gets no change of an erasure that began earlier."""

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards whose changes are kept, each with the position of `source` in
        its changes."""
        deleted: list[DeletedBoard] = self.run(self._changes.deleted_boards(source))
        return deleted

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source; None if it has none."""
        position: str | None = self.run(self._position(board, source))
        return position

    @read_only
    async def _position(self, board: str, source: str) -> str | None:
        async def read(state: BoardState) -> str | None:
            position: str | None = await self._catalog.index.position(opened_as(state), source)
            await self._catalog.index.ensure_current(opened_as(state))
            return position

        return await self._catalog.retry_outdated(board, read)

    def positions(self, board: str) -> dict[str, str]:
        """Return the last committed positions of all sources."""
        positions: dict[str, str] = self.run(self._positions(board))
        return {source: positions[source] for source in sorted(positions) if positions[source]}

    @read_only
    async def _positions(self, board: str) -> dict[str, str]:
        async def read(state: BoardState) -> dict[str, str]:
            positions: dict[str, str] = await self._catalog.index.positions(opened_as(state))
            await self._catalog.index.ensure_current(opened_as(state))
            return positions

        return await self._catalog.retry_outdated(board, read)

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board."""
        stats: BoardStats = self.run(self._statistics.of_board(board))
        return stats

    def stats(self) -> Stats:
        """Return the statistics of all boards."""
        stats: Stats = self.run(self._statistics.of_all())
        return stats

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Compute the digest of a sealed period from the ledger. Raises NotSealed, PeriodExpired,
        ArchiveDamaged, LedgerUnavailable."""
        verified: VerifiedPeriod = self.run(self._queries.verify(board, window, period))
        return verified

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return a page of the audit log."""
        self.ensure_usable()
        return page_of(self.audit_log, about(board), before, limit)

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        """Return members that are hidden on all boards, in the order of their ids."""
        self.run(self._catalog.load())
        behind = b"" if after is None else after.encode()
        everywhere = self._catalog.boards.everywhere
        listed = listed_after(everywhere, self._catalog.now(), behind, limit)
        return [replace(each, everywhere=True) for each in listed]

    def hot(self) -> HotReport:
        """Return an empty report: only a service counts queries."""
        self.ensure_usable()
        return NOTHING_COUNTED

    async def ask_async(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board; see `ask`."""
        self.ensure_usable()
        kept = self.answers.find_own(board, query)
        return await self.answers.ask(board, query) if kept is None else decode_answer(query, kept)

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes; see `changes`."""
        self.ensure_usable()
        if not initial and not beginning.is_initial(after):
            return await self._changes.page(board, after, limit)
        end = "" if beginning.is_initial(after) else await self._changes.end(board)
        cursor = beginning.cursor_of(after, lambda: end)
        state, deletion = await self._changes.followed(board, cursor.changes)
        # the board is deleted: its entries are gone, but its changes are kept
        if deletion is not None:
            return ChangePage([], cursor.changes, more=True)
        beginning.ensure_same_board(board, state.uid, cursor)
        if not beginning.is_initial(after) and state.closing:
            await self._ensure_erased()
        steps = beginning.page(board, state.uid, state.rules, cursor, limit)
        page = await beginning.run_async(steps, partial(self._queries.ask, board))
        if not beginning.is_last(page):
            return page
        positions = read_only(self._catalog.index.positions)
        state = await self._catalog.read_hidden(board)
        hidden = state.hidden.hidings(self._catalog.time_of(state))
        return beginning.completed(page, await positions(opened_as(state)), hidden)

    async def read_async(self, read: Callable[[bool], T]) -> T:
        """Run in a thread a read that waits for the server. Return its result."""
        self.ensure_usable()
        return await asyncio.to_thread(read, True)
