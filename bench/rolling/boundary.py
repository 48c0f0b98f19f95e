"""A boundary of a large rolling window: the pass before it, the rotation, and the waits that these
cause."""

from array import array
from collections.abc import Callable
from contextlib import closing
from functools import partial
from operator import neg
from time import monotonic, sleep

from bench.falling import falling
from bench.history import HOUR_MS, WEEK
from bench.internals import local
from bench.peers import BOARD
from bench.peers.redis_server import RedisServer
from bench.peers.rolling_api import RollingApi
from bench.peers.rolling_store import RollingStore
from bench.rolling.table import Owner, Table
from bench.rolling.waits import Waits, in_turn, waited
from bench.timing import Sample, Task
from bench.workload import Batch, Population, in_batches, member_name, packed
from laurels.errors import NotReady
from laurels.stores.intake.shares import SHARE

BATCH = 100
"""The number of events in a write by the thread whose waits are measured."""
_BATCHES = 500
_EVERYTHING = 1 << 60
_PAUSE_SECONDS = 0.001
_GROUP = "Boundary of a rolling window"


def measure_boundary(population: Population, now_ms: int, watched_seconds: float) -> list[Sample]:
    """Measure laurels in memory: the pass without other work, beside reads and writes, and done by
    the first calls."""
    table = Table(_GROUP, population)
    with closing(RollingApi(None, now_ms, windows=["rolling"])) as api:
        fill(api, population)
        _Boundaries(api, table, watcher(api, population), watched_seconds).measure()
    return table.samples


def measure_union(server: RedisServer, population: Population, now_ms: int) -> list[Sample]:
    """Measure Redis at the first boundary of the same board, where every client waits for the
    union."""
    table = Table(_GROUP, population)
    steps: set[str] = set()
    with closing(RollingStore(server, WEEK.many)) as store:
        for fallen in falling(population, WEEK.number(now_ms)):
            _, *counted = fallen.cells
            for cells in counted:
                totals = dict(zip(cells.members, cells.totals, strict=True))
                store.add_sorted(_key(cells.step), totals)
                steps.add(_key(cells.step))
        stall = store.unite(sorted(steps))
    united = Owner("Redis", f"ZUNIONSTORE of {len(steps)} tallies", ours=False)
    _keep_pass(table, united, population.count, stall)
    table.keep_waits(united, stall, stall)
    return table.samples


def watcher(
    api: RollingApi, population: Population, apart: Callable[[], float] = lambda: 0.0
) -> Waits:
    """Return the two threads whose waits are measured: one reads standings in the rolling window,
    the other writes batches."""
    members = population.sample(_BATCHES * BATCH, seed=11)
    batches = in_batches([(member, 1) for member in members], BATCH)
    reads = [partial(ask, api, member) for member in members[: _BATCHES * 10]]
    writes = [partial(_write, api, batch) for batch in batches]
    return Waits(in_turn(reads), in_turn(writes), apart)


def ask(api: RollingApi, member: str) -> None:
    """Read a standing, and repeat the query until it is answered."""
    while True:
        try:
            api.boards.standing(BOARD, member, window="rolling")
        except NotReady:
            continue
        return


class _Boundaries:
    """Successive boundaries. The pass of each boundary is done in a different way."""

    def __init__(self, api: RollingApi, table: Table, waits: Waits, watched_seconds: float) -> None:
        self._api, self._table, self._waits = api, table, waits
        self._watched_seconds = watched_seconds
        self._window = api.board_store.whole.rolling["rolling"]

    def measure(self) -> None:
        alone = Owner("laurels engine", "nobody else")
        self._pass(alone, lambda: self._window.advance(_EVERYTHING))
        self._waits.calm(self._watched_seconds)
        self._table.keep_calm(_owner("no pass under way"), self._waits.read, self._waits.write)
        self._keep_first(_owner("pass done ahead"), self._cross())
        self._watched(_owner(f"shares by each write of {BATCH}"), self._by_writes)
        local(self._api.boards).paced = True
        self._watched(_owner(f"shares of {SHARE:,} by a task"), self._by_shares)
        self._cross()
        self._watched(_owner("all by the first calls"), self._by_first_calls)
        self._window.advance(_EVERYTHING)
        self._table.keep(alone, "turn, µs", "µs", waited(self._window.rotate_step) * 1e6)

    def _watched(self, owner: Owner, work: Task) -> None:
        with self._waits.watching():
            self._pass(owner, work)
        self._table.keep_waits(owner, self._waits.read, self._waits.write)

    def _pass(self, owner: Owner, work: Task) -> None:
        todo = self._window.pass_remaining
        spent = waited(work)
        # The first calls also rotated, so they did the whole pass; `pass_remaining` is of the next.
        left = 0 if work == self._by_first_calls else self._window.pass_remaining
        if todo > left:
            _keep_pass(self._table, owner, todo - left, spent)

    def _cross(self) -> float:
        """Pass a boundary; return the seconds of the first read after it."""
        self._api.clock.advance(HOUR_MS)
        return waited(lambda: ask(self._api, member_name(1)))

    def _by_writes(self) -> None:
        """Wait until the writes of the writing thread have done the pass, for a limited time."""
        ends = monotonic() + self._watched_seconds
        while not self._window.complete and monotonic() < ends:
            sleep(_PAUSE_SECONDS)

    def _by_shares(self) -> None:
        while local(self._api.boards).work(SHARE)[0]:
            sleep(_PAUSE_SECONDS)

    def _by_first_calls(self) -> None:
        self._keep_first(_owner("all by the first calls"), self._cross())

    def _keep_first(self, owner: Owner, spent: float) -> None:
        self._table.keep(owner, "first read after it, ms", "ms", spent * 1e3)


def _keep_pass(table: Table, owner: Owner, members: int, spent: float) -> None:
    table.keep(owner, "pass, s", "s", spent)
    table.keep(owner, "pass, members/s", "members/s", members / spent)


def _owner(how: str) -> Owner:
    return Owner("laurels API", how)


def fill(api: RollingApi, population: Population) -> None:
    """Fill the windows by the functions that restore a snapshot, with the same result as counting
    a history."""
    api.boards.submit(BOARD, "first", 1)
    window, roster = api.board_store.whole.rolling["rolling"], api.index._roster
    for fallen in falling(population, window.running):
        for cells in fallen.cells:
            ids = roster.intern(*packed(cells.members))
            window.load(cells.step, ids, [array("q", map(neg, cells.totals)), cells.reached])
        ids = roster.intern(*packed(fallen.members))
        words = [array("q", map(neg, fallen.totals)), fallen.reached, fallen.newest]
        window.live.put(ids, words)
    window.prepare()
    local(api.boards)._fold.resume_passes()


def _write(api: RollingApi, batch: Batch) -> None:
    api.boards.submit_many(BOARD, batch)


def _key(step: int) -> str:
    return f"{BOARD}:step:{step}"
