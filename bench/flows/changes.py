"""The cost of keeping changes, and the speed of reading them."""

import time
from pathlib import Path
from statistics import median

import laurels
from bench.workload import Batch, Population, in_batches

BATCH = 1_000
PAGE = 10_000


class Rates:
    """Two rates: the events counted per second, and the changes read per second. Events come in
    batches of 1,000, and each batch is durable when it is counted."""

    def __init__(self, folder: Path, population: Population, batches: list[Batch]) -> None:
        self._folder = folder
        self._population = population
        self._batches = batches

    def of(self, name: str, changes: str = "") -> tuple[float, float]:
        """Return the events counted per second and, if the board keeps changes, the changes read
        per second."""
        with laurels.open(self._folder / name) as lb:
            lb.create(laurels.Board("b", changes=changes))
            for entries in self._population.batches():
                lb.submit_many("b", [(member, score) for member, score, _ in entries])
            began = time.perf_counter()
            for batch in self._batches:
                lb.submit_many("b", batch)
            written = time.perf_counter() - began
            read = _read(lb) if changes else 0.0
        return sum(map(len, self._batches)) / written, read


def _read(lb: laurels.Leaderboards) -> float:
    """Return the changes read per second, page by page from the oldest."""
    count, after = 0, None
    began = time.perf_counter()
    while True:
        page = lb.changes("b", after=after, limit=PAGE)
        count, after = count + len(page), page.cursor
        if not page.more:
            return count / (time.perf_counter() - began)


def measure(
    folder: Path, population: Population, events: int, runs: int
) -> tuple[list[float], list[float], list[float]]:
    """Measure in each run the events counted per second on a board that keeps changes and on one
    that does not, and the changes read per second. Return these three figures of all runs."""
    batches = in_batches(population.traffic("zipf", events), BATCH)
    rates = Rates(folder, population, batches)
    kept, none, read = list[float](), list[float](), list[float]()
    for run in range(runs):
        none.append(rates.of(f"without-{run}")[0])
        written, reading = rates.of(f"with-{run}", changes="1d")
        kept.append(written)
        read.append(reading)
    return kept, none, read


def ratio(kept: list[float], none: list[float]) -> float:
    """Return the median over the runs of the rate with changes (`kept`) divided by the rate without
    changes (`none`)."""
    return median([mine / other for mine, other in zip(kept, none, strict=True)])
