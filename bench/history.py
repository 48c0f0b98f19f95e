"""The content of a rolling window before a measurement: the same events for every peer.

Every member has `CELLS` events: the first on the running day, the others anywhere in the window, so
that the rankings of all, of the day and of the window hold every member and all tallies are full.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from bench.workload import Entry, Population

CELLS = 3
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_EVENING_MS = 41 * HOUR_MS // 2


class Steps(NamedTuple):
    """The steps of a rolling window: their number, and their length in hours."""

    many: int
    hours: int = 1

    @property
    def window(self) -> str:
        """The window `rolling`, which accepts late events for as long as it counts them."""
        span, late = self.many * self.hours, (self.many - 1) * self.hours
        return f"rolling=rolling:{span}h/{self.hours}h,grace={late}h"

    def number(self, at_ms: int) -> int:
        """Return the number of the step that contains an instant."""
        return at_ms // (self.hours * HOUR_MS)

    def begins_ms(self, now_ms: int) -> int:
        """Return the start of the window at `now_ms`."""
        return (self.number(now_ms) - self.many + 1) * self.hours * HOUR_MS


WEEK = Steps(168)


def evening(now_ms: int) -> int:
    """Return the instant of half past eight in the evening, when the day has three hours left."""
    return now_ms // DAY_MS * DAY_MS + _EVENING_MS


class History:
    """The events before `now_ms` of the members of a population."""

    def __init__(self, population: Population, begins_ms: int, now_ms: int) -> None:
        self.population, self._begins_ms, self._now_ms = population, begins_ms, now_ms
        self.today_ms = max(begins_ms, now_ms // DAY_MS * DAY_MS)

    def batches(self) -> Iterator[list[Entry]]:
        """Yield all events of some members at a time: member, value, instant."""
        random = Random(5).random
        begins_ms, today_ms, now_ms = self._begins_ms, self.today_ms, self._now_ms
        stretch, day = now_ms - begins_ms, now_ms - today_ms
        for batch in self.population.batches():
            events: list[Entry] = []
            for member, score, _ in batch:
                value = 1 + score // CELLS
                events.append((member, value, today_ms + int(random() * day)))
                for _ in range(CELLS - 1):
                    events.append((member, value, begins_ms + int(random() * stretch)))
            yield events
