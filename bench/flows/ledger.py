"""Ledgers: members written per second, and the delay until a ledger has a change."""

import asyncio
import time

import laurels
from laurels.core.changes.answers import Change
from laurels.flows.ledger.rows import flush_of
from laurels.flows.sinks.opening import DeliveryOptions, open_target
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.target import SinkPage, SinkTarget
from laurels.sql.databases import dialect_of
from laurels.sql.tables import Tables

TABLES = ("scores", "member_data", "source_positions", "scopes", "boards", "sinks", "ledger")
PREFIX = "bench_"
STEP_SECONDS = 0.01
BATCH = 10_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def with_prefix(url: str) -> str:
    """Return the URL with the prefix of the tables that the bench creates and drops."""
    return f"{url}{'&' if '?' in url else '?'}prefix={PREFIX}"


class Timed:
    """A target that passes all pages on, and records the delay of each change."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        self.lags: list[int] = []
        self.began = asyncio.Event()
        self.keeps_positions = target.keeps_positions
        self.holds_state = target.holds_state
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
    """Drop the tables of the bench."""
    dialect, prefix = dialect_of(url)
    connection = dialect.connect()
    for table in TABLES:
        dialect.execute(connection, f"DROP TABLE IF EXISTS {prefix}{table}")
    connection.commit()
    connection.close()


def sink(lb: laurels.AsyncLeaderboards, url: str, *, until_end: bool) -> tuple[SinkRunner, Timed]:
    """Return a sink that writes to a ledger, with its target."""
    target = Timed(open_target(url, "bench", DeliveryOptions(), lb, now_ms))
    options = SinkOptions("bench", until_end=until_end)
    return SinkRunner(lb, target, options, now_ms=now_ms, report=print), target


def _events(first: int, count: int) -> list[tuple[str, int]]:
    return [(f"m{i:07}", 1 + i % 999) for i in range(first, first + count)]


async def written(url: str, members: int) -> tuple[float, float]:
    """Return the members written per second, for new members and for existing ones."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", changes="1d"))
        await sink(lb, url, until_end=True)[0].run()
        rates = []
        for _ in range(2):
            for first in range(0, members, BATCH):
                await lb.submit_many("b", _events(first, min(BATCH, members - first)))
            began = time.perf_counter()
            await sink(lb, url, until_end=True)[0].run()
            rates.append(members / (time.perf_counter() - began))
        return rates[0], rates[1]


async def by_hand(url: str, members: int) -> float:
    """Return the members written per second by the driver alone, with the same rows in
    transactions of the same size."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", changes="1d"))
        await lb.submit_many("b", _events(0, BATCH))
        changes = (await lb.changes("b", limit=BATCH)).changes
    dialect, prefix = dialect_of(url)
    tables = Tables(dialect, prefix)
    connection = dialect.connect()
    rows = _rows(changes)
    began = time.perf_counter()
    for _ in range(members // BATCH):
        for first in (0, BATCH // 2):
            some = rows[first : first + BATCH // 2]
            dialect.upsert(connection, tables.name("scores"), tables.scores, 5, some)
        connection.commit()
    seconds = time.perf_counter() - began
    connection.close()
    return members / seconds


def _rows(changes: list[Change]) -> list[tuple[object, ...]]:
    return [
        ("c", member, *name, *row.scores, row.reached_at, row.last_at, row.period_start, 0, 1)
        for member, entries in flush_of(changes, 1, lambda *_: 0).entries.items()
        for name, row in entries.items()
        if row is not None
    ]


async def lag(url: str, rate: int, seconds: float) -> list[int]:
    """Return the delays of changes in ms, from an event until the ledger has it, at a steady rate
    of events."""
    async with laurels.open_async("memory:") as lb:
        await lb.create(laurels.Board("b", windows=["all", "day"], changes="1h"))
        runner, target = sink(lb, url, until_end=False)
        task = asyncio.create_task(runner.run())
        await target.began.wait()  # the sink writes earlier events as initial entries
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
