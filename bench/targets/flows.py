"""The cost and the speed of changes, ledgers and sources."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from tests.flows.nats_servers import NatsServer
from tests.redis.servers import Server

from bench.flows import changes, ledger, rebuild, sources
from bench.flows.servers import LargeMariaDB, LargePostgres, missing
from bench.outcome import Findings, Measure, Outcome
from bench.sizes import size_name
from bench.suite import EVERYBODY, Plan
from bench.targets.scale import FlowScale, Scale
from bench.workload import Population

_LEAST_KEPT = 0.75
_LEAST_BY_HAND = 0.9
_LEAST_REBUILT = 100_000
_LAG_RATE = 5_000
_MOST_LAG_MS = (200, 1_000)

Rate = Callable[[Path], Awaitable[float]]


def measure_flows(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure changes, ledgers and sources, on servers that are started for that."""
    flows = scale.flows
    if flows is None or plan.chosen != EVERYBODY:
        return
    if lacking := missing():
        plan.say(f"changes, ledgers and sources are not measured: {'; '.join(lacking)}")
        return
    yield Findings([], list(_changes(plan, flows)))
    with LargePostgres() as postgres:
        yield Findings([], list(_ledger(plan, flows, "PostgreSQL", postgres.url, 30_000)))
        yield Findings([], list(_rebuilt(plan, flows, postgres.url)))
    with LargeMariaDB() as mariadb:
        yield Findings([], list(_ledger(plan, flows, "MariaDB", mariadb.url, 60_000)))
    with _folder(plan) as folder:
        url = f"sqlite:///{folder / 'ledger.db'}"
        yield Findings([], list(_ledger(plan, flows, "SQLite", url, None)))
    yield from _sources(plan, flows)


def _changes(plan: Plan, flows: FlowScale) -> Iterator[Outcome]:
    plan.say("durable events with changes and without")
    population = Population(flows.members, plan.now_ms)
    with _folder(plan) as folder:
        kept, none, read = changes.measure(folder, population, flows.events, flows.runs)
    size = size_name(flows.members)
    yield Outcome(
        target=f"durable events with changes, {size} members, as a share of those without",
        measured=changes.ratio(kept, none),
        measure="of it",
        least=_LEAST_KEPT,
        basis=f"{median(kept):,.0f} events/s against {median(none):,.0f}, batches of 1,000, Zipf",
    )
    yield _figure("changes read, pages of 10,000", median(read), "changes/s")


def _ledger(
    plan: Plan, flows: FlowScale, name: str, server: str, least: float | None
) -> Iterator[Outcome]:
    plan.say(f"a ledger in {name}")
    url = ledger.with_prefix(server)
    new, again, hand = list[float](), list[float](), list[float]()
    for _ in range(flows.runs):
        ledger.drop(url)
        first, second = asyncio.run(ledger.written(url, flows.members))
        new.append(first)
        again.append(second)
        hand.append(asyncio.run(ledger.by_hand(url, flows.members)))
    ledger.drop(url)
    alone = f"the driver alone {median(hand):,.0f}"
    for what, rates in (("new", new), ("again", again)):
        yield _figure(f"{name}, members {what}", median(rates), "members/s", least, basis=alone)
    cuts = quantiles(asyncio.run(ledger.lag(url, _LAG_RATE, flows.seconds)), n=100)
    ledger.drop(url)
    for case, lag, most in zip(("p50", "p99"), (cuts[49], cuts[98]), _MOST_LAG_MS, strict=True):
        yield Outcome(
            target=f"{name}, lag {case} at {_LAG_RATE:,} events/s",
            measured=lag,
            measure="ms",
            most=most,
            basis="from the commit of an event to the commit of its row, two windows",
        )


def _rebuilt(plan: Plan, flows: FlowScale, server: str) -> Iterator[Outcome]:
    url = ledger.with_prefix(server)
    ledger.drop(url)
    rebuild.fill(url, flows.rebuilt)
    for what in ("memory", "a folder"):
        plan.say(f"a board made from a ledger in PostgreSQL, in {what}")
        with _folder(plan) as folder:
            into = "memory:" if what == "memory" else str(folder / "boards")
            entries, seconds, spent = rebuild.timed(url, into)
        yield _figure(
            f"{size_name(flows.rebuilt)} members made from PostgreSQL, in {what}",
            entries / seconds,
            "members/s",
            _LEAST_REBUILT,
            basis=f"{spent:.1f} s of this process in {seconds:.1f}",
        )
    ledger.drop(url)


def _sources(plan: Plan, flows: FlowScale) -> Iterator[Findings]:
    plan.say("events from a stream of NATS JetStream")
    with NatsServer() as nats:
        at_nats = sources.fill_nats(nats, flows.messages, flows.members)
        yield Findings(
            [],
            [
                _source(
                    plan,
                    flows,
                    "NATS JetStream",
                    lambda folder: sources.ours(at_nats, folder, flows.messages),
                    lambda folder: sources.by_hand_nats(nats, folder, flows.messages),
                )
            ],
        )
    plan.say("events from a Redis stream")
    with Server() as redis:
        at_redis = sources.fill_redis(redis, flows.messages, flows.members)
        yield Findings(
            [],
            [
                _source(
                    plan,
                    flows,
                    "a Redis stream",
                    lambda folder: sources.ours(at_redis, folder, flows.messages),
                    lambda folder: sources.by_hand_redis(redis, folder, flows.messages),
                )
            ],
        )


def _source(plan: Plan, flows: FlowScale, name: str, ours: Rate, hand: Rate) -> Outcome:
    """Measure our source and the handwritten loop alternately, each time with a new folder."""
    mine, other = list[float](), list[float]()
    for _ in range(flows.runs):
        for rate, rates in ((ours, mine), (hand, other)):
            with _folder(plan) as folder:
                rates.append(asyncio.run(_awaited(rate, folder / "boards")))
    return Outcome(
        target=f"events from {name}, as a share of a handwritten loop",
        measured=changes.ratio(mine, other),
        measure="of it",
        least=_LEAST_BY_HAND,
        basis=f"{median(mine):,.0f} events/s against {median(other):,.0f}, batches of 1,000",
    )


async def _awaited(rate: Rate, folder: Path) -> float:
    return await rate(folder)


def _figure(
    target: str, measured: float, measure: Measure, least: float | None = None, basis: str = ""
) -> Outcome:
    return Outcome(target=target, measured=measured, measure=measure, least=least, basis=basis)


@contextmanager
def _folder(plan: Plan) -> Iterator[Path]:
    """Return a context manager with a new folder beside those of the durable peers."""
    with TemporaryDirectory(prefix="flows-", dir=plan.folder) as folder:
        yield Path(folder)
