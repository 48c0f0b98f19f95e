"""Boards with the window `all`: the memory of a member, and reads from several shards."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bench.redis.boards import (
    LAYOUTS,
    SHARDED,
    LayoutName,
    board_of,
    deployed,
    first_events,
    owner_of,
)
from bench.redis.book import Book, Owner
from bench.redis.by_hand import load_plain
from bench.redis.effort import RedisEffort
from bench.redis.reads import Reading, measure_reads, of_laurels
from bench.redis.serving import (
    Server,
    dataset_bytes,
    serving,
    serving_cluster,
    without_file,
)
from bench.workload import Entry, Population

MEMORY = "Memory, bytes a member"
PLAIN_SET = Owner("one sorted set", "the same members and scores", "one sorted set")
_SHARDS = (1, 4, 16) if SHARDED else (1,)
_LAYOUT: LayoutName = "packed"
_STEP_MS = 60_000


async def measure_memory(core: int, population: Population, book: Book) -> None:
    """Measure a board of each layout, and one sorted set with the same scores."""
    now_ms = population.now_ms
    first = first_events(population, now_ms - _STEP_MS, now_ms)
    with serving(core) as server, without_file([server]):
        async with deployed(server.url, now_ms) as deployment:
            for layout in LAYOUTS:
                board = board_of(layout, ["all"])
                await deployment.boards.create(board)
                before = dataset_bytes(server)
                await deployment.load(board, first)
                _keep(book, owner_of(layout), server, before, population)
        before = dataset_bytes(server)
        load_plain(server, "plain", first)
        _keep(book, PLAIN_SET, server, before, population)


def _keep(book: Book, owner: Owner, server: Server, before: int, population: Population) -> None:
    grown = dataset_bytes(server) - before
    book.keep(MEMORY, owner, "all", "bytes", grown / population.count)


async def measure_shards(
    core: int, population: Population, effort: RedisEffort, book: Book
) -> None:
    """Measure reads of boards in 1, 4 and 16 shards, on one server and on a cluster of three."""
    now_ms = population.now_ms
    first = first_events(population, now_ms - _STEP_MS, now_ms)
    with serving(core) as server, serving_cluster(core) as cluster:
        servers = [server, *cluster.primaries]
        async with (
            _sharded(server.url, [server], "one server", now_ms, first) as alone,
            _sharded(cluster.url, cluster.primaries, "cluster of three", now_ms, first) as spread,
        ):
            readings = [*alone, *spread]
            await measure_reads(servers, readings, population, effort, book, ", by shards")


@asynccontextmanager
async def _sharded(
    url: str, servers: Sequence[Server], where: str, now_ms: int, first: Sequence[Sequence[Entry]]
) -> AsyncIterator[list[Reading]]:
    """Return the loaded boards, one for each number of shards that is possible."""
    async with deployed(url, now_ms) as deployment:
        readings: list[Reading] = []
        with without_file(servers):
            for shards in _SHARDS:
                board = board_of(_LAYOUT, ["all"], shards=shards)
                await deployment.boards.create(board)
                await deployment.load(board, first)
                owner = owner_of(_LAYOUT, f"{shards} shard{'s' * (shards > 1)}, {where}")
                readings += of_laurels(deployment, board.name, owner)
        yield readings
