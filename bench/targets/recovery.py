"""A large board in a folder: it is loaded, serves calls, takes a snapshot, and is opened from
it."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from bench.footprint import resident_bytes
from bench.history import evening
from bench.outcome import Findings, Outcome
from bench.peers.rolling_api import RollingApi
from bench.report import short
from bench.rolling.recovery import measure_ours
from bench.rolling.table import Owner, Table
from bench.sizes import size_name
from bench.suite import Plan
from bench.targets.scale import Scale
from bench.targets.served import RANK, STANDING, UPDATE, measure_served
from bench.timing import Sample
from bench.workload import Population
from laurels.model.event import MAX_BATCH

_LEAST_LOADED, _LEAST_OPENED = 1e6, 2e6
_MOST_BYTES = 100
"""The target at 100 million members, in bytes per member: 10 GB in total."""


def measure_recovery(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure a board of 10 million members, for which there are targets."""
    if "api" not in plan.chosen:
        return
    population = Population(scale.large, plan.now_ms)
    with _loaded(plan, population) as (api, samples):
        yield Findings(samples, [_load_outcome(samples, population)])
        served = measure_served(api, population)
        yield Findings(served)
        plan.say(f"{population.count:,} members: snapshot and recovery")
        recovered = measure_ours(api, population, 0)
        yield Findings(recovered, [recovery_outcome(recovered, population, "one window")])


def measure_huge(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """If requested, measure a board of 100 million members: its load, its memory, and its calls."""
    if "api" not in plan.chosen or scale.huge is None:
        return
    population = Population(scale.huge, plan.now_ms)
    with _loaded(plan, population) as (api, samples):
        served = measure_served(api, population)
        outcomes = [_load_outcome(samples, population), *_huge_outcomes(samples, population)]
        yield Findings([*samples, *served], [*outcomes, *_served_outcomes(served, population)])


@contextmanager
def _loaded(plan: Plan, population: Population) -> Iterator[tuple[RollingApi, list[Sample]]]:
    """Return a context manager with a board with the window all, and the figures about its load and
    the growth of the process."""
    plan.say(f"{population.count:,} members: load through the API, durable")
    folder = plan.folder / f"board-{population.count}"
    try:
        with closing(RollingApi(folder, evening(plan.now_ms), windows=["all"])) as api:
            before = resident_bytes()
            seconds = api.load(population.batches(MAX_BATCH))
            table = Table("A board with the window all, in a folder", population)
            owner = Owner("laurels API", "SQLite WAL, synchronous=FULL", safety="each commit")
            rate, grown = population.count / seconds, resident_bytes() - before
            table.keep(owner, "loaded, members/s", "members/s", rate)
            table.keep(owner, "growth of the process, bytes a member", "bytes",
                       grown / population.count)  # fmt: skip
            yield api, table.samples
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _load_outcome(samples: Sequence[Sample], population: Population) -> Outcome:
    rate = _figure(samples, "loaded, members/s")
    return Outcome(
        target=f"load of {size_name(population.count)} members, durable, one window",
        measured=rate,
        measure="members/s",
        least=_LEAST_LOADED,
        basis=f"{population.count / rate:.1f} s in batches of {MAX_BATCH:,}",
    )


def recovery_outcome(samples: Sequence[Sample], population: Population, windows: str) -> Outcome:
    """Return the outcome of opening a snapshot, in members per second."""
    rate = _figure(samples, "opened, members/s", "a snapshot")
    return Outcome(
        target=f"recovery from a snapshot, {size_name(population.count)} members, {windows}",
        measured=rate,
        measure="members/s",
        least=_LEAST_OPENED,
        basis=f"{population.count / rate:.2f} s from open() to its end",
    )


def _huge_outcomes(samples: Sequence[Sample], population: Population) -> Iterator[Outcome]:
    nbytes = _figure(samples, "growth of the process, bytes a member")
    yield Outcome(
        target=f"memory of a process, {size_name(population.count)} members, a member",
        measured=nbytes,
        measure="bytes",
        most=_MOST_BYTES,
        basis=f"{nbytes * population.count / 1e9:.2f} GB, ids of 8 bytes and one window",
    )


def _served_outcomes(samples: Sequence[Sample], population: Population) -> Iterator[Outcome]:
    for name in (RANK, STANDING, UPDATE):
        for case in ("p50, ms", "p99, ms"):
            yield Outcome(
                target=f"{name} at {size_name(population.count)} members, {case[:3]}",
                measured=_figure(samples, case, name),
                measure="ms",
                basis=f"longest {short(_figure(samples, 'longest, ms', name))} ms",
            )


def _figure(samples: Sequence[Sample], case: str, settings: str | None = None) -> float:
    """Return the figure of a case that has only one."""
    [figure] = [
        s.middle for s in samples if s.question.case == case and settings in (None, s.settings)
    ]
    return figure
