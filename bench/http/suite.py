"""All that is measured over HTTP, and the peers that take part."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from bench.http import traffic, wrk
from bench.http.effort import HttpEffort
from bench.http.feed import BESIDE_EVENTS_A_SECOND, measure_feed, writing_beside
from bench.http.lifetimes import measure_lifetimes
from bench.http.peers import Handler, HttpPeer, Laurels, RedisPeer, RedisService
from bench.http.process import Cores
from bench.http.rounds import Case, Rounds
from bench.peers.redis_server import installed
from bench.timing import Sample
from bench.workload import Population

Chosen: TypeAlias = Literal["laurels", "handlers", "fastapi"]
EVERYONE: frozenset[Chosen] = frozenset(get_args(Chosen))

_BATCH = 1_000
_NEEDED: dict[Chosen, tuple[str, ...]] = {
    "laurels": ("granian", "uvloop"),
    "handlers": ("granian", "uvloop", "falcon"),
    "fastapi": ("fastapi", "uvicorn", "uvloop", "httptools", "redis", "hiredis"),
}


class HttpPlan(msgspec.Struct, frozen=True):
    """What is asked of a run."""

    effort: HttpEffort
    chosen: frozenset[Chosen]
    cores: Cores
    folder: Path
    """Where the durable peers write: one file system for all of them."""
    now_ms: int
    say: Callable[[str], None]
    """Told what is about to be measured."""


class _Peers(msgspec.Struct, frozen=True):
    """Who takes part, as different questions have it."""

    laurels: list[Laurels]
    handlers: list[Handler]
    redis: list[RedisPeer]
    """The safest last. Reads are the same under every setting."""

    def writing(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis, *self.handlers]

    def reading(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis[:1], *self.handlers]

    def changing(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis[:1]]


def missing(chosen: frozenset[Chosen]) -> list[str]:
    """What has to be installed first, a line for each."""
    lines = [] if wrk.installed() else ["wrk is not installed: apt install wrk"]
    if "fastapi" in chosen and not installed():
        lines.append("redis-server is not installed: apt install redis-server")
    absent = sorted({name for peer in chosen for name in _NEEDED[peer] if find_spec(name) is None})
    if absent:
        lines.append(f"not installed: {', '.join(absent)}: pip install -e '.[server,bench]'")
    return lines


def software(chosen: frozenset[Chosen]) -> str:
    """What took part, by version."""
    names = dict.fromkeys(
        name for peer in get_args(Chosen) if peer in chosen for name in _NEEDED[peer]
    )
    return ", ".join([*(f"{name} {version(name)}" for name in names), wrk.version()])


def measure_http(plan: HttpPlan) -> list[Sample]:
    """Every figure, in the order of the tables."""
    with ExitStack() as stack:
        population = Population(plan.effort.members, plan.now_ms)
        peers = _start(plan, population, stack)
        samples = _under_load(plan, population, peers)
        for laurels in peers.laurels:
            samples += measure_feed(laurels, plan.effort, plan.cores.load, plan.say)
            samples += measure_lifetimes(
                laurels, plan.effort, plan.folder, plan.cores.server, plan.say
            )
    return samples


def _start(plan: HttpPlan, population: Population, stack: ExitStack) -> _Peers:
    """The peers, loaded with the same members."""
    peers = _Peers([], [], [])
    core = plan.cores.server
    if "laurels" in plan.chosen:
        plan.say("loading laurels")
        laurels = stack.enter_context(closing(Laurels(plan.folder / "laurels", core)))
        laurels.load(population)
        peers.laurels.append(laurels)
    if "fastapi" in plan.chosen:
        plan.say("loading Redis")
        service = stack.enter_context(closing(RedisService(plan.folder / "redis", core)))
        service.load(population)
        peers.redis.extend([RedisPeer(service, "everysec"), RedisPeer(service, "always")])
    if "handlers" in plan.chosen:
        for interface in ("rsgi", "falcon"):
            handler = stack.enter_context(closing(Handler(interface, core, plan.folder)))
            peers.handlers.append(handler)
    return peers


def _under_load(plan: HttpPlan, population: Population, peers: _Peers) -> list[Sample]:
    effort, folder = plan.effort, plan.folder
    rounds = Rounds(effort, plan.cores.load, plan.say)
    single = traffic.single_events(population, effort.lines, folder)
    batches = traffic.batches_of(_BATCH, population, effort.batch_lines, folder)
    members = traffic.members_of(population, effort.lines, folder)
    same = traffic.same(folder)
    many, few = effort.connections, effort.batch_connections
    samples = rounds.measure(
        Case("POST of an event", single, lambda paths: paths.single, many), peers.writing()
    )
    samples += rounds.measure(
        Case(f"POST of {_BATCH:,} events", batches, lambda paths: paths.batch, few),
        peers.writing(),
    )
    samples += rounds.measure(
        Case("GET of a standing", members, lambda paths: paths.standing, many), peers.reading()
    )
    samples += rounds.measure(
        Case("GET of the top 100", same, lambda paths: paths.top, many), peers.reading()
    )
    changing = f"GET of the top 100, {BESIDE_EVENTS_A_SECOND:,} events/s meanwhile"
    samples += rounds.measure(
        Case(changing, same, lambda paths: paths.top, many),
        peers.changing(),
        writing_beside(effort, plan.cores.load, plan.say),
    )
    return samples
