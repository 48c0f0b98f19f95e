"""The cost of an event in a refreshed window, and for how long a refresh blocks the server."""

from collections.abc import Iterator
from functools import partial
from random import Random

from bench.history import DAY_MS, HOUR_MS, Steps
from bench.redis.boards import (
    BATCH,
    LARGEST_VALUE,
    Deployment,
    LayoutName,
    board_of,
    deployed,
    in_flight,
    traffic_of,
)
from bench.redis.book import Book, Owner
from bench.redis.effort import RedisEffort
from bench.redis.serving import Server, blocked_ms, cost_of, serving, without_file
from bench.workload import Batch, Entry, Population, in_batches

_MONTH = Steps(30, 24)
_LAYOUTS: tuple[LayoutName, ...] = ("plain", "prefixed")
_CELLS = 5
_LOAD = 10_000
_BETWEEN_BATCHES_MS = 10
_EVENT = "Redis's processor time an event of all and 30d/1d, µs"
_HELD = "How long the server is held by a share of a refresh of 30d/1d, ms"


async def measure_refreshes(
    core: int, population: Population, effort: RedisEffort, book: Book
) -> None:
    """Measure the same events in a live and in a refreshed window, and the refreshes of the
    latter."""
    for layout in _LAYOUTS:
        for refresh in ("", ",refresh=1h"):
            owner = Owner("laurels", f"{layout}, {'refreshed' if refresh else 'live'}")
            with serving(core) as server:
                async with deployed(server.url, population.now_ms) as deployment:
                    deployment.do_nothing_ahead()
                    run = _Run(server, deployment, layout, refresh, population, owner, book)
                    await run.fill()
                    await run.events(effort)
                    if refresh:
                        await run.refreshes()


class _Run:
    """A board with one of the two windows."""

    def __init__(
        self,
        server: Server,
        deployment: Deployment,
        layout: LayoutName,
        refresh: str,
        population: Population,
        owner: Owner,
        book: Book,
    ) -> None:
        self._server, self._deployment, self._population = server, deployment, population
        self._owner, self._book = owner, book
        self._board = board_of(layout, ["all", _MONTH.window + refresh])

    async def fill(self) -> None:
        """Give every member some events, anywhere in the window."""
        await self._deployment.boards.create(self._board)
        with without_file([self._server]):
            await self._deployment.load(self._board, self._history())

    async def events(self, effort: RedisEffort) -> None:
        """Run rounds of batches. The first round is not recorded."""
        drawn = traffic_of(self._population, "zipf", (effort.rounds + 1) * effort.events)
        for number, run in enumerate(in_batches(drawn, effort.events)):
            batches = in_batches(run, BATCH)
            cost = await cost_of([self._server], partial(in_flight, batches, 1, self._submit))
            if number:
                figure = 1e6 * cost.server_seconds / len(run)
                self._book.keep(_EVENT, self._owner, "batches of 1,000, Zipf", "µs", figure)

    async def refreshes(self) -> None:
        """Run two refreshes. The second one begins by removing an older ranking, which is no longer
        shown."""
        for case in ("first", "next"):
            self._deployment.clock.advance(HOUR_MS)
            with blocked_ms(self._server) as shares:
                cost = await cost_of([self._server], self._deployment.settle)
            self._keep(f"{case}, median", shares[len(shares) // 2])
            self._keep(f"{case}, 99 %", shares[len(shares) * 99 // 100])
            self._keep(f"{case}, longest", shares[-1])
            self._keep(f"{case}, processor time", 1e3 * cost.server_seconds / len(shares))
            self._keep(f"{case}, whole refresh's", 1e3 * cost.server_seconds)

    async def _submit(self, batch: Batch) -> None:
        self._deployment.clock.advance(_BETWEEN_BATCHES_MS)
        receipts = await self._deployment.boards.submit_many(self._board.name, batch)
        assert not receipts.refused, "an event was refused"

    def _history(self) -> Iterator[list[Entry]]:
        random = Random(11)
        now_ms = self._deployment.clock.now_ms()
        members = [member for batch in self._population.batches() for member, _, _ in batch]
        for days_ago in sorted(random.sample(range(_MONTH.many), _CELLS), reverse=True):
            at_ms = now_ms - days_ago * DAY_MS
            for first in range(0, len(members), _LOAD):
                some = members[first : first + _LOAD]
                yield [(member, random.randint(1, LARGEST_VALUE), at_ms) for member in some]

    def _keep(self, case: str, figure_ms: float) -> None:
        self._book.keep(_HELD, self._owner, case, "ms", figure_ms)
