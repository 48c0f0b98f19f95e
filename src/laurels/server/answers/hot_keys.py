"""The boards and members that are asked for most, in constant memory. Here a *key* is a board or a
member that queries ask for.

Each query is counted in a *frequency sketch* (count-min, Cormode and Muthukrishnan 2005): a few
rows of counters. A key has one counter in each row, chosen by the key's hash. The smallest of the
key's counters is never below the true count of the key, and seldom far above it. A key is *hot* if,
in a window of `SECONDS`, it has at least `LEAST` queries and at least the fraction `SHARE` of all
queries. Only keys that were hot when they were last counted are remembered by name; there are at
most 1 / `SHARE` hot keys in a window.

There are two windows: when the current one is over, it becomes the previous one, and a new one
begins. So old traffic is forgotten, and hot keys are found within one window.
"""

from array import array
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from msgspec import Struct

SECONDS = 10.0
"""The length of a window."""
SHARE = 1 / 200
LEAST = 50
MOST_NAMES = 1_000
"""The most keys that are remembered by name. When there are more, those that are no longer hot are
forgotten."""
_WIDTH_BITS, _ROWS = 14, 4
_MASK = (1 << _WIDTH_BITS) - 1

K = TypeVar("K", bound=Hashable)


class FrequencySketch(Generic[K]):
    """The counts of the keys of one window, and the names of those that are hot."""

    def __init__(self) -> None:
        self.total = 0
        self._rows = [array("L", bytes(8 << _WIDTH_BITS)) for _ in range(_ROWS)]
        self._names: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Count a key."""
        self.total += 1
        places = _places(key)
        count = 1 + min([row[place] for row, place in zip(self._rows, places, strict=True)])
        for row, place in zip(self._rows, places, strict=True):
            if row[place] < count:  # raise only counters below the new count
                row[place] = count
        if count >= LEAST and count >= SHARE * self.total:
            self._names[key] = count
            if len(self._names) > MOST_NAMES:
                self._names = self.hot()

    def hot(self) -> dict[K, int]:
        """Return the hot keys with their counts."""
        least = max(LEAST, SHARE * self.total)
        return {key: count for key, count in self._names.items() if count >= least}


def _places(key: Hashable) -> list[int]:
    """Return the index of the key's counter in each row. The hash of a text is different in each
    process, so nobody can choose keys that share their counters."""
    bits = hash((key, 0)) & (1 << 64) - 1
    return [(bits >> _WIDTH_BITS * row) & _MASK for row in range(_ROWS)]


class HotKey(Struct, Generic[K], frozen=True):
    """A hot key, and how many queries asked for it in the two windows."""

    key: K
    count: int


class HotKeys(Generic[K]):
    """The hot keys of two windows. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._current: FrequencySketch[K] = FrequencySketch()
        self._previous: FrequencySketch[K] | None = None

    def add(self, key: K) -> None:
        """Count a query for a key."""
        if self._clock() - self._began >= SECONDS:
            self._rotate()
        self._current.add(key)

    def hot(self) -> tuple[float, list[HotKey[K]]]:
        """Return how many seconds the two windows have lasted, and the keys that are hot in either,
        most frequent first."""
        if self._clock() - self._began >= SECONDS:
            self._rotate()
        seconds = self._clock() - self._began
        counts = self._current.hot()
        if self._previous is not None:
            seconds += SECONDS
            for key, count in self._previous.hot().items():
                counts[key] = counts.get(key, 0) + count
        keys = [HotKey(key, count) for key, count in counts.items()]
        return seconds, sorted(keys, key=lambda hot: -hot.count)

    def _rotate(self) -> None:
        """Begin a new window. The last window becomes the previous one, or is forgotten if it ended
        longer ago than a window lasts."""
        windows = int((self._clock() - self._began) / SECONDS)
        self._previous = self._current if windows == 1 else None
        self._current = FrequencySketch()
        self._began += windows * SECONDS
