"""The cost of a rank and of an update in the engine at one size of board, and of a random read in
memory of that size.

Members are drawn uniformly, and each run uses other members, so that no member is in a cache
because of an earlier run, unless most of the board fits into the cache. All figures are processor
time, which includes waiting for memory and excludes the time of other programs.
"""

import gc
import time
from collections.abc import Callable
from functools import partial

from bench.growth.chase import Chase
from bench.peers.engine import EngineBoard
from bench.sizes import size_name
from bench.timing import Question, Sample, Task
from bench.workload import Population, in_batches

TABLE = "Processor time of one operation by the members of the board, ns"
FOOTPRINT = "Bytes of ranking and ids by the members of the board"
RANK, UPDATE, BATCHED = "a rank", "an update", "an update in a batch of 1,000"
READ = "a random read"
_BATCH = 1_000
_BATCHED_EVENTS = 50
_READS = 300_000
ENGINE_LINES = {
    RANK: "laurels engine, one call each",
    UPDATE: "laurels engine, one call each",
    BATCHED: "laurels engine",
}
MACHINE = "this machine, in as many bytes"


def measure_points(
    board: EngineBoard, population: Population, chase: Chase, calls: int, runs: int
) -> list[Sample]:
    """Return the samples of the nanoseconds that each operation takes, and a sample of the
    board's memory. The operations alternate in `runs` rounds, after one round that is not
    recorded."""
    figures: dict[str, list[float]] = {name: [] for name in (RANK, UPDATE, BATCHED, READ)}
    works = _works(board, population, calls)
    with chase.ring(board.nbytes()) as ring:
        for run in range(runs + 1):
            spent = {name: _nanoseconds(prepare(run)) / n for name, (n, prepare) in works.items()}
            spent[READ] = ring.nanoseconds(_READS)
            for name, kept in figures.items() if run else ():
                kept.append(spent[name])
    samples = [_sample(name, population.count, durations) for name, durations in figures.items()]
    return [*samples, _footprint(population.count, board.nbytes())]


def _nanoseconds(task: Task) -> int:
    """Return the processor time of a call in nanoseconds."""
    gc.collect()
    begun = time.process_time_ns()
    task()
    return time.process_time_ns() - begun


Work = tuple[int, Callable[[int], Task]]


def _works(board: EngineBoard, population: Population, calls: int) -> dict[str, Work]:
    """Return for each operation how often a run does it, and the function that prepares a run from
    the run's number."""

    def ranks(run: int) -> Task:
        return board.rank(population.sample(calls, seed=100 + run))

    def updates(batch: int, count: int, run: int) -> Task:
        members = population.sample(count, seed=200 + run * batch)
        values = range(1, count + 1)
        return board.writes(in_batches(list(zip(members, values, strict=True)), batch))

    many = _BATCHED_EVENTS * _BATCH
    return {
        RANK: (calls, ranks),
        UPDATE: (calls, partial(updates, 1, calls)),
        BATCHED: (many, partial(updates, _BATCH, many)),
    }


def _sample(name: str, members: int, figures: list[float]) -> Sample:
    question = Question(TABLE, 0, size_name(members), "ns")
    return Sample(question, name, ENGINE_LINES.get(name, MACHINE), True, "memory", figures)


def _footprint(members: int, nbytes: int) -> Sample:
    question = Question(FOOTPRINT, 0, size_name(members), "bytes")
    return Sample(question, "laurels engine", "tie first", True, "memory", [float(nbytes)])
