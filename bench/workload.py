"""The members of the boards and their events, the same for every peer.

Members are numbered 0..n-1, and have names of 8 bytes. Each has a position in the order of activity
(1 is the most active), computed by multiplication with a prime modulo n, so that scores are related
neither to the ids nor to the order of loading. A member begins with its total after a month of Zipf
traffic (s = 1), which is about inversely proportional to its position. It reached this total at the
time of its last event. Without this history, an event would move either no member or all of them,
and all members would have reached their scores at the same time, which compresses better than any
real board.
"""

from array import array
from bisect import bisect
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from math import log
from random import Random
from typing import Literal, TypeAlias

Event: TypeAlias = tuple[str, int]
Batch: TypeAlias = list[Event]
Entry: TypeAlias = tuple[str, int, int]
Traffic: TypeAlias = Literal["zipf", "uniform"]
Steep: TypeAlias = Literal["zipf 1.2"]
"""Traffic in which few members have most events."""

SMALLEST, LARGEST = 100, 100_000_000
MEMBER_BYTES = 8
HISTORY_EVENTS = 20
HISTORY_MS = 30 * 24 * 3_600_000
LARGEST_VALUE = 10_000
LOAD_BATCH = 10_000
_SCATTER = 2_654_435_761


def member_name(index: int) -> str:
    """Return the 8-byte id of a member."""
    return f"{index:08d}"


class Population:
    """The members of a board of one size, their first scores, and the traffic on them."""

    def __init__(self, count: int, now_ms: int, seed: int = 1) -> None:
        if not SMALLEST <= count <= LARGEST:
            raise ValueError(f"a population has {SMALLEST:,} to {LARGEST:,} members, not {count:,}")
        self.count = count
        self.now_ms = now_ms
        self._seed = seed
        self._inverse = pow(_SCATTER, -1, count)
        # Sums of the Zipf weights up to each position, for drawing positions by inversion: 8 bytes
        # a member.
        weights = (1.0 / place for place in range(1, count + 1))
        self._cumulative = array("d", accumulate(weights))

    @cached_property
    def _steep(self) -> "array[float]":
        return array("d", accumulate(place**-1.2 for place in range(1, self.count + 1)))

    def active(self, place: int) -> str:
        """Return the member at a position in the order of activity; 1 is the most active."""
        return member_name(place * _SCATTER % self.count)

    def batches(self, size: int = LOAD_BATCH) -> Iterator[list[Entry]]:
        """Yield every member once, in the order of their numbers, with its first score and the time
        it was reached."""
        random = Random(self._seed).random
        inverse, count, now_ms = self._inverse, self.count, self.now_ms
        most = HISTORY_EVENTS * count / self._cumulative[-1]
        for first in range(0, count, size):
            batch = []
            for i in range(first, min(first + size, count)):
                events = most / (i * inverse % count or count)
                score = int(events * LARGEST_VALUE / 2 * (0.5 + random()))
                age_ms = int(min(1.0, -log(1.0 - random()) / events) * HISTORY_MS)
                batch.append((f"{i:08d}", score, now_ms - age_ms))
            yield batch

    def traffic(self, kind: Traffic | Steep, events: int) -> Batch:
        """Return events of 1 to 10,000 points; the members are drawn by Zipf (s = 1, or 1.2) or
        uniformly."""
        random = Random(f"{self._seed} {kind}").random
        values = [1 + int(random() * LARGEST_VALUE) for _ in range(events)]
        if kind == "uniform":
            return [(member_name(int(random() * self.count)), value) for value in values]
        table = self._cumulative if kind == "zipf" else self._steep
        weight = table[-1]
        return [(self.active(1 + bisect(table, random() * weight)), value) for value in values]

    def sample(self, count: int, seed: int = 2) -> list[str]:
        """Return members for reads, drawn uniformly."""
        return [member_name(i) for i in Random(seed).choices(range(self.count), k=count)]


def in_batches(events: Batch, size: int) -> list[Batch]:
    """Yield the events in batches of one size; the last one may be smaller."""
    return [events[first : first + size] for first in range(0, len(events), size)]


def packed(members: Iterable[str]) -> tuple[bytes, bytes]:
    """Return members as the engine takes them: their bytes in one arena, and the length of each as
    a byte."""
    names = [member.encode() for member in members]
    return b"".join(names), bytes(map(len, names))
