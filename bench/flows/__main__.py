"""The ledger: members written a second, and how late a change is there.

python -m bench.flows postgresql://USER@HOST/DATABASE mysql://USER@HOST/DATABASE sqlite:///FILE

The tables of the prefix `bench_` are made and dropped. Rates are of a page of changes of as many
different members; a sequential insert of the same rows by the same driver is beside it. The lag is
from the commit of an event until the commit of its row, at a steady rate of events.
"""

import argparse
import asyncio
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import gettempdir

import laurels
from bench.machine import describe
from laurels.flows.ledger.databases import dialect_of
from laurels.flows.ledger.rows import flush_of
from laurels.flows.ledger.tables import Tables
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.runner import SinkOptions, SinkRunner
from laurels.flows.sinks.target import SinkPage, SinkTarget

MEMBERS = 100_000
ROUNDS = 3
TABLES = ("scores", "member_data", "source_positions", "boards", "sinks", "ledger")
STEP_SECONDS = 0.01


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Timed:
    """A target that notes how late each change was delivered."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self.lags: list[int] = []
        self.began = asyncio.Event()
        self.keeps_positions = target.keeps_positions
        self.takes_state = target.takes_state
        self.limit = target.limit

    async def open(self) -> None:
        await self._target.open()

    async def position(self, board: str) -> str | None:
        return await self._target.position(board)

    async def deliver(self, page: SinkPage) -> None:
        await self._target.deliver(page)
        self.began.set()
        done = now_ms()
        self.lags += [done - change.at_ms for change in page.changes if change.kind == "event"]

    async def reset(self, board: str, position: str | None) -> None:
        await self._target.reset(board, position)

    async def close(self) -> None:
        await self._target.close()


def drop(url: str) -> None:
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    for table in TABLES:
        dialect.execute(connection, f"DROP TABLE IF EXISTS {prefix}{table}")
    connection.commit()
    connection.close()


def sink(lb: laurels.AsyncLeaderboards, url: str, *, until_end: bool) -> tuple[SinkRunner, Timed]:
    target = Timed(open_target(url, "bench", DeliveryOptions(), lb, now_ms))
    options = SinkOptions("bench", until_end=until_end)
    return SinkRunner(lb, target, options, now_ms=now_ms, report=print), target


async def members_a_second(url: str) -> tuple[float, float]:
    """Members written a second: new ones, and ones that are there."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", changes="1d"))
        await sink(lb, url, until_end=True)[0].run()
        rates = []
        for _ in range(2):
            for start in range(0, MEMBERS, 10_000):
                await lb.submit_many("b", [(f"m{i:07}", 7) for i in range(start, start + 10_000)])
            began = time.perf_counter()
            await sink(lb, url, until_end=True)[0].run()
            rates.append(MEMBERS / (time.perf_counter() - began))
        return rates[0], rates[1]


async def by_hand(url: str) -> float:
    """Members a second of the same rows written by the driver alone, in pages of the same size."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", changes="1d"))
        await lb.submit_many("b", [(f"h{i:07}", 7) for i in range(10_000)])
        changes = (await lb.changes("b", limit=10_000)).changes
    dialect, prefix = dialect_of(url)
    tables = Tables(dialect, prefix)
    connection = dialect.connect()
    rows = [
        ("c", member, *name, *row.scores, row.reached_at, row.last_at, row.period_start, 0, 1)
        for member, entries in flush_of(changes, 1, lambda *_: 0).entries.items()
        for name, row in entries.items()
        if row is not None
    ]
    began = time.perf_counter()
    for _ in range(MEMBERS // 10_000):
        for start in (0, 5_000):
            some = rows[start : start + 5_000]
            dialect.upsert(connection, tables.name("scores"), tables.scores, 5, some)
        connection.commit()
    seconds = time.perf_counter() - began
    connection.close()
    return MEMBERS / seconds


async def lag(url: str, rate: int, seconds: float) -> list[int]:
    """How late changes are in the ledger, in milliseconds, at a steady rate of events."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", windows=["all", "day"], changes="1h"))
        runner, target = sink(lb, url, until_end=False)
        task = asyncio.create_task(runner.run())
        await target.began.wait()  # what counts before that comes as present entries
        size = int(rate * STEP_SECONDS)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for step in range(int(seconds / STEP_SECONDS)):
            await lb.submit_many("b", [(f"m{(step * size + i) % 20_000}", 1) for i in range(size)])
            await asyncio.sleep(max(0.0, began + (step + 1) * STEP_SECONDS - loop.time()))
        wanted = size * int(seconds / STEP_SECONDS)
        while len(target.lags) < wanted:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return target.lags


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--rate", type=int, default=5_000, help="events a second, for the lag")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the lag")
    parsed = parser.parse_args()
    print(describe(Path(gettempdir())).line())
    print("| ledger | new members/s | again | driver alone | lag p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    for plain in parsed.urls:
        url = plain + ("&" if "?" in plain else "?") + "prefix=bench_"
        new, again, hand = [], [], []
        for _ in range(ROUNDS):
            drop(url)
            first, second = asyncio.run(members_a_second(url))
            new.append(first)
            again.append(second)
            hand.append(asyncio.run(by_hand(url)))
        drop(url)
        cuts = quantiles(asyncio.run(lag(url, parsed.rate, parsed.seconds)), n=100)
        drop(url)
        name = dialect_of(url)[0].name
        rates = " | ".join([f"{median(found):,.0f}" for found in (new, again, hand)])
        print(f"| {name} | {rates} | {cuts[49]:.0f} | {cuts[98]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
