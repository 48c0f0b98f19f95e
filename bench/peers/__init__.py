"""The peers of laurels, and laurels itself: each peer as fast as we can make it.

A peer returns tasks. Everything that a caller could prepare is prepared when the task is created,
and only the rest is timed. The protocols define the tasks.
"""

from collections.abc import Sequence
from typing import Protocol

from bench.timing import Peer, Task
from bench.workload import Batch, Population

BOARD = "bench"
RADIUS = 5
TOP = 100


class Writer(Peer, Protocol):
    def writes(self, batches: Sequence[Batch]) -> Task:
        """Return a task that writes the batches one after the other, each after the previous one is
        acknowledged."""
        ...

    def scores(self, members: Sequence[str]) -> list[int]:
        """Return the current scores for verification, 0 for absent members."""
        ...


class Ranker(Peer, Protocol):
    def rank(self, members: Sequence[str]) -> Task:
        """Return a task that reads the rank of each member, with one call for each."""
        ...

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        """Return a task that reads the ranks of each group of members, with one call or pipeline
        for each."""
        ...


class Reader(Ranker, Protocol):
    def around(self, members: Sequence[str]) -> Task:
        """Return a task that reads the 11 entries around each member, with scores."""
        ...

    def top(self, times: int) -> Task:
        """Return a task that reads the first 100 entries with their scores several times."""
        ...

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        """Return a task that reads the ranks and scores of each group of members."""
        ...


class Loaded(Peer, Protocol):
    def load(self, population: Population) -> float:
        """Load every member. Return how many seconds that took, without the time to prepare the
        input."""
        ...
