"""Calls about one board, which go to the store of the board, and the writes of all stores."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangePage
from laurels.core.changes.beginning import uid_of
from laurels.core.commands import (
    Command,
    CreateBoard,
    DefinitionCommand,
    DeleteBoard,
    EraseMember,
    StoreCommand,
    UndeleteBoard,
    board_of,
)
from laurels.core.erasing import merged_erasure
from laurels.core.index import Index
from laurels.core.query import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats
from laurels.errors import CursorDiverged, LaurelsError, UnknownBoard
from laurels.model.board import Board
from laurels.stores.base import ChangeToken, Servable
from laurels.stores.intake.deleted_positions import sink_move

from .all_boards import AllBoards
from .copies import RoutedCopies
from .deleted import has_uid, store_of_deleted
from .gate import WriteGate
from .misplaced import MisplacedBoards
from .moving import Mover
from .placed import PlacedStore
from .placement import DEFAULT, Placement
from .routes import BoardRoutes
from .takeover import MoveSinks

T = TypeVar("T")


class BoardCalls(AllBoards):
    """Several stores as one: the calls about one board, in addition to those about all boards.
    `warn` is called with each warning for the operator."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        placement: Placement,
        warn: Callable[[str], None],
        routes: BoardRoutes,
        clock: Callable[[], float],
        move_sinks: MoveSinks,
    ) -> None:
        super().__init__(stores, placement)
        self._gate = WriteGate()
        self._mover = Mover(
            stores, placement, self._gate, routes, clock, self._threads.submit, move_sinks
        )
        self._misplaced = MisplacedBoards(stores, placement, warn)

    def ask(self, board: str, query: Query[T]) -> T:
        """Return the answer to a query about a board."""
        return self._at(board).ask(board, query)

    def ask_async(self, board: str, query: Query[T]) -> Awaitable[T]:
        """Return an awaitable of the answer to a query about a board."""
        return self._at(board).ask_async(board, query)

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        """Return the result of `read` for the running period of a window; None if the board's store
        caches no view of it."""
        return self._at(board).cached_view(board, window, read)

    def write(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        everywhere: T
        if isinstance(command, StoreCommand):
            everywhere = self._write_everywhere(command)
            return everywhere
        if isinstance(command, CreateBoard | UndeleteBoard):
            self._misplaced.ensure_creatable(command.defines)
        board = board_of(command)
        with self._gate.writing(board):
            result = self._store_for(board, command).write(command)
        self._note(command, result)
        if isinstance(command, DeleteBoard):
            self._mover.forget(board)
        return result

    async def write_async(self, command: Command[T]) -> T:
        """Carry out a command. Return its result, or raise the error that it fails with."""
        everywhere: T
        if isinstance(command, StoreCommand):
            everywhere = await self._in_thread(lambda: self._write_everywhere(command))
            return everywhere
        if isinstance(command, CreateBoard | UndeleteBoard) and self._misplaced:
            await self._in_thread(lambda: self._misplaced.ensure_creatable(command.defines))
        board = board_of(command)
        async with self._gate.writing_async(board):
            store = await self._store_for_async(board, command)
            result = await store.write_async(command)
        self._note(command, result)
        if isinstance(command, DeleteBoard):
            await self._in_thread(lambda: self._mover.forget(board))
        return result

    def _write_everywhere(self, command: Command[Any]) -> Any:
        """Carry out a command in all stores, and return one result: erasures are merged into one;
        of truth values, return whether any is true; otherwise return None. Index servers come
        first, since they may refuse the command before any other store has carried it out. No
        store erases a member if another one refuses to."""
        stores = self._index_servers_first()
        if isinstance(command, EraseMember):
            self.ensure_erasable(command)
            return merged_erasure([store.write(command) for store in stores])
        results = [store.write(command) for store in stores]
        return None if results[DEFAULT] is None else any(results)

    def ensure_erasable(self, command: EraseMember) -> None:
        """Seal what is due in all stores. If one of them would refuse to erase the member, raise
        its error."""
        errors = list[LaurelsError]()
        for store in self._index_servers_first():
            try:
                store.ensure_erasable(command)
            except LaurelsError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _index_servers_first(self) -> list[Servable]:
        return sorted(self._all(), key=lambda store: store.is_exact)

    def _store_for(self, board: str, command: Command[Any]) -> Servable:
        """Return the store for a write to a board. A write that moves a sink in the changes of a
        deleted board goes to the store with these changes. A new board of the same name may be in a
        different store."""
        move = sink_move(command)
        if move is None or has_uid(self._store_of(board), board, move.uid):
            return self._at(board)
        return self._store_of_deleted(board, move.uid) or self._at(board)

    def _store_of_deleted(self, board: str, uid: str | None) -> Servable | None:
        """Return the store with the changes of a deleted board; None if no store that answers has
        them."""
        return store_of_deleted(self._stores, self._store_of, board, uid)

    async def _store_for_async(self, board: str, command: Command[Any]) -> Servable:
        """Return the store for a write, see `_store_for`."""
        if sink_move(command) is None:
            return self._at(board)
        return await self._in_thread(lambda: self._store_for(board, command))

    def _note(self, command: Command[Any], result: Any) -> None:
        """Record the definition of a board that was created or changed, or that a board was
        deleted."""
        if isinstance(command, DefinitionCommand):
            self._store_of(command.defines).note(result)
        elif isinstance(command, DeleteBoard):
            self._store_of(command.name).forget(command.name)

    async def submit_one(
        self, board: str, event: Any, window: str | None, scope: Sequence[str] | None
    ) -> tuple[Receipts, int]:
        """Submit an event. Return the receipts of its write, and the index of its receipt."""
        async with self._gate.writing_async(board):
            return await self._at(board).submit_one(board, event, window, scope)

    def definition(self, name: str) -> Board:
        """Return the current definition of a board."""
        return self._at(name).definition(name)

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of changes of a board after a cursor."""
        try:
            return self._at(board).changes(board, after, limit, initial=initial)
        except (UnknownBoard, CursorDiverged):
            store = self._store_of_deleted(board, uid_of(after))
            if store is None:
                raise
            return store.changes(board, after, limit, initial=initial)

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        """Return a page of a board's changes after a cursor."""
        try:
            return await self._at(board).changes_async(board, after, limit, initial=initial)
        except (UnknownBoard, CursorDiverged):
            uid = uid_of(after)
            store = await self._in_thread(lambda: self._store_of_deleted(board, uid))
            if store is None:
                raise
            return await store.changes_async(board, after, limit, initial=initial)

    def positions(self, board: str) -> dict[str, str]:
        """Return the last committed positions of all sources of a board."""
        return self._at(board).positions(board)

    def position(self, board: str, source: str) -> str | None:
        """Return the last committed position of a source; None if there is none."""
        return self._at(board).position(board, source)

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        """Return the statistics of a board."""
        return self._at(board).board_stats(board, may_wait=may_wait)

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Verify a sealed period in the board's store."""
        return self._at(board).verify_period(board, window, period)

    @property
    def copies(self) -> RoutedCopies:
        """The interface for copying whole boards. It uses the store of each board."""
        return RoutedCopies(lambda: self._default.copies, lambda board: self._at(board).copies)

    def change_token(self, board: str) -> ChangeToken:
        """Return a token that changes whenever the board's lists may have changed. While the store
        of the board does not answer, the token stays the same, so that feeds wait. Tokens of two
        stores always differ."""
        self._ensure_open()
        place = self._placement.number_of(board)
        opened = self._stores[place].opened
        store = self._stores[place].store if opened is None else opened.store
        number, offset, until_ms, has_passed = store.change_token(board)
        return number * len(self._stores) + place, offset, until_ms, has_passed

    async def follow(self, boards: Collection[str]) -> None:
        """Update the change tokens of boards in all stores concurrently. If a store fails, its
        error is raised once the tokens of all other stores are up to date."""
        self._ensure_open()
        by_store: dict[PlacedStore, list[str]] = {}
        for board in boards:
            by_store.setdefault(self._store_of(board), []).append(board)
        done = await asyncio.gather(
            *[store.follow(names) for store, names in by_store.items()], return_exceptions=True
        )
        for result in done:
            if result is not None:
                raise result
