"""The store of a service with boards in several stores.

A call about a board goes to the store that the placement names. Calls about all boards go to every
store, and their results are merged. Keys, the audit log and the time are those of the *default
store*, the first one.
"""

import asyncio
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from laurels.stores.base import AnswerSource
from laurels.wire.placement import MovedBoard, StoreStatus, TakeoverMode

from .answers import RoutedAnswers
from .board_calls import BoardCalls
from .placed import PlacedStore
from .placement import Placement
from .routes import BoardRoutes
from .takeover import MoveSinks

T = TypeVar("T")


class RoutedStore(BoardCalls):
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
        super().__init__(stores, placement, warn, routes, clock, move_sinks)
        self._warn = warn
        self._answers = RoutedAnswers(stores, self._store_of, moment)
        self._watching: list[asyncio.Task[None]] = []
        self._observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        self._is_started = False

    @property
    def answers(self) -> AnswerSource:
        """The encoded answers of all stores."""
        return self._answers

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

    def move(
        self,
        board: str,
        to: int | None,
        pause_seconds: int = 0,
        takeover: TakeoverMode = "none",
    ) -> MovedBoard:
        """Move a board to the store of this number; None stands for the store that its name points
        to. Writes to the board are held for less than a second, or for up to `pause_seconds` if
        that is longer. With `takeover`, first end the move of a killed service."""
        self._ensure_open()
        number = self._placement.pattern_number_of(board) if to is None else to - 1
        return self._mover.move(board, number, pause_seconds, takeover)

    async def prepare(self) -> None:
        """Read the routes, clean up after interrupted moves, and warn of boards that are not
        served."""
        await asyncio.to_thread(self._mover.load)
        await asyncio.to_thread(self._mover.recover)
        await self._misplaced.find(self._stores)
