"""Measurements at one size of board: load, memory, reads, writes, then durable writes.

Compared peers have the same members loaded at the same time. The Redis server is loaded once; its
append-only file is switched on before the durable writes.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from bench.effort import SUBMITTERS, Effort
from bench.footprint import ProcessMemory
from bench.peers import Loaded, Reader, Writer
from bench.peers.api import ApiBoard, ApiThreads
from bench.peers.engine import EngineBoard
from bench.peers.one_core import OnOneCore
from bench.peers.redis_client import ClientRedis
from bench.peers.redis_raw import RawRedis, Way
from bench.peers.redis_server import Fsync, Placement, RedisServer, Setting
from bench.peers.redis_store import RedisStore
from bench.reads import measure_reads
from bench.timing import Peer, Question, Sample, Unit, single
from bench.workload import Population, Traffic
from bench.writes import measure_writes

Chosen: TypeAlias = Literal["engine", "api", "redis"]
EVERYBODY: frozenset[Chosen] = frozenset(get_args(Chosen))
Drive: TypeAlias = tuple[Way, Placement]

_TRAFFIC: tuple[Traffic, ...] = get_args(Traffic)
_WRITING: tuple[Drive, ...] = (
    ("pipeline", "one core"),
    ("pipeline", "any core"),
    ("transaction", "one core"),
    ("transaction", "any core"),
    ("script", "any core"),  # a script is not the fastest on any placement, so only one is measured
)
_READING: tuple[Drive, ...] = (
    ("pipeline", "one core"),
    ("pipeline", "any core"),
    ("script", "one core"),
    ("script", "any core"),
)
_DURABLE: tuple[Fsync, ...] = ("always", "everysec")


class Plan(msgspec.Struct, frozen=True):
    """The options of a run."""

    now_ms: int
    """The time at which the boards' history ends."""
    chosen: frozenset[Chosen]
    effort: Effort
    folder: Path
    """The folder of all durable peers, so that they use the same file system."""
    say: Callable[[str], None]
    """A function to call with the name of the next measurement."""


class Size:
    """The measurements at one size of board."""

    def __init__(self, plan: Plan, members: int) -> None:
        self._plan = plan
        self._population = Population(members, plan.now_ms)
        self._samples: list[Sample] = []

    def measure(self) -> list[Sample]:
        with ExitStack() as stack:
            server = self._server(stack) if "redis" in self._plan.chosen else None
            self._in_memory(server)
            self._durable(server)
        return self._samples

    def measure_safest(self) -> list[Sample]:
        """Measure only durable events, compared with a Redis server that flushes as often as
        laurels does."""
        with ExitStack() as stack:
            writers: list[Writer] = []
            if "api" in self._plan.chosen:
                folder = str(self._plan.folder / f"laurels-{self._population.count}")
                board = stack.enter_context(closing(self._load_api(folder)))
                writers += [board, OnOneCore(board)]
            if "redis" in self._plan.chosen:
                server = self._server(stack)
                self._load_redis(server)
                writers += _raw(stack, server, "always", _WRITING)
            self._write("Durable events/s, all", writers, _TRAFFIC)
        return self._samples

    def _server(self, stack: ExitStack) -> RedisServer:
        folder = self._plan.folder / f"redis-{self._population.count}"
        folder.mkdir()
        return stack.enter_context(RedisServer(folder))

    def _in_memory(self, server: RedisServer | None) -> None:
        readers: list[Reader] = []
        writers: list[Writer] = []
        with ExitStack() as stack:
            if "engine" in self._plan.chosen:
                engine = self._load_engine()
                readers.append(engine)
                writers.append(engine)
            if "api" in self._plan.chosen:
                self._weigh_process()
                api = stack.enter_context(closing(self._load_api("memory:")))
                readers.append(api)
                writers.append(api)
            if server:
                self._load_redis(server)
                readers += _redis(stack, server, "off", _READING)
                writers += _redis(stack, server, "off", _WRITING)
            self._say("reads")
            self._samples += measure_reads(readers, self._population, self._plan.effort)
            self._write("Events/s in memory", writers, _TRAFFIC)

    def _durable(self, server: RedisServer | None) -> None:
        alone: list[Writer] = []
        together: list[Writer] = []
        with ExitStack() as stack:
            if "api" in self._plan.chosen:
                board, threads = self._load_durable(stack)
                alone.append(board)
                together.append(threads)
            if server:
                for fsync in _DURABLE:
                    alone += _redis(stack, server, fsync, _WRITING)
                    together += _raw(stack, server, fsync, _WRITING, SUBMITTERS)
            self._write("Durable events/s", alone, _TRAFFIC)
            self._write(f"Durable events/s, {SUBMITTERS} submitters", together, ("zipf",))

    def _load_engine(self) -> EngineBoard:
        """Measure the memory of an engine that does not store which of two equal scores was reached
        first, and of one that does. Return the second engine."""
        for board in (EngineBoard(tie=False), EngineBoard()):
            self._load(board)
            self._weigh(board, "ranking", board.ranking.nbytes)
            self._weigh(board, "ranking and ids", board.nbytes())
        return board

    def _load_api(self, url: str) -> ApiBoard:
        board = ApiBoard(url)
        self._load(board)
        return board

    def _load_durable(self, stack: ExitStack) -> tuple[ApiBoard, ApiThreads]:
        folder = self._plan.folder / f"laurels-{self._population.count}"
        board = stack.enter_context(closing(self._load_api(str(folder))))
        return board, ApiThreads(board, SUBMITTERS)

    def _load_redis(self, server: RedisServer) -> None:
        store = RedisStore(server)
        self._load(store)
        # Every sorted set has its own copy of the ids, so the memory with and without the ids is
        # the same for Redis.
        for case in ("ranking", "ranking and ids"):
            self._weigh(store, case, store.nbytes())

    def _weigh_process(self) -> None:
        process = ProcessMemory()
        self._say(f"memory: {process.name}, {process.settings}")
        folder = self._plan.folder / f"process-{self._population.count}"
        self._weigh(process, "ranking and ids", process.growth(self._population.count, folder))

    def _load(self, peer: Loaded) -> None:
        self._say(f"load: {peer.name}, {peer.settings}")
        count = self._population.count
        seconds = peer.load(self._population)
        self._keep(peer, "Load, members/s", "in batches of 10,000", "members/s", count / seconds)

    def _weigh(self, peer: Peer, case: str, nbytes: int) -> None:
        figure = nbytes / self._population.count
        self._keep(peer, "Memory, bytes a member", case, "bytes", figure)

    def _keep(self, peer: Peer, group: str, case: str, unit: Unit, figure: float) -> None:
        question = Question(group, self._population.count, case, unit)
        self._samples.append(single(question, peer, figure))

    def _write(self, group: str, writers: Sequence[Writer], kinds: Sequence[Traffic]) -> None:
        for kind in kinds:
            self._say(f"{group}, {kind}")
            effort = self._plan.effort
            self._samples += measure_writes(group, writers, self._population, kind, effort)

    def _say(self, what: str) -> None:
        self._plan.say(f"{self._population.count:,} members: {what}")


def _redis(
    stack: ExitStack, server: RedisServer, fsync: Fsync, drives: Sequence[Drive]
) -> list[RawRedis | ClientRedis]:
    """Return the Redis peers with one connection: for each way and placement in `drives` a peer
    that sends prepared bytes, and one peer through redis-py, with a single placement."""
    placement: Placement = "any core" if fsync == "always" else "one core"
    client = ClientRedis(server, Setting(fsync, placement))
    return [*_raw(stack, server, fsync, drives), client]


def _raw(
    stack: ExitStack,
    server: RedisServer,
    fsync: Fsync,
    drives: Sequence[Drive],
    connections: int = 1,
) -> list[RawRedis]:
    made = [
        RawRedis(server, way, Setting(fsync, placement), connections) for way, placement in drives
    ]
    return [stack.enter_context(closing(redis)) for redis in made]
