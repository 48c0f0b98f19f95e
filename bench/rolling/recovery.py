"""Snapshots of a board in use, and the time to open it from a snapshot or from the log."""

from contextlib import closing
from functools import partial

from bench.peers.redis_server import RedisServer, Setting
from bench.peers.resp import Counting, command
from bench.peers.rolling_api import WINDOWS, RollingApi, shape
from bench.peers.rolling_redis import RollingRedis
from bench.peers.rolling_store import LIVE, RollingStore
from bench.rolling.boundary import BATCH, watcher
from bench.rolling.table import Owner, Table
from bench.rolling.waits import Waits, in_turn, waited
from bench.timing import Sample
from bench.timing import seconds as timed
from bench.workload import Population, in_batches

_BATCHES = 200
_VERIFIED = 50


class Recovery:
    """The figures about snapshots and opening, at one size of board."""

    def __init__(self, population: Population, shape: str) -> None:
        self._table = Table(f"Snapshot and recovery, {shape}", population)
        self._members = population.count

    @property
    def samples(self) -> list[Sample]:
        return self._table.samples

    def taken(self, owner: Owner, seconds: float) -> None:
        self._table.keep(owner, "taken, s", "s", seconds)
        self._table.keep(owner, "taken, members/s", "members/s", self._members / seconds)

    def opened(self, owner: Owner, seconds: float) -> None:
        self._table.keep(owner, "opened, s", "s", seconds)
        self._table.keep(owner, "opened, members/s", "members/s", self._members / seconds)

    def size(self, owner: Owner, nbytes: int) -> None:
        self._table.keep(owner, "bytes a member", "bytes", nbytes / self._members)

    def waited(self, owner: Owner, waits: Waits) -> None:
        self._table.keep_waits(owner, waits.read, waits.write)

    def calm(self, owner: Owner, waits: Waits) -> None:
        self._table.keep_calm(owner, waits.read, waits.write)

    def forked(self, owner: Owner, seconds: float) -> None:
        self._table.keep(owner, "fork, ms", "ms", seconds * 1e3)


def measure_ours(api: RollingApi, population: Population, watched_seconds: float) -> list[Sample]:
    """Measure a board in a folder without a snapshot: opening it from the log alone, taking a
    snapshot, and opening it from the snapshot. With `watched_seconds`, take another snapshot during
    reads and writes."""
    recovery = Recovery(population, api.shape)
    log, copy = _owner("the log alone"), _owner("a snapshot")
    recovery.size(log, api.boards.stats().log_nbytes)
    api.close()
    recovery.opened(log, timed(api.open))
    recovery.taken(copy, timed(api.boards.snapshot))
    if watched_seconds:
        waits = watcher(api, population)
        waits.calm(watched_seconds)
        recovery.calm(_owner("no snapshot under way"), waits)
        with waits.watching():
            spent = waited(api.boards.snapshot)
        serving = _owner("a snapshot while serving")
        recovery.taken(serving, spent)
        recovery.waited(serving, waits)
        # take a snapshot, so that opening need not fold the entries written meanwhile
        api.boards.snapshot()
    _open_copy(api, population, recovery)
    return recovery.samples


def measure_copy(api: RollingApi, population: Population) -> list[Sample]:
    """Measure a board in a folder: taking a snapshot without other work, and opening the board from
    it."""
    recovery = Recovery(population, api.shape)
    recovery.taken(_owner("a snapshot"), timed(api.boards.snapshot))
    _open_copy(api, population, recovery)
    return recovery.samples


def _open_copy(api: RollingApi, population: Population, recovery: Recovery) -> None:
    """Open the board from the newest snapshot. Raise AssertionError if its scores differ."""
    copy = _owner("a snapshot")
    recovery.size(copy, api.boards.stats().kept.snapshot_nbytes or 0)
    members = population.sample(_VERIFIED)
    before = api.scores(members)
    api.close()
    recovery.opened(copy, timed(api.open))
    if api.scores(members) != before:
        raise AssertionError("the opened snapshot has other scores")


def measure_redis(
    server: RedisServer, store: RollingStore, population: Population, watched_seconds: float
) -> list[Sample]:
    """Measure the same keys in Redis: a server that forks to save them, is killed, and is started
    again."""
    recovery = Recovery(population, shape(WINDOWS))
    serving = Owner("Redis", "BGSAVE while serving", ours=False)
    with (
        closing(RollingRedis(server, store, "transaction", Setting())) as writer,
        closing(Counting(server.socket)) as reader,
    ):
        members = population.sample(_BATCHES * BATCH, seed=11)
        batches = in_batches([(member, 1) for member in members], BATCH)
        ranks = [command(b"ZREVRANK", LIVE.encode(), m.encode()) for m in members[: 10 * _BATCHES]]
        waits = Waits(
            in_turn([partial(reader.ask, rank, 1) for rank in ranks]),
            in_turn([writer.writes([batch]) for batch in batches]),
        )
        waits.calm(watched_seconds)
        recovery.calm(Owner("Redis", "no snapshot under way", ours=False), waits)
        with waits.watching():
            spent = waited(server.save_aside)
    recovery.taken(serving, spent)
    recovery.waited(serving, waits)
    recovery.forked(serving, server.fork_us() / 1e6)
    recovery.size(serving, server.snapshot_bytes())
    recovery.opened(serving, server.start_again())
    # The writes during the save changed scores, but added and removed no members.
    if store.size(LIVE) != population.count:
        raise AssertionError("the snapshot has another number of members")
    return recovery.samples


def _owner(settings: str) -> Owner:
    return Owner("laurels", settings)
