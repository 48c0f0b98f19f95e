"""The reads of the local store besides queries: definitions, positions, changes, statistics and
due work."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from laurels.core.board_queries import listed_after
from laurels.core.board_state import BoardState, time_token
from laurels.core.changes import beginning
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.changes.cursor import NOW, decode_latest, ensure_not_ended
from laurels.core.changes.deleted import Deletion
from laurels.core.hiding import HiddenMember
from laurels.core.payouts import Payout, payout_of
from laurels.core.removed_boards import RestorableBoard, restorable
from laurels.core.stats import (
    BoardStats,
    Stats,
    StoreFigures,
    board_stats,
    figures_of,
    store_stats,
)
from laurels.errors import NotReady
from laurels.errors.payouts import UnknownPayout
from laurels.model.board import Board
from laurels.model.validation import safe_repr
from laurels.stores.intake.shares import MAX_MEMBERS, SHARE
from laurels.timeline.instants import MAX_MS

from .queries import LocalQueries

BOARDS_SHOWN = 1_000
"""The maximum number of boards with metrics of their own. The name of a board is a label value of
its metrics, and more label values would overload a metrics collector."""

T = TypeVar("T")


class LocalReads(LocalQueries):
    """The part of the store of one process that reads, besides queries."""

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
        that boundary has passed. A board with decay has the current second and True in place of the
        boundary, since its scores change all the time until it ends. Takes no lock; O(1).
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
            if not beginning.is_initial(after) and state.closing:
                self.settle_erasures()
            steps = beginning.page(board, state.uid, state.rules, cursor, limit)
            page = beginning.run(steps, partial(self.ask, board))
            if not beginning.is_last(page):
                return page
            with self.reading():
                state = self.named(board)
                hidden = state.hidden.hidings(self._fold.time_of(state))
                return beginning.completed(page, state.positions, hidden)
        with self.reading():
            current = self._fold.boards.get(board)
            if current is None or current.uid != beginning.uid_of(after):
                ensure_not_ended(board, after)  # a restored board continues after its deletion
            state, deletion = self._followed(board, after)
            if deletion is None:
                self._fold.take_up(state)
            read = self._changes.read(state, after, limit, deletion)
        return read.page()

    @abstractmethod
    def settle_erasures(self) -> None:
        """Wait until no erasure is in progress, and complete those that were interrupted. A reader
        that begins with all current entries also reads the archive and the payouts, and gets no
        change of an erasure that began earlier. Raises ArchiveDamaged, StorageFailed."""

    def _followed(self, board: str, after: str | None) -> tuple[BoardState, Deletion | None]:
        """Return the board to which the cursor `after` belongs, and its deletion, or None if it is
        not deleted. If the changes of that board are not kept, return the board that now has the
        name. Raises UnknownBoard. Called under the lock."""
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
        """Return the deleted boards whose changes are kept, each with the position of `source`."""
        with self.reading():
            fold = self.advanced_fold()
            fold.forget_expired()
            return [
                each.answer(None if source is None else each.state.positions.get(source))
                for each in fold.deletions
            ]

    def restorable_boards(self) -> list[RestorableBoard]:
        """Return the removed boards that can be restored, in the order of their removal."""
        with self.reading():
            removed = list(self.advanced_fold().removed)
        payouts = self.payouts.counts() if removed else {}
        return [restorable(each, payouts.get(each.uid, 0)) for each in removed]

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
        """Return the boards that stay after the end of their `retain` until their payouts are
        confirmed, each with the number of seconds since that end."""
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
