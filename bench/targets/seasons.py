"""The archive: a large period is sealed, and then answers queries."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import quantiles
from time import perf_counter, process_time, thread_time

import laurels
from bench.outcome import Findings, Measure, Outcome
from bench.peers import BOARD
from bench.rolling.table import Owner, Table
from bench.sizes import size_name
from bench.suite import Plan
from bench.targets.payouts import measure_payouts
from bench.targets.scale import Scale
from bench.workload import Population, member_name
from laurels.model.event import MAX_BATCH

_MOST_BYTES = 12
"""The target for the archive, in bytes per member with an id of 8 bytes."""
_MOST_WARM_MS, _MOST_COLD_MS = 1.0, 10.0
_WARM_READS, _COLD_READS = 2_000, 40
_YEAR_MS = 365 * 24 * 3_600_000
_WINDOW = "year"
_PAGE = 100


def measure_seasons(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure sealing, size and reads of one period with all members of a board, and payouts."""
    if "api" not in plan.chosen:
        return
    population = Population(scale.board, plan.now_ms)
    folder = plan.folder / f"seasons-{population.count}"
    try:
        yield _measured(plan, population, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    yield from measure_payouts(plan, scale)


def _measured(plan: Plan, population: Population, folder: Path) -> Findings:
    clock = laurels.ManualClock(plan.now_ms)
    with closing(laurels.open(folder, clock=clock)) as lb:
        windows = [f"{_WINDOW}:keep=2,archive=forever"]
        lb.create(laurels.Board(BOARD, windows=windows, grace="0s", rank="competition"))
        plan.say(f"{population.count:,} members: load of the period to archive")
        for batch in population.batches(MAX_BATCH):
            lb.submit_many(BOARD, batch)
        period = lb.periods(BOARD)[0].label
        clock.advance(3 * _YEAR_MS)
        plan.say(f"{population.count:,} members: seal")
        start, used = perf_counter(), process_time()
        lb.seal()
        rate = population.count / (perf_counter() - start)
        rate_of_processor = population.count / (process_time() - used)
        start = perf_counter()
        assert lb.verify(BOARD, period=period).verified
        verified = population.count / (perf_counter() - start)
    table = Table("A sealed period in a folder", population)
    owner = Owner("laurels API", "one segment", safety="each commit")
    nbytes = sum(path.stat().st_size for path in (folder / "archive").iterdir()) / population.count
    table.keep(owner, "sealed, members/s", "members/s", rate)
    table.keep(owner, "sealed, members/s of the processor", "members/s", rate_of_processor)
    table.keep(owner, "verified with the log, members/s", "members/s", verified)
    table.keep(owner, "archive, bytes a member", "bytes", nbytes)
    outcomes = [_outcome("archive of", population, nbytes, "bytes", _MOST_BYTES)]
    plan.say(f"{population.count:,} members: reads of the sealed period")
    for name, read in _reads(population, period).items():
        for state, times, most in (
            ("warm", _warm(folder, clock, read), _MOST_WARM_MS),
            ("cold", _cold(folder, clock, read), _MOST_COLD_MS),
        ):
            hundredths = quantiles([wall for wall, _ in times], n=100)
            of_processor = quantiles([used for _, used in times], n=100)
            table.keep(owner, f"{name}, {state}, p50 ms", "ms", hundredths[49])
            table.keep(owner, f"{name}, {state}, p99 ms", "ms", hundredths[98])
            table.keep(owner, f"{name}, {state}, p99 of the processor, ms", "ms", of_processor[98])
            outcomes.append(
                _outcome(f"{name}, {state}, p99,", population, hundredths[98], "ms", most)
            )
    return Findings(table.samples, outcomes)


Times = tuple[float, float]
"""The elapsed time of a read and its processor time, in ms."""
Read = Callable[[laurels.Leaderboards, Random], object]


def _reads(population: Population, period: str) -> dict[str, Read]:
    """Return the measured queries: the rank of a random member, and a page at a random position."""

    def rank(lb: laurels.Leaderboards, chance: Random) -> object:
        return lb.rank(BOARD, member_name(chance.randrange(population.count)), period=period)

    def page(lb: laurels.Leaderboards, chance: Random) -> object:
        offset = chance.randrange(population.count)
        return lb.top(BOARD, limit=_PAGE, offset=offset, period=period)

    return {"rank": rank, f"page of {_PAGE}": page}


def _warm(folder: Path, clock: laurels.ManualClock, read: Read) -> list[Times]:
    """Return the times of many reads in one store, after some reads that are not timed."""
    chance = Random(1)
    with closing(laurels.open(folder, clock=clock)) as lb:
        for _ in range(_WARM_READS // 10):
            read(lb, chance)
        return [_milliseconds(lb, read, chance) for _ in range(_WARM_READS)]


def _cold(folder: Path, clock: laurels.ManualClock, read: Read) -> list[Times]:
    """Return the times of many first reads. Each is made in a store that was just opened, after the
    segments were dropped from the cache of the system."""
    chance, times = Random(2), []
    for _ in range(_COLD_READS):
        with closing(laurels.open(folder, clock=clock)) as lb:
            for path in (folder / "archive").iterdir():
                file = os.open(path, os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)
            times.append(_milliseconds(lb, read, chance))
    return times


def _milliseconds(lb: laurels.Leaderboards, read: Read, chance: Random) -> Times:
    start, used = perf_counter(), thread_time()
    read(lb, chance)
    return 1e3 * (perf_counter() - start), 1e3 * (thread_time() - used)


def _outcome(
    name: str, population: Population, figure: float, unit: Measure, most: float
) -> Outcome:
    basis = "ids of 8 bytes" if unit == "bytes" else "through the verbs of the API"
    target = f"{name} {size_name(population.count)} members"
    return Outcome(target=target, measured=figure, measure=unit, most=most, basis=basis)
