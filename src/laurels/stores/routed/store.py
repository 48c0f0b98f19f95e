"""The store of a service with boards in several stores.

A call about a board goes to the store that the placement names. Calls about all boards go to every
store, and their results are merged. Keys, the audit log and the time are those of the *default
store*, the first one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

from msgspec.structs import replace

from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.changes.beginning import uid_of
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import (
    Command,
    CreateBoard,
    DefinitionCommand,
    DeleteBoard,
    StoreCommand,
    board_of,
)
from laurels.core.hiding import HiddenMember
from laurels.core.hot_report import NOTHING_COUNTED, HotReport
from laurels.core.index import Index
from laurels.core.query import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.receipt import Receipts
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats, StoreFigures
from laurels.errors import (
    Closed,
    CursorDiverged,
    InvalidClock,
    LaurelsError,
    NothingToBackUp,
    Unavailable,
    UnknownBoard,
)
from laurels.model.board import Board
from laurels.stores.base import AnswerSource, ChangeToken, Servable
from laurels.stores.intake.deleted_positions import sink_move
from laurels.wire.audit_entry import AuditStore
from laurels.wire.audit_page import AuditPage
from laurels.wire.placement import MovedBoard, StoreStatus

from .answers import RoutedAnswers
from .copies import RoutedCopies
from .cursor import decode_cursors, encode_cursors
from .deleted import deleted_boards, has_uid, store_of_deleted
from .gate import WriteGate
from .merging import merged_figures, merged_reports, merged_stats
from .misplaced import MisplacedBoards
from .moving import Mover, MoveSinks
from .placed import PlacedStore, described
from .placement import DEFAULT, Placement
from .routes import BoardRoutes

T = TypeVar("T")

MAX_THREADS = 32
"""The maximum number of reads that wait for stores at the same time."""
NAMED = 20
"""The maximum number of boards that one warning names."""


class RoutedStore:
    """Several stores as one. `warn` is called with each warning for the operator."""

    def __init__(
        self,
        stores: Sequence[PlacedStore],
        placement: Placement,
        moment: Callable[[], int],
        warn: Callable[[str], None],
        routes: BoardRoutes,
        clock: Callable[[], float],
        move_sinks: MoveSinks,
    ) -> None:
        self._stores = stores
        self._placement = placement
        self._warn = warn
        self._gate = WriteGate()
        self._answers = RoutedAnswers(stores, self._store_of, moment)
        self._threads = ThreadPoolExecutor(MAX_THREADS, "laurels-routed")
        self._mover = Mover(
            stores, placement, self._gate, routes, clock, self._threads.submit, move_sinks
        )
        self._watching: list[asyncio.Task[None]] = []
        self._observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        self._misplaced = MisplacedBoards(stores, placement, warn)
        default = stores[DEFAULT].opened
        assert default is not None
        self._audit_log = default.store.audit_log
        self._is_started = False
        self._is_closed = False

    @property
    def answers(self) -> AnswerSource:
        """The encoded answers of all stores."""
        return self._answers

    def _store_of(self, board: str) -> PlacedStore:
        return self._stores[self._placement.number_of(board)]

    def _at(self, board: str) -> Servable:
        """Return the store of a board. Raises IndexUnavailable while it does not answer."""
        self._ensure_open()
        return self._store_of(board).store

    @property
    def _default(self) -> Servable:
        self._ensure_open()
        return self._stores[DEFAULT].store

    def _all(self) -> list[Servable]:
        """Return all stores. Raises IndexUnavailable if one of them does not answer."""
        self._ensure_open()
        return [each.store for each in self._stores]

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise Closed("the store is closed")

    # One board

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
        if isinstance(command, CreateBoard):
            self._misplaced.ensure_creatable(command.board.name)
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
        if isinstance(command, CreateBoard) and self._misplaced:
            await self._in_thread(lambda: self._misplaced.ensure_creatable(command.board.name))
        board = board_of(command)
        async with self._gate.writing_async(board):
            store = await self._store_for_async(board, command)
            result = await store.write_async(command)
        self._note(command, result)
        if isinstance(command, DeleteBoard):
            await self._in_thread(lambda: self._mover.forget(board))
        return result

    def _write_everywhere(self, command: Command[Any]) -> Any:
        """Carry out a command in all stores. If it has a result, return whether that of any store
        is true. Index servers come first, since they may refuse the command before any other store
        has carried it out."""
        stores = sorted(self._all(), key=lambda store: store.is_exact)
        results = [store.write(command) for store in stores]
        return None if results[DEFAULT] is None else any(results)

    def _store_for(self, board: str, command: Command[Any]) -> Servable:
        """Return the store for a write. The position of a sink in the changes of a deleted board
        may belong to another store than the one of the board."""
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

    # All boards

    def definitions(self) -> list[Board]:
        """Return the definitions of all boards, in the order of their names. For a store that does
        not answer, they are the definitions that were last read from it."""
        self._ensure_open()
        boards = {
            board.name: board
            for number, store in enumerate(self._stores)
            for board in store.definitions()
            if self._placement.number_of(board.name) == number
        }
        return [boards[name] for name in sorted(boards)]

    def changed_boards(self, after: str | None) -> ChangedBoards:
        """Return the boards that have changes after a cursor. The cursor contains one cursor for
        each store. If a store does not answer, its cursor stays the same, and its boards are left
        out."""
        self._ensure_open()
        count = len(self._stores)
        cursors = decode_cursors(after, count)
        names: list[str] | None = []
        for number, store in enumerate(self._stores):
            try:
                changed = store.store.changed_boards(cursors[number])
            except Unavailable:
                continue
            cursors[number] = changed.cursor
            if names is None or changed.boards is None:
                names = None
            else:
                served = self._placement.number_of
                names += [name for name in changed.boards if served(name) == number]
        return ChangedBoards(names, encode_cursors(cursors))

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        """Return the deleted boards of all stores that answer, in the order of their deletion."""
        self._ensure_open()
        return deleted_boards(self._stores, self._store_of, source)

    def stats(self) -> Stats:
        """Return the statistics of all boards. Raises IndexUnavailable if a store does not
        answer."""
        return merged_stats([store.stats() for store in self._all()])

    def check(self) -> CheckReport:
        """Check every store, one after the other."""
        return merged_reports([store.check() for store in self._all()])

    def rebuild(self) -> None:
        """Rebuild the rankings of every store, one after the other."""
        for store in self._all():
            store.rebuild()

    def snapshot(self) -> int:
        """Take a snapshot of every store that has files. Return the offset of the first of these
        snapshots.
        Raises NothingToBackUp if no store has files."""
        offsets, refused = list[int](), NothingToBackUp("no store has files")
        for store in self._all():
            try:
                offsets.append(store.snapshot())
            except NothingToBackUp as error:
                refused = error
        if not offsets:
            raise refused
        return offsets[0]

    def seal(self) -> Sealed:
        """Close and seal the due periods of every store, one after the other."""
        done = [store.seal() for store in self._all()]
        return Sealed(sum([each.closed for each in done]), sum([each.sealed for each in done]))

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        """Verify a sealed period in the board's store."""
        return self._at(board).verify_period(board, window, period)

    def clock_status(self) -> ClockStatus:
        """Return the clock status of the first store whose clock has a problem or, if no clock has
        one, of the default store."""
        statuses = [
            each.opened.store.clock_status() for each in self._stores if each.opened is not None
        ]
        return next((status for status in statuses if status.problem), statuses[DEFAULT])

    def accept_clock(self) -> ClockStatus:
        """Make every store accept its current clock."""
        self._default.accept_clock()
        for store in self._all()[1:]:
            with suppress(InvalidClock):  # raised if the store has no clock guard
                store.accept_clock()
        return self.clock_status()

    def hidden_everywhere(self, after: str | None, limit: int) -> list[HiddenMember]:
        """Return the members that are hidden on all boards of the default store."""
        return self._default.hidden_everywhere(after, limit)

    def hot(self) -> HotReport:
        """Return an empty report: the service counts the queries, not its stores."""
        self._ensure_open()
        return NOTHING_COUNTED

    @property
    def audit_log(self) -> AuditStore:
        """The audit log, which is in the default store."""
        return self._audit_log

    def audit(self, board: str | None, before: str | None, limit: int) -> AuditPage:
        """Return a page of the audit log, which is in the default store."""
        return self._default.audit(board, before, limit)

    # Operation

    @property
    def is_exact(self) -> bool:
        """Whether the change tokens of all stores are exact."""
        return not any(each.is_watched for each in self._stores) and all(
            store.is_exact for store in self._all()
        )

    @property
    def risks(self) -> Sequence[str]:
        """Sentences about how counted events may be lost, with the name of the store."""
        return [
            f"{each.name}: {risk}"
            for each in self._stores
            if each.opened is not None
            for risk in each.opened.store.risks
        ]

    @property
    def outages(self) -> Sequence[str]:
        """Sentences about the stores that do not answer or take no writes."""
        return described(self._stores)

    async def ensure_healthy(self) -> None:
        """Raise an error if the default store cannot be used. Problems of other stores are among
        the outages."""
        await self._default.ensure_healthy()
        for each in self._stores[DEFAULT + 1 :]:
            if not each.is_watched:
                try:
                    await each.store.ensure_healthy()
                except LaurelsError as error:
                    each.problem = error
                else:
                    each.problem = None

    async def figures(self, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        """Return the figures of all boards, or of those that `is_visible` accepts. Those of a
        store that does not answer are missing."""
        self._ensure_open()
        figures = await asyncio.gather(
            *[self._figures(number, is_visible) for number in range(len(self._stores))]
        )
        answering = [(each.name, each.failure is None) for each in self._stores]
        return merged_figures(figures, answering)

    async def _figures(self, number: int, is_visible: Callable[[str], bool] | None) -> StoreFigures:
        try:
            figures = await self._stores[number].store.figures(is_visible)
        except Unavailable:
            return StoreFigures(of_boards_only=is_visible is not None, answers=False)
        served = self._placement.number_of
        return replace(
            figures,
            boards=[each for each in figures.boards if served(each[0]) == number],
            scopes=[each for each in figures.scopes if served(each[0]) == number],
            scopes_memory=[each for each in figures.scopes_memory if served(each[0]) == number],
            changes_lost=[each for each in figures.changes_lost if served(each[0]) == number],
            changes_used=[each for each in figures.changes_used if served(each[0]) == number],
        )

    def observe(self, observer: Callable[[int, float], None], clock: Callable[[], float]) -> None:
        """Call `observer` after each commit of any store, one call at a time."""
        lock = Lock()

        def observe(events: int, seconds: float) -> None:
            with lock:
                observer(events, seconds)

        self._observed = observe, clock
        for each in self._stores:
            if each.opened is not None:
                each.opened.store.observe(observe, clock)

    async def read_async(self, read: Callable[[bool], T]) -> T:
        """Return the result of a short read. It runs in the thread pool of the `RoutedStore`, so
        that a read that waits for one of the stores delays only other short reads."""
        self._ensure_open()
        return await self._in_thread(lambda: read(True))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, copy_context().run, call)

    def start(self) -> None:
        """Start the background work of all stores, and begin to watch the stores on other
        machines."""
        self._is_started = True
        for each in self._stores:
            if each.opened is not None:
                each.opened.store.start()
            if each.is_watched:
                watching = each.watch(self._warn, self._open_late)
                self._watching.append(asyncio.get_running_loop().create_task(watching))

    async def _open_late(self, placed: PlacedStore) -> None:
        """Begin to use a store that could not be opened at the start and has been opened now."""
        opened = placed.opened
        assert opened is not None
        if self._observed is not None:
            opened.store.observe(*self._observed)
        self._answers.observe_late(placed)
        if self._is_started:
            opened.store.start()
        for risk in opened.store.risks:
            self._warn(f"{placed.name}: {risk}")
        await asyncio.to_thread(self._mover.recover)
        await self._misplaced.find([placed])

    def close(self) -> None:
        """Close all stores. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self._mover.stop()
        errors = []
        for each in self._stores:
            try:
                if each.opened is not None:
                    each.opened.store.close()
            except Exception as error:
                errors.append(error)
        self._threads.shutdown(wait=False)
        if errors:
            raise errors[0]

    async def close_async(self) -> None:
        """Close all stores at the same time, without blocking the event loop."""
        if self._is_closed:
            return
        self._is_closed = True
        self._mover.stop()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        opened = [each.opened.store for each in self._stores if each.opened is not None]
        done = await asyncio.gather(
            *[store.close_async() for store in opened], return_exceptions=True
        )
        self._threads.shutdown(wait=False)
        for result in done:
            if result is not None:
                raise result

    # Moves

    def stores(self) -> list[StoreStatus]:
        """Return all stores, the default store first."""
        return [
            StoreStatus(number, each.name, each.failure is None)
            for number, each in enumerate(self._stores, 1)
        ]

    def move(self, board: str, to: int | None, pause_seconds: int = 0) -> MovedBoard:
        """Move a board to the store of this number; None stands for the store that its name points
        to. Writes to the board are held for less than a second, or for up to `pause_seconds` if
        that is longer."""
        self._ensure_open()
        number = self._placement.pattern_number_of(board) if to is None else to - 1
        return self._mover.move(board, number, pause_seconds)

    async def prepare(self) -> None:
        """Read the routes, clean up after interrupted moves, and warn of boards that are not
        served."""
        await asyncio.to_thread(self._mover.load)
        await asyncio.to_thread(self._mover.recover)
        await self._misplaced.find(self._stores)
