"""The latency of single calls on a large board: the median and the 99th percentile."""

from collections.abc import Iterable
from functools import partial
from statistics import quantiles

from bench.internals import local
from bench.peers import BOARD
from bench.peers.rolling_api import RollingApi
from bench.rolling.table import Owner, Table
from bench.rolling.waits import waited
from bench.timing import Sample, Task
from bench.workload import Population, in_batches

_GROUP = "Served, one caller, every commit on the disk, ms a call"
RANK, STANDING, UPDATE = "a rank", "a standing", "an update"
_BATCH = 1_000
MANY = f"a batch of {_BATCH:,}"
_READS, _WRITES, _BATCHES = 5_000, 1_000, 100


def measure_served(api: RollingApi, population: Population) -> list[Sample]:
    """Measure ranks, standings, single events with ranks in their receipts, and batches. Members
    are drawn uniformly."""
    boards = api.boards
    read = population.sample(_READS, seed=31)
    written = population.sample(_WRITES, seed=32)
    batches = in_batches(population.traffic("uniform", _BATCHES * _BATCH), _BATCH)
    calls: dict[str, list[Task]] = {
        RANK: [partial(boards.rank, BOARD, member) for member in read],
        STANDING: [partial(boards.standing, BOARD, member) for member in read],
        UPDATE: [partial(boards.submit, BOARD, member, 1) for member in written],
        MANY: [partial(boards.submit_many, BOARD, batch) for batch in batches],
    }
    table = Table(_GROUP, population)
    with local(boards)._snapshot_scheduler.exclusive():
        for name, tasks in calls.items():
            _keep(table, name, tasks)
    return table.samples


def _keep(table: Table, name: str, tasks: Iterable[Task]) -> None:
    taken = sorted(waited(task) * 1e3 for task in tasks)
    owner = Owner("laurels API", name, safety="each commit")
    every = quantiles(taken, n=100, method="inclusive")
    table.keep(owner, "p50, ms", "ms", every[49])
    table.keep(owner, "p99, ms", "ms", every[98])
    table.keep(owner, "longest, ms", "ms", taken[-1])
