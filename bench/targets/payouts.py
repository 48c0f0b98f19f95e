"""Payouts: one for each member of a large period is made, emitted, and sent to a receiver on this
machine."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import perf_counter, process_time

import laurels
from bench.outcome import Findings
from bench.peers import BOARD
from bench.rolling.table import Owner, Table
from bench.suite import Plan
from bench.targets.scale import Scale
from bench.workload import Population
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.model.event import MAX_BATCH

_YEAR_MS = 365 * 24 * 3_600_000
_PRIZES = {"list": [{"name": "all", "percent": 100, "amount": "1.00", "scale": 2}]}
_BYTES_A_KIB = 1_024


def measure_payouts(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure payouts of a period in which every member has won a prize."""
    if "api" not in plan.chosen:
        return
    population = Population(scale.board, plan.now_ms)
    folder = plan.folder / f"payouts-{population.count}"
    try:
        yield _measured(plan, population, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(plan: Plan, population: Population, folder: Path) -> Findings:
    clock = laurels.ManualClock(plan.now_ms)
    table = Table("Payouts of a period in a folder", population)
    owner = Owner("laurels API", "one prize a member", safety="each commit")
    count = population.count
    with closing(laurels.open(folder, clock=clock)) as lb:
        windows = [{"name": "year", "type": "year", "prizes": {**_PRIZES, "pay_after": "1h"}}]
        lb.create(laurels.Board(BOARD, windows=windows, grace="0s", tie="member"))
        plan.say(f"{count:,} members: load of the period with prizes")
        for batch in population.batches(MAX_BATCH):
            lb.submit_many(BOARD, batch)
        clock.advance(3 * _YEAR_MS)
        plan.say(f"{count:,} members: seal and make the payouts")
        start, used = perf_counter(), process_time()
        lb.seal()
        table.keep(
            owner, "sealed and made, payouts/s", "payouts/s", count / (perf_counter() - start)
        )
        of_processor = count / (process_time() - used)
        table.keep(owner, "sealed and made, payouts/s of the processor", "payouts/s", of_processor)
        clock.advance(3_600_000)
        start = perf_counter()
        lb.due_payouts(limit=1)
        table.keep(owner, "emitted, payouts/s", "payouts/s", count / (perf_counter() - start))
    plan.say(f"{count:,} members: send the payouts")
    before, used = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
    messages, ids, seconds = _sent(folder, clock)
    assert messages == ids == count
    table.keep(owner, "sent, payouts/s", "payouts/s", count / seconds)
    of_processor = count / (process_time() - used)
    table.keep(owner, "sent, payouts/s of the processor", "payouts/s", of_processor)
    grown = (getrusage(RUSAGE_SELF).ru_maxrss - before) * _BYTES_A_KIB
    table.keep(owner, "memory that sending added to the peak", "bytes", grown)
    return Findings(table.samples)


def _sent(folder: Path, clock: laurels.ManualClock) -> tuple[int, int, float]:
    """Send all payouts to a receiver. Return how many messages and ids it has, and the seconds that
    this took."""
    arguments = [sys.executable, "-m", "bench.payout_receiver"]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as receiver:
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        url = f"http://127.0.0.1:{int(receiver.stdout.readline())}/"
        asyncio.run(_send(folder, clock, url))
        receiver.stdin.write("\n")
        receiver.stdin.flush()
        messages, ids, seconds = receiver.stdout.readline().split()
    return int(messages), int(ids), float(seconds)


async def _send(folder: Path, clock: laurels.ManualClock, url: str) -> None:
    async with laurels.open_async(folder, clock=clock) as lb:
        options = SinkOptions("bench", until_end=True, what="payouts")
        target = open_target(url, "bench", DeliveryOptions(allows_private=True), lb, clock.now_ms)
        await SinkRunner(lb, target, options, now_ms=clock.now_ms).run()
