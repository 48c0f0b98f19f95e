"""All that is measured on an index server."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

from bench.history import WEEK, evening
from bench.http.process import Cores
from bench.redis.boards import (
    LAYOUTS,
    SHARDED,
    Deployment,
    board_of,
    deployed,
    first_events,
    owner_of,
)
from bench.redis.book import Book, Owner
from bench.redis.by_hand import ALL, Form, Keys, by_hand, load
from bench.redis.effort import RedisEffort
from bench.redis.events import LaurelsWriter, measure_events, measure_holds
from bench.redis.passes import measure_passes
from bench.redis.reads import measure_reads, of_laurels, of_redis_py
from bench.redis.serving import Server, dataset_bytes, server_binary, serving, without_file
from bench.redis.small_boards import MEMORY, measure_memory, measure_shards
from bench.redis.steps import measure_steps
from bench.timing import Sample
from bench.workload import Entry, Population

Chosen: TypeAlias = Literal["events", "memory", "reads", "shards", "steps", "passes"]
EVERYTHING: frozenset[Chosen] = frozenset(get_args(Chosen))

_WINDOWS = ["all", "day", WEEK.window]
_PACKAGES = ("valkey-glide", "redis", "hiredis", "uvloop")


class RedisPlan(msgspec.Struct, frozen=True):
    """What is asked of a run."""

    effort: RedisEffort
    chosen: frozenset[Chosen]
    cores: Cores
    now_ms: int
    say: Callable[[str], None]
    """Told what is about to be measured."""


def missing() -> list[str]:
    """What has to be installed first, a line for each."""
    if server_binary() is None:
        return ["redis-server is not installed: apt install redis-server"]
    return []


def software() -> str:
    """What took part, by version."""
    named = [f"{name} {version(name)}" for name in _PACKAGES]
    shards = "" if SHARDED else "; boards have no shards yet"
    return f"{Path(server_binary() or '').name}, {', '.join(named)}{shards}"


async def measure_redis(plan: RedisPlan) -> list[Sample]:
    """Every figure, in the order of the tables."""
    effort, chosen, core = plan.effort, plan.chosen, plan.cores.server
    now_ms = evening(plan.now_ms)
    book, small_book = Book(effort.members), Book(effort.small_members)
    pass_book = Book(effort.pass_members)
    small = Population(effort.small_members, now_ms)
    if chosen & {"events", "memory", "reads"}:
        await _measure_week(plan, Population(effort.members, now_ms), book)
    if "memory" in chosen:
        plan.say("memory of the window all")
        await measure_memory(core, small, small_book)
    if "shards" in chosen:
        plan.say("shards")
        await measure_shards(core, small, effort, small_book)
    if "steps" in chosen:
        plan.say("few and many steps")
        await measure_steps(core, small, effort, small_book)
    if "passes" in chosen:
        plan.say("boundaries")
        await measure_passes(core, Population(effort.pass_members, now_ms), pass_book)
    return [*book.samples(), *small_book.samples(), *pass_book.samples()]


class _Week(NamedTuple):
    """A server that holds the same week for all."""

    server: Server
    deployment: Deployment
    population: Population


async def _measure_week(plan: RedisPlan, population: Population, book: Book) -> None:
    async with _loaded(plan, population, book) as week:
        if "events" in plan.chosen:
            plan.say("events")
            await _measure_writes(week, plan.effort, book)
        if "reads" in plan.chosen:
            plan.say("reads")
            async with of_redis_py(week.server, ALL) as theirs:
                readings = [
                    *(
                        reading
                        for layout in LAYOUTS
                        for reading in of_laurels(
                            week.deployment, board_of(layout, _WINDOWS).name, owner_of(layout)
                        )
                    ),
                    *theirs,
                ]
                await measure_reads([week.server], readings, population, plan.effort, book)


async def _measure_writes(week: _Week, effort: RedisEffort, book: Book) -> None:
    server, deployment, population = week
    ours = [
        LaurelsWriter(deployment, layout, board_of(layout, _WINDOWS).name) for layout in LAYOUTS
    ]
    async with by_hand(server, population.now_ms) as theirs:
        await measure_events(server, [*ours, *theirs], population, effort, book)
        forms = theirs[: len(get_args(Form))]
        await measure_holds(server, [*ours, *forms], population, effort, book)


@asynccontextmanager
async def _loaded(plan: RedisPlan, population: Population, book: Book) -> AsyncIterator[_Week]:
    """A board of each layout, and the sorted sets of the scheme by hand."""
    now_ms = population.now_ms
    with serving(plan.cores.server) as server:
        async with deployed(server.url, now_ms) as deployment:
            with without_file([server]):
                for layout in LAYOUTS:
                    plan.say(f"loading {layout}")
                    board = board_of(layout, _WINDOWS)
                    await deployment.boards.create(board)
                    before = dataset_bytes(server)
                    await deployment.load(board, _week_of(population))
                    _keep_memory(book, owner_of(layout), server, before, population)
                plan.say("loading the scheme by hand")
                before = dataset_bytes(server)
                load(server, Keys(now_ms), _week_of(population))
                scheme = Owner("scheme by hand", "sorted sets", "the scheme by hand")
                _keep_memory(book, scheme, server, before, population)
            yield _Week(server, deployment, population)


def _week_of(population: Population) -> Iterator[list[Entry]]:
    now_ms = population.now_ms
    return first_events(population, WEEK.begins_ms(now_ms), now_ms)


def _keep_memory(
    book: Book, owner: Owner, server: Server, before: int, population: Population
) -> None:
    grown = dataset_bytes(server) - before
    book.keep(MEMORY, owner, "all + day + rolling 7d/1h", "bytes", grown / population.count)
