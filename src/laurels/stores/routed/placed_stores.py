"""The stores of a placement, and which of them has a board."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from laurels.errors import Closed
from laurels.stores.base import Servable

from .placed import PlacedStore
from .placement import DEFAULT, Placement

T = TypeVar("T")

MAX_THREADS = 32
"""The maximum number of reads that wait for stores at the same time."""


class PlacedStores:
    """Several stores, each with the boards that the placement names."""

    def __init__(self, stores: Sequence[PlacedStore], placement: Placement) -> None:
        self._stores = stores
        self._placement = placement
        self._threads = ThreadPoolExecutor(MAX_THREADS, "laurels-routed")
        self._is_closed = False

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

    async def _in_thread(self, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, copy_context().run, call)
