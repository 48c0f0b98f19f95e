"""A queue of jobs that many payers share. The jobs of the payer that was charged least in the last
seconds come first."""

from collections import deque
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heapreplace
from typing import Generic, TypeVar

T = TypeVar("T")
HALF_LIFE_SECONDS = 1.0
_FORGOTTEN = 1.0


class FairQueue(Generic[T]):
    """Jobs, each with a cost that is charged to one payer when the job is taken. The sum charged to
    a payer is halved every second."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._jobs: dict[str, deque[tuple[int, T]]] = {}
        self._charged: dict[str, float] = {}
        self._at = clock()

    def __bool__(self) -> bool:
        """Whether jobs are waiting."""
        return bool(self._jobs)

    def put(self, payers: Collection[str], cost: int, job: T) -> None:
        """Add a job. If it has several payers, the one that was charged least in the last seconds
        pays for it."""
        payer = min(payers, key=self._cost_of)
        self._jobs.setdefault(payer, deque()).append((cost, job))

    def charge(self, payer: str, cost: int) -> None:
        """Charge a payer for work that did not wait in the queue."""
        self._charged[payer] = self._cost_of(payer) + cost

    def take(self, most: int) -> tuple[list[T], int]:
        """Remove jobs with a total cost of up to `most`, but at least one job if there is any.
        Return the jobs and their total cost. O(payers + jobs taken * log(payers))."""
        self._forget()
        cheapest = [(self._cost_of(payer), payer) for payer in self._jobs]
        heapify(cheapest)
        taken: list[T] = []
        total = 0
        while cheapest:
            payer = cheapest[0][1]
            jobs = self._jobs[payer]
            if taken and total + jobs[0][0] > most:
                break
            cost, job = jobs.popleft()
            total += cost
            taken.append(job)
            self.charge(payer, cost)
            if jobs:
                heapreplace(cheapest, (self._cost_of(payer), payer))
            else:
                heappop(cheapest)
                del self._jobs[payer]
        return taken, total

    def clear(self) -> list[T]:
        """Remove and return all jobs."""
        jobs = [job for waiting in self._jobs.values() for _, job in waiting]
        self._jobs.clear()
        return jobs

    def _cost_of(self, payer: str) -> float:
        return self._charged.get(payer, 0.0)

    def _forget(self) -> None:
        """Let the charges decay by the time that has passed. O(payers)."""
        now = self._clock()
        left = 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS)
        self._at = now
        self._charged = {
            payer: cost * left for payer, cost in self._charged.items() if cost * left > _FORGOTTEN
        }
