"""Measurements of rolling windows and snapshots at one size of board.

Events compared with Redis, and their cost by the number of steps, are measured up to a million
members. Memory, a boundary, a snapshot and recovery are measured at every size.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TypeAlias, get_args

from msgspec.structs import replace

from bench.effort import Effort
from bench.footprint import ProcessMemory
from bench.history import WEEK, History, evening
from bench.internals import local
from bench.peers import Writer
from bench.peers.one_core import OnOneCore
from bench.peers.redis_server import Fsync, Placement, RedisServer, Setting
from bench.peers.rolling_api import RollingApi
from bench.peers.rolling_redis import RollingRedis, Way
from bench.peers.rolling_store import RollingStore
from bench.rolling.boundary import measure_boundary, measure_union
from bench.rolling.recovery import measure_ours, measure_redis
from bench.rolling.steps import measure_steps
from bench.rolling.weights import weigh_ours, weigh_process, weigh_redis
from bench.suite import Plan
from bench.timing import Sample
from bench.workload import Population, Traffic
from bench.writes import measure_writes

Drive: TypeAlias = tuple[Way, Placement]

WRITTEN_UP_TO = 1_000_000
"""The largest board on which events are measured. A larger one takes too long to fill for every
peer."""
_TRAFFIC: tuple[Traffic, ...] = get_args(Traffic)
_DRIVES: tuple[Drive, ...] = (
    ("pipeline", "one core"),
    ("transaction", "one core"),
    ("transaction", "any core"),
    ("script", "any core"),
    ("script by columns", "one core"),
    ("script by columns", "any core"),
)
_DURABLE: tuple[Fsync, ...] = ("always", "everysec")


def measure_rolling(plan: Plan, members: int) -> list[Sample]:
    """Measure everything at one size of board."""
    return RollingSize(plan, members).measure()


class RollingSize:
    """The measurements at one size of board."""

    def __init__(self, plan: Plan, members: int) -> None:
        self._plan = plan
        self._population = Population(members, plan.now_ms)
        self._now_ms = evening(plan.now_ms)
        self._history = History(self._population, WEEK.begins_ms(self._now_ms), self._now_ms)
        self._samples: list[Sample] = []

    def measure(self) -> list[Sample]:
        """Run all measurements. Redis is filled once: its events and the memory of its keys are
        measured, and then its snapshot."""
        with ExitStack() as stack:
            server = self._server(stack, "keys") if self._is_chosen("redis") else None
            store = self._filled(stack, server) if server else None
            if store:
                self._say("bytes: Redis")
                self._samples += weigh_redis(store, self._population)
            if self._population.count <= WRITTEN_UP_TO:
                self._writes(server, store)
                self._steps()
            if server and store:
                self._say("snapshot: Redis")
                seconds = self._plan.effort.watched_seconds
                server.use("off")
                self._samples += measure_redis(server, store, self._population, seconds)
        self._our_recovery()
        self._boundary()
        return self._samples

    def measure_safest(self) -> list[Sample]:
        """Measure only durable events, compared with a Redis server that flushes as often as
        laurels does."""
        with ExitStack() as stack:
            server = self._server(stack, "keys") if self._is_chosen("redis") else None
            store = self._filled(stack, server) if server else None
            self._durable(server, store, ("always",))
        return self._samples

    def _filled(self, stack: ExitStack, server: RedisServer) -> RollingStore:
        self._say("load: Redis")
        store = stack.enter_context(closing(RollingStore(server, WEEK.many)))
        store.load(self._history, WEEK, self._now_ms)
        return store

    def _writes(self, server: RedisServer | None, store: RollingStore | None) -> None:
        """Measure in memory first, because the append-only file is switched on for the durable
        runs."""
        with ExitStack() as stack:
            writers: list[Writer] = []
            if self._is_chosen("api"):
                writers.append(stack.enter_context(closing(self._api(None))))
            if server and store:
                writers += _drives(stack, server, store, "off")
            self._measure_writes("Rolling events/s in memory", writers)
        self._durable(server, store, _DURABLE)

    def _durable(
        self, server: RedisServer | None, store: RollingStore | None, flushed: Sequence[Fsync]
    ) -> None:
        with ExitStack() as stack:
            writers: list[Writer] = []
            if self._is_chosen("api"):
                folder = stack.enter_context(self._folder("durable"))
                api = stack.enter_context(closing(self._api(folder)))
                writers += [api, OnOneCore(api)]
            if server and store:
                for fsync in flushed:
                    writers += _drives(stack, server, store, fsync)
            self._measure_writes("Durable rolling events/s", writers)

    def _measure_writes(self, group: str, writers: list[Writer]) -> None:
        # Each event changes five structures instead of one, so a run has fewer events.
        events = {size: n // 2 for size, n in self._plan.effort.events.items() if size > 1}
        effort: Effort = replace(self._plan.effort, events=events)
        for kind in _TRAFFIC:
            self._say(f"{group}, {kind}")
            self._samples += measure_writes(group, writers, self._population, kind, effort)

    def _api(self, place: Path | None) -> RollingApi:
        """Return a board with its history. Its next step is prepared, and a snapshot was taken
        just now, so that none is taken while events are counted."""
        self._say(f"load: laurels, {'memory:' if place is None else 'durable'}")
        api = RollingApi(place, self._now_ms)
        api.load(self._history.batches())
        while local(api.boards).work(1 << 60)[0]:
            pass
        if place is not None:
            api.boards.snapshot()
        return api

    def _steps(self) -> None:
        if self._is_chosen("engine"):
            self._say("few and many steps")
            effort = self._plan.effort
            self._samples += measure_steps(self._population, self._plan.now_ms, effort, _TRAFFIC)

    def _our_recovery(self) -> None:
        if not self._is_chosen("api"):
            return
        population, seconds = self._population, self._plan.effort.watched_seconds
        self._say("snapshot and recovery: all")
        with (
            self._folder("plain") as folder,
            closing(RollingApi(folder, self._now_ms, windows=["all"])) as api,
        ):
            api.load(population.batches())
            self._samples += measure_ours(api, population, 0)
        self._say("snapshot and recovery: all + day + rolling")
        with self._folder("kept") as folder, closing(RollingApi(folder, self._now_ms)) as api:
            api.load(self._history.batches())
            self._samples += weigh_ours(api, population)
            self._samples += measure_ours(api, population, seconds)
        if population.count <= WRITTEN_UP_TO:
            with self._folder("process") as folder:
                grown = ProcessMemory().growth(population.count, folder, rolling=True)
            self._samples += weigh_process(grown, population)

    def _boundary(self) -> None:
        seconds = self._plan.effort.watched_seconds
        if self._is_chosen("api"):
            self._say("boundary: laurels")
            self._samples += measure_boundary(self._population, self._now_ms, seconds)
        if self._is_chosen("redis"):
            self._say("boundary: Redis")
            with ExitStack() as stack:
                server = self._server(stack, "union")
                self._samples += measure_union(server, self._population, self._now_ms)

    def _server(self, stack: ExitStack, called: str) -> RedisServer:
        return stack.enter_context(RedisServer(stack.enter_context(self._folder(called))))

    @contextmanager
    def _folder(self, called: str) -> Iterator[Path]:
        """Return a context manager with a new folder. It is removed at the end, since a large board
        could fill a disk."""
        folder = self._plan.folder / f"{called}-{self._population.count}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    def _is_chosen(self, word: str) -> bool:
        return word in self._plan.chosen

    def _say(self, what: str) -> None:
        self._plan.say(f"{self._population.count:,} members: {what}")


def _drives(
    stack: ExitStack, server: RedisServer, store: RollingStore, fsync: Fsync
) -> list[RollingRedis]:
    made = [RollingRedis(server, store, way, Setting(fsync, place)) for way, place in _DRIVES]
    return [stack.enter_context(closing(redis)) for redis in made]
