"""The events in a rolling window before a measurement, the same for every peer.

Every member has `CELLS` events: the first one on the current day, the others anywhere in the
window. So the rankings of all, of the day and of the window have every member, and all tallies are
full.
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
        """The text form of the window `rolling`, with the longest possible grace."""
        span, late = self.many * self.hours, (self.many - 1) * self.hours
        return f"rolling=rolling:{span}h/{self.hours}h,grace={late}h"

    def number(self, at_ms: int) -> int:
        """Return the number of the step at an instant."""
        return at_ms // (self.hours * HOUR_MS)

    def begins_ms(self, now_ms: int) -> int:
        """Return the start of the window at `now_ms`."""
        return (self.number(now_ms) - self.many + 1) * self.hours * HOUR_MS


WEEK = Steps(168)


def evening(now_ms: int) -> int:
    """Return half past eight in the evening of the day, when three and a half hours of it
    remain."""
    return now_ms // DAY_MS * DAY_MS + _EVENING_MS


class History:
    """The events of a population's members before `now_ms`."""

    def __init__(self, population: Population, begins_ms: int, now_ms: int) -> None:
        self.population, self._begins_ms, self._now_ms = population, begins_ms, now_ms
        self.today_ms = max(begins_ms, now_ms // DAY_MS * DAY_MS)

    def batches(self) -> Iterator[list[Entry]]:
        """Yield all events (member, value, instant) in batches, each of some members."""
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
