"""Standings and pages for many simultaneous readers, compared with a service through redis-py."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any, NamedTuple

import redis.asyncio

from bench.http.crowd import percentile_ms
from bench.peers import TOP
from bench.redis.boards import Deployment
from bench.redis.book import BY_REDIS_PY, Book, Owner
from bench.redis.effort import RedisEffort
from bench.redis.serving import Cost, Server, cost_of
from bench.workload import Population

_MEMBERS = 20_000
_PLACES = range(TOP)
"""The positions at which pages begin. There are more of them than readers, so that no two readers
read the same page at the same time."""
_PAGES = f"Pages of {TOP}, each from another place"
_STANDING = """
local rank = redis.call('ZREVRANK', KEYS[1], ARGV[1])
local first = math.max(rank - 1, 0)
local near = redis.call('ZREVRANGE', KEYS[1], first, rank + 1, 'WITHSCORES')
return {rank, redis.call('ZSCORE', KEYS[1], ARGV[1]), redis.call('ZCARD', KEYS[1]), near}
"""


class Reading(NamedTuple):
    """The way in which one peer answers one kind of query, about one member after another."""

    owner: Owner
    what: str
    ask: Callable[[str], Awaitable[object]]


def of_laurels(deployment: Deployment, board: str, owner: Owner) -> Iterator[Reading]:
    """Read a standing with neighbours and gaps, and a page of entries, through the async API."""
    boards = deployment.boards

    async def standing(member: str) -> None:
        entry = await boards.standing(board, member, window="all")
        assert entry is not None, "the member is missing"

    async def top(_: str) -> None:
        page = await boards.top(board, window="all", limit=TOP)
        assert len(page.entries) == TOP, "entries are missing"

    places = cycle(_PLACES)

    async def page(_: str) -> None:
        answer = await boards.top(board, window="all", offset=next(places), limit=TOP)
        assert len(answer.entries) == TOP, "entries are missing"

    yield Reading(owner, "Standings", standing)
    yield Reading(owner, f"The top {TOP}", top)
    yield Reading(owner, _PAGES, page)


@asynccontextmanager
async def of_redis_py(server: Server, key: str) -> AsyncIterator[list[Reading]]:
    """Yield the ways to read a standing and a page through redis-py. A standing is read either with
    two round trips, the second one for the neighbours, or with a single call of a script."""
    async with redis.asyncio.Redis(port=server.port, decode_responses=True) as client:
        script = client.register_script(_STANDING)

        async def by_pipelines(member: str) -> None:
            first = client.pipeline(transaction=False)
            first.zrevrank(key, member)
            first.zscore(key, member)
            first.zcard(key)
            rank, _, _ = await first.execute()
            await client.zrevrange(key, max(rank - 1, 0), rank + 1, withscores=True)

        async def by_script(member: str) -> None:
            await script(keys=[key], args=[member])

        async def top(_: str) -> None:
            entries: list[Any] = await client.zrevrange(key, 0, TOP - 1, withscores=True)
            assert len(entries) == TOP, "entries are missing"

        places = cycle(_PLACES)

        async def page(_: str) -> None:
            first = next(places)
            entries: list[Any] = await client.zrevrange(
                key, first, first + TOP - 1, withscores=True
            )
            assert len(entries) == TOP, "entries are missing"

        two, one = (
            Owner("redis-py, asyncio", way, BY_REDIS_PY) for way in ("commands", "a script")
        )
        yield [
            Reading(two, "Standings", by_pipelines),
            Reading(one, "Standings", by_script),
            Reading(two, f"The top {TOP}", top),
            Reading(two, _PAGES, page),
        ]


async def measure_reads(
    servers: Sequence[Server],
    readings: Sequence[Reading],
    population: Population,
    effort: RedisEffort,
    book: Book,
    where: str = "",
) -> None:
    """Run rounds over all peers; the first round is not recorded. `where` is added to the title of
    the table."""
    members = population.sample(_MEMBERS)
    for number in range(effort.read_rounds + 1):
        for reading in readings:
            read_run = _ReadRun(reading, members, effort)
            cost = await cost_of(servers, read_run.run)
            if number:
                read_run.keep(book, where, cost)


class _ReadRun:
    """Readers that each send a query as soon as the previous one is answered. They stop after a
    number of seconds, but each of them sends at least one query."""

    def __init__(self, reading: Reading, members: Sequence[str], effort: RedisEffort) -> None:
        self._reading, self._members, self._effort = reading, cycle(members), effort
        self._waits: list[float] = []

    async def run(self) -> None:
        deadline = time.perf_counter() + self._effort.read_seconds
        await asyncio.gather(*(self._read(deadline) for _ in range(self._effort.readers)))

    async def _read(self, deadline: float) -> None:
        ended = 0.0
        while ended < deadline:
            begun = time.perf_counter()
            await self._reading.ask(next(self._members))
            ended = time.perf_counter()
            self._waits.append(ended - begun)

    def keep(self, book: Book, where: str, cost: Cost) -> None:
        owner, waits = self._reading.owner, self._waits
        group = f"{self._reading.what}, {self._effort.readers} readers{where}"
        book.keep(group, owner, "reads/s", "requests/s", len(waits) / cost.seconds)
        book.keep(group, owner, "p50, ms", "ms", percentile_ms(waits, 50))
        book.keep(group, owner, "p99, ms", "ms", percentile_ms(waits, 99))
        book.keep(group, owner, "Redis's CPU, µs", "µs", 1e6 * cost.server_seconds / len(waits))
        book.keep(group, owner, "client's CPU, µs", "µs", 1e6 * cost.client_seconds / len(waits))
