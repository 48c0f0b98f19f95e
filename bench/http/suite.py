"""All measurements over HTTP in their order, and the peers."""

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
SHORT_PEERS: frozenset[Chosen] = frozenset({"laurels", "fastapi"})

_BATCH = 1_000
_NEEDED: dict[Chosen, tuple[str, ...]] = {
    "laurels": ("granian", "uvloop"),
    "handlers": ("granian", "uvloop", "falcon"),
    "fastapi": ("fastapi", "uvicorn", "uvloop", "httptools", "redis", "hiredis"),
}


class HttpPlan(msgspec.Struct, frozen=True):
    """The options of a run."""

    effort: HttpEffort
    chosen: frozenset[Chosen]
    cores: Cores
    folder: Path
    """The folder of all durable peers, so that they use the same file system."""
    now_ms: int
    say: Callable[[str], None]
    """A function to call with the name of the next measurement."""


class _Peers(msgspec.Struct, frozen=True):
    """The peers of each measurement."""

    laurels: list[Laurels]
    handlers: list[Handler]
    redis: list[RedisPeer]
    """The peers, the least durable first. Reads are the same with every setting."""

    def writing(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis, *self.handlers]

    def reading(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis[:1], *self.handlers]

    def changing(self) -> list[HttpPeer]:
        return [*self.laurels, *self.redis[:1]]


def missing(chosen: frozenset[Chosen]) -> list[str]:
    """Return a sentence for each requirement that is missing."""
    lines = [] if wrk.installed() else ["wrk is not installed: apt install wrk"]
    if "fastapi" in chosen and not installed():
        lines.append("redis-server is not installed: apt install redis-server")
    absent = sorted({name for peer in chosen for name in _NEEDED[peer] if find_spec(name) is None})
    if absent:
        lines.append(f"not installed: {', '.join(absent)}: pip install -e '.[server,bench]'")
    return lines


def software(chosen: frozenset[Chosen]) -> str:
    """Return the software that takes part, with versions."""
    names = dict.fromkeys(
        name for peer in get_args(Chosen) if peer in chosen for name in _NEEDED[peer]
    )
    return ", ".join([*(f"{name} {version(name)}" for name in names), wrk.version()])


def measure_http(plan: HttpPlan) -> list[Sample]:
    """Return all figures in the order of the tables."""
    with ExitStack() as stack:
        population = Population(plan.effort.members, plan.now_ms)
        peers = _start(plan, population, stack)
        samples = _Load(plan, population, peers).all()
        for laurels in peers.laurels:
            samples += measure_feed(laurels, plan.effort, plan.cores.load, plan.say)
            samples += measure_lifetimes(
                laurels, plan.effort, plan.folder, plan.cores.server, plan.say
            )
    return samples


def measure_short(plan: HttpPlan) -> list[Sample]:
    """Return only the figures of single events and standings."""
    with ExitStack() as stack:
        population = Population(plan.effort.members, plan.now_ms)
        load = _Load(plan, population, _start(plan, population, stack))
        return [*load.events(), *load.standings()]


def _start(plan: HttpPlan, population: Population, stack: ExitStack) -> _Peers:
    """Start the peers, and load them with the same members."""
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


class _Load:
    """The cases of load, each with its own requests."""

    def __init__(self, plan: HttpPlan, population: Population, peers: _Peers) -> None:
        self._plan, self._population, self._peers = plan, population, peers
        self._rounds = Rounds(plan.effort, plan.cores.load, plan.say)

    def all(self) -> list[Sample]:
        """Return all cases in the order of the tables."""
        return [*self.events(), *self.batches(), *self.standings(), *self.tops()]

    def events(self) -> list[Sample]:
        effort = self._plan.effort
        sent = traffic.single_events(self._population, effort.lines, self._plan.folder)
        case = Case("POST of an event", sent, lambda paths: paths.single, effort.connections)
        return self._rounds.measure(case, self._peers.writing())

    def batches(self) -> list[Sample]:
        effort, folder = self._plan.effort, self._plan.folder
        sent = traffic.batches_of(_BATCH, self._population, effort.batch_lines, folder)
        group, many = f"POST of {_BATCH:,} events", effort.batch_connections
        case = Case(group, sent, lambda paths: paths.batch, many)
        return self._rounds.measure(case, self._peers.writing())

    def standings(self) -> list[Sample]:
        effort = self._plan.effort
        members = traffic.members_of(self._population, effort.lines, self._plan.folder)
        case = Case("GET of a standing", members, lambda paths: paths.standing, effort.connections)
        return self._rounds.measure(case, self._peers.reading())

    def tops(self) -> list[Sample]:
        """Yield the cases of reading a top: on a board that does not change, and on one that
        does."""
        plan, peers, many = self._plan, self._peers, self._plan.effort.connections
        same = traffic.same(plan.folder)
        still = Case("GET of the top 100", same, lambda paths: paths.top, many)
        changing = f"{still.group}, {BESIDE_EVENTS_A_SECOND:,} events/s meanwhile"
        beside = writing_beside(plan.effort, plan.cores.load, plan.say)
        return [
            *self._rounds.measure(still, peers.reading()),
            *self._rounds.measure(
                Case(changing, same, lambda paths: paths.top, many), peers.changing(), beside
            ),
        ]
