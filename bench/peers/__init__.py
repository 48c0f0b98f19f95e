"""What laurels is measured against, and laurels itself: each peer as fast as we can make it.

A peer answers with tasks: everything a caller could have prepared is prepared when the task is
made, and what is left to do is timed. The protocols say which tasks there are.
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
        """Apply the batches one after the other, each acknowledged before the next."""
        ...

    def scores(self, members: Sequence[str]) -> list[int]:
        """The present scores, 0 where absent: to verify that the work was done."""
        ...


class Ranker(Peer, Protocol):
    def rank(self, members: Sequence[str]) -> Task:
        """The rank of each member, one call each."""
        ...

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        """The ranks of each group of members, a call or pipeline per group."""
        ...


class Reader(Ranker, Protocol):
    def around(self, members: Sequence[str]) -> Task:
        """The 11 entries around each member, with scores."""
        ...

    def top(self, times: int) -> Task:
        """The first 100 entries with scores, so many times."""
        ...

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        """The ranks and scores of each group of members."""
        ...


class Loaded(Peer, Protocol):
    def load(self, population: Population) -> float:
        """Load every member; the seconds it took, without those spent on making the input."""
        ...
