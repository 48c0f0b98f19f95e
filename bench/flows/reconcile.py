"""Reconciling a ledger with its store while events are counted: whether all differences are mended,
and how fast.

    python -m bench.flows.reconcile postgresql://USER@HOST/DATABASE sqlite:///FILE

It creates and drops tables with the prefix `bench_`. Events come at a steady rate, and a sink is
running. Then random entries on one side are changed, and `reconcile` mends that side. Members whose
entries are changed in the store get no events, because these would be added to the wrong scores.
"""

import argparse
import asyncio
import time
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any, get_args

from msgspec import Struct

import laurels
from bench.flows.ledger import drop, sink
from bench.internals import local
from bench.machine import describe
from laurels.core.mending import StoredEntry, entry_columns
from laurels.core.ranking_key import RankingKey
from laurels.core.record import MendRanking
from laurels.flows.ledger.reconcile import BoardReconciler, Side
from laurels.sql.databases import dialect_of

STEP_SECONDS = 0.01
CHANGES = (
    "UPDATE {}scores SET score_1 = score_1 + 99",
    "UPDATE {}scores SET reached_at = 5",
    "DELETE FROM {}scores",
)


class Outcome(Struct):
    """The result for one side that was mended."""

    events: float
    corrupted: int = 0
    mended: int = 0
    seconds: float = 0.0
    wrong: int = 0


class Run:
    """A board with events at a steady rate, its sink, and corrupted entries."""

    def __init__(self, lb: laurels.AsyncLeaderboards, url: str, members: int, rate: int) -> None:
        self._lb = lb
        self._url = url
        self._rate = rate
        self._random = Random(1)
        self._names = [f"m{i:06}" for i in range(members)]
        self._busy = self._names[: members // 4]
        self._quiet = self._names[members // 4 :]
        self._totals = dict.fromkeys(self._names, 1)
        self.count = 0

    async def begin(self) -> None:
        for start in range(0, len(self._names), 10_000):
            some = self._names[start : start + 10_000]
            await self._lb.submit_many("b", [(name, 1) for name in some])

    async def events(self) -> None:
        """Submit events at the rate until the task is cancelled."""
        size, loop = int(self._rate * STEP_SECONDS), asyncio.get_running_loop()
        began, step = loop.time(), 0
        while True:
            some = [(self._random.choice(self._busy), 1) for _ in range(size)]
            for name, _ in some:
                self._totals[name] += 1
            await self._lb.submit_many("b", some)
            self.count += size
            step += 1
            await asyncio.sleep(max(0.0, began + step * STEP_SECONDS - loop.time()))

    def corrupt(self, side: Side, count: int) -> int:
        """Corrupt the entries of this many members; return the number of changed entries."""
        if side == "store":
            chosen = self._random.sample(self._quiet, count)
            self._change_store(chosen)
        else:
            chosen = self._random.sample(self._names, count)
            dialect, prefix = dialect_of(self._url)
            connection = dialect.connect()
            for name in chosen:
                change = self._random.choice(CHANGES).replace("{}", prefix)
                where = "WHERE board = 'b' AND member = %s"
                dialect.execute(connection, f"{change} {where}", (name,))
                connection.commit()
            connection.close()
        return len(chosen)

    def _change_store(self, members: list[str]) -> None:
        store: Any = local(self._lb.sync)
        state = store.named("b")
        entries = [StoredEntry(name, 99, 5) for name in members]
        columns = entry_columns(entries, state.rules)
        for window in state.rules.windows.values():
            instance = window.instance_of(window.period_at(time.time_ns() // 1_000_000))
            key = RankingKey(state.number, window.name, instance)
            rows = columns.members, columns.lengths, columns.rows
            with store._lock:
                store._fold.index.mend(key, MendRanking(0, 0, 0, *key[1:], *rows))

    async def wrong(self) -> int:
        """The number of members whose total is not the sum of their events."""
        scores = {e.member: e.score async for e in self._lb.export("b", window="all")}
        return sum(scores.get(name) != total for name, total in self._totals.items())


async def measured(url: str, side: Side, members: int, rate: int, corruptions: int) -> Outcome:
    """Mend one side while events are counted, and count the wrong entries at the end."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", windows=["all", "month"], changes="1h"))
        run = Run(lb, url, members, rate)
        await run.begin()
        await sink(lb, url, until_end=True)[0].run()
        tasks = [
            asyncio.create_task(run.events()),
            asyncio.create_task(sink(lb, url, until_end=False)[0].run()),
        ]
        outcome = Outcome(0.0)
        began = time.perf_counter()
        while outcome.corrupted < corruptions:
            some = min(100, corruptions - outcome.corrupted)
            outcome.corrupted += await asyncio.to_thread(run.corrupt, side, some)
            before = time.perf_counter()
            done = await BoardReconciler(lb, *dialect_of(url), side).run("b")
            outcome.seconds += time.perf_counter() - before
            outcome.mended += done.mended
        outcome.events = run.count / (time.perf_counter() - began)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await sink(lb, url, until_end=True)[0].run()
        last = await BoardReconciler(lb, *dialect_of(url)).run("b")
        outcome.wrong = await run.wrong() + last.differing + last.waiting
        return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--members", type=int, default=20_000)
    parser.add_argument("--rate", type=int, default=5_000, help="the number of events per second")
    parser.add_argument("--corruptions", type=int, default=1_000, help="of each side")
    parsed = parser.parse_args()
    print(describe(Path(gettempdir())).line())
    print("| ledger | wrong side | events/s | changed | entries mended | wrong after | s a run |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for plain in parsed.urls:
        url = plain + ("&" if "?" in plain else "?") + "prefix=bench_"
        name = dialect_of(url)[0].name
        for side in get_args(Side):
            drop(url)
            result = asyncio.run(
                measured(url, side, parsed.members, parsed.rate, parsed.corruptions)
            )
            runs = -(-parsed.corruptions // 100)
            print(
                f"| {name} | {side} | {result.events:,.0f} | {result.corrupted:,} | "
                f"{result.mended:,} | {result.wrong:,} | {result.seconds / runs:.1f} |",
                flush=True,
            )
        drop(url)


if __name__ == "__main__":
    main()
