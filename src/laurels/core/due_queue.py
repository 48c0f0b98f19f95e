"""A queue of boards, by the instant at which something falls due. Pure."""

import heapq
from collections.abc import Callable

from laurels.timeline.instants import MAX_MS

_NUMBERS = 1 << 64
"""More than the greatest number of a board."""


class DueQueue:
    """Instants in milliseconds, each with the number of a board, the earliest first.

    Each item is one integer, which is nothing for the garbage collector. When a hundred thousand
    boards end at one midnight, all their items are replaced. As tuples, these made a single
    collection take 75 ms, which stops all threads.
    """

    def __init__(self) -> None:
        self._heap: list[int] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first_ms(self) -> int:
        """The first instant; MAX_MS if the queue is empty."""
        return self._heap[0] // _NUMBERS if self._heap else MAX_MS

    @property
    def first(self) -> tuple[int, int]:
        """The first instant with the number of its board. The queue must not be empty."""
        return divmod(self._heap[0], _NUMBERS)

    def push(self, due_ms: int, number: int) -> None:
        """Add an instant of a board. O(log n)."""
        heapq.heappush(self._heap, due_ms * _NUMBERS + number)

    def pop(self) -> tuple[int, int]:
        """Remove and return the first item. O(log n)."""
        return divmod(heapq.heappop(self._heap), _NUMBERS)

    def keep(self, is_wanted: Callable[[int, int], bool]) -> None:
        """Remove the items for which `is_wanted` is false. O(n)."""
        self._heap = [item for item in self._heap if is_wanted(*divmod(item, _NUMBERS))]
        heapq.heapify(self._heap)
