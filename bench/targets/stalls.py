"""The longest wait on a large board during writes, at a boundary, and during a snapshot.

One board has all + day + rolling 7d/1h. Every member has one event in the week: a quarter of them
in the step that leaves first, and a quarter in the next one. So the passes over the boundary visit
half of all members, and the members whose only event leaves are removed. In each phase, one thread
reads standings and another one writes batches of 100 events; both pause for half a millisecond
after every answer, and writes wait for their own flush. Python's garbage collector ignores the
objects that exist before the run, as in `laurels serve`; most of these belong to the bench. The
longest write is also shown without the append to the log, which is almost only disk time.
"""

import gc
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from time import perf_counter, sleep
from typing import Any, cast

from bench.history import DAY_MS, HOUR_MS, WEEK, evening
from bench.internals import local
from bench.outcome import Findings, Outcome
from bench.peers.rolling_api import RollingApi
from bench.report import short
from bench.rolling.boundary import watcher
from bench.rolling.hiccups import Hiccups
from bench.rolling.recovery import measure_copy
from bench.rolling.table import Owner, Table
from bench.rolling.waits import Waits
from bench.sizes import size_name
from bench.suite import Plan
from bench.targets.recovery import recovery_outcome
from bench.targets.scale import Scale
from bench.timing import Sample, Task
from bench.workload import Entry, Population
from laurels.stores.intake.shares import SHARE
from laurels.stores.local.log.base import Log

_GROUP = "Longest waits, all + day + rolling 7d/1h"
_MOST_MS = 10.0
_PAUSE_SECONDS = 0.001
_PARTS = 4


def measure_stalls(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure writes without other work, over a boundary, and during a snapshot. Then open the
    same board from a snapshot."""
    if "api" not in plan.chosen:
        return
    population = Population(scale.large, plan.now_ms)
    now_ms = evening(plan.now_ms)
    folder = plan.folder / f"stalls-{population.count}"
    plan.say(f"{population.count:,} members: load of all + day + rolling")
    try:
        with closing(RollingApi(folder, now_ms)) as api:
            api.load(leaving(population, now_ms))
            local(api.boards).paced = True
            appends = _Appends(local(api.boards)._log)
            local(api.boards)._log = cast(Log, appends)
            yield from _phases(plan, api, population, appends)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Appends:
    """A log that also adds up the seconds of its appends."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.seconds = 0.0

    def append(self, body: bytes) -> int:
        began = perf_counter()
        offset = self._log.append(body)
        self.seconds += perf_counter() - began
        return offset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def leaving(population: Population, now_ms: int) -> Iterator[list[Entry]]:
    """Yield one event per member. Of every four members, two are in the two oldest steps, one is
    anywhere in the week, and one is on the current day."""
    begins_ms = WEEK.begins_ms(now_ms)
    starts = (begins_ms, begins_ms + HOUR_MS, begins_ms, now_ms // DAY_MS * DAY_MS)
    spans = (HOUR_MS, HOUR_MS, now_ms - begins_ms, now_ms % DAY_MS)
    for batch in population.batches():
        yield [
            (member, score, starts[i % _PARTS] + at_ms % spans[i % _PARTS])
            for i, (member, score, at_ms) in enumerate(batch)
        ]


def _phases(
    plan: Plan, api: RollingApi, population: Population, appends: _Appends
) -> Iterator[Findings]:
    waits = watcher(api, population, lambda: appends.seconds)
    phases: tuple[tuple[str, Task], ...] = (
        ("writing", lambda: sleep(plan.effort.watched_seconds)),
        ("writing and rolling", lambda: _roll(api)),
    )
    with _settled_heap():
        with local(api.boards)._snapshot_scheduler.exclusive():
            for name, task in phases:
                yield _watched(plan, population, waits, name, task)
        yield _watched(plan, population, waits, "writing and snapshotting", api.boards.snapshot)
    plan.say(f"{population.count:,} members: recovery of all + day + rolling")
    copied = measure_copy(api, population)
    yield Findings(copied, [recovery_outcome(copied, population, api.shape)])


@contextmanager
def _settled_heap() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _roll(api: RollingApi) -> None:
    """Do the work ahead of a boundary and pass the boundary, twice."""
    for _ in range(2):
        while not _is_prepared(api):
            sleep(_PAUSE_SECONDS)
        api.clock.advance(HOUR_MS)


def _is_prepared(api: RollingApi) -> bool:
    """Do a share of the due work. Return whether all work that is due at the clock's time is done.
    The store's own time stands still during a commit. While it is behind the clock, more work may
    become due, so the result is False."""
    left, _ = local(api.boards).work(SHARE)
    return not left and local(api.boards)._fold.now_ms >= api.clock.now_ms()


def _watched(plan: Plan, population: Population, waits: Waits, name: str, task: Task) -> Findings:
    plan.say(f"{population.count:,} members: waits while {name}")
    hiccups = Hiccups(plan.folder)
    with hiccups.watching(), waits.watching():
        task()
    table, owner = Table(_GROUP, population), Owner("laurels API", name, safety="each commit")
    table.keep_waits(owner, waits.read, waits.write)
    without_log = waits.write_itself * 1e3
    table.keep(owner, "longest write without its append to the log, ms", "ms", without_log)
    table.keep(owner, "the machine's longest hiccup, ms", "ms", hiccups.sleeping * 1e3)
    table.keep(owner, "its longest flush, ms", "ms", hiccups.flushing * 1e3)
    return Findings(table.samples, [_outcome(table.samples, name, population)])


def _outcome(samples: Sequence[Sample], name: str, population: Population) -> Outcome:
    read, write, itself, hiccup, flush = (sample.middle for sample in samples)
    return Outcome(
        target=f"longest stall, {size_name(population.count)} members, {name}",
        measured=max(read, write),
        measure="ms",
        most=_MOST_MS,
        basis=f"a read {short(read)} ms, a write of 100 with its flush {short(write)} ms, "
        f"one without its append to the log {short(itself)} ms, "
        f"a process that only sleeps {short(hiccup)} ms, one that only flushes {short(flush)} ms",
    )
