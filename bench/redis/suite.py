"""All measurements on an index server, in their order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec
import uvloop
from tests.redis.programs import find_server

from bench.history import WEEK, evening
from bench.http.process import Cores, on_core
from bench.redis.boards import (
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
from bench.redis.head_kinds import measure_head_kinds
from bench.redis.heads import measure_head_memory, measure_heads
from bench.redis.hidden import measure_hidden
from bench.redis.passes import measure_best_passes, measure_passes
from bench.redis.reads import measure_reads, of_laurels, of_redis_py
from bench.redis.refreshes import measure_refreshes
from bench.redis.serving import Server, dataset_bytes, serving, without_file
from bench.redis.small_boards import MEMORY, measure_memory, measure_shards
from bench.redis.steps import measure_steps
from bench.timing import Sample
from bench.workload import Population

Chosen: TypeAlias = Literal[
    "events", "memory", "reads", "shards", "steps", "passes", "refreshes", "head", "hidden"
]
EVERYTHING: frozenset[Chosen] = frozenset(get_args(Chosen))

_WINDOWS = ["all", "day", WEEK.window]
_PACKAGES = ("valkey-glide", "redis", "hiredis", "uvloop")


class RedisPlan(msgspec.Struct, frozen=True):
    """The options of a run."""

    effort: RedisEffort
    chosen: frozenset[Chosen]
    cores: Cores
    now_ms: int
    say: Callable[[str], None]
    """A function to call with the name of the next measurement."""
    keep: Callable[[list[Sample]], None]
    """A function to call after each section, with all figures so far in the order of the tables."""


def missing() -> list[str]:
    """Return a sentence for each requirement that is missing."""
    if find_server() is None:
        return ["redis-server is not installed: apt install redis-server"]
    return []


def software() -> str:
    """Return the software that takes part, with versions."""
    named = [f"{name} {version(name)}" for name in _PACKAGES]
    shards = "" if SHARDED else "; boards have no shards yet"
    return f"{Path(find_server() or '').name}, {', '.join(named)}{shards}"


def run(plan: RedisPlan) -> None:
    """Return all figures. This process runs on the core of the clients meanwhile."""
    with on_core(plan.cores.load), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_measure_redis(plan))


async def _measure_redis(plan: RedisPlan) -> None:
    """Measure section by section."""
    effort, chosen, core = plan.effort, plan.chosen, plan.cores.server
    now_ms = evening(plan.now_ms)
    large, little, of_passes = [
        Book(size) for size in (effort.members, effort.small_members, effort.pass_members)
    ]
    books = [large, little, of_passes]
    small = Population(effort.small_members, now_ms)

    def done() -> None:
        plan.keep([sample for book in books for sample in book.samples()])

    if chosen & {"events", "memory", "reads"}:
        await _measure_week(plan, Population(effort.members, now_ms), large, done)
    if "memory" in chosen:
        plan.say("memory of the window all")
        await measure_memory(core, small, little)
        done()
    if "shards" in chosen:
        plan.say("shards")
        await measure_shards(core, small, effort, little)
        done()
    if "steps" in chosen:
        plan.say("few and many steps")
        await measure_steps(core, small, effort, little)
        done()
    if "refreshes" in chosen:
        plan.say("windows that are refreshed")
        await measure_refreshes(core, small, effort, little)
        done()
    if "passes" in chosen:
        plan.say("boundaries")
        await measure_passes(core, Population(effort.pass_members, now_ms), of_passes)
        done()
        for members in effort.best_members:
            books.append(Book(members))
            await measure_best_passes(core, Population(members, now_ms), books[-1])
            done()
    if "hidden" in chosen:
        plan.say("hidden members")
        books.append(Book(effort.hidden_members))
        hiding = Population(effort.hidden_members, now_ms)
        await measure_hidden(core, hiding, effort, books[-1])
        done()
    if "head" in chosen:
        books.append(Book(effort.head_members))
        crowd = Population(effort.head_members, now_ms)
        await measure_heads(core, crowd, effort, books[-1], plan.say, done)
        await measure_head_kinds(core, crowd, effort, books[-1], plan.say, done)
        for members in effort.head_memory:
            plan.say(f"memory of {members:,} members with a head")
            books.append(Book(members))
            await measure_head_memory(core, Population(members, now_ms), books[-1])
            done()


class _Week(NamedTuple):
    """A server on which all writers have the same week of events."""

    server: Server
    deployment: Deployment
    population: Population


async def _measure_week(
    plan: RedisPlan, population: Population, book: Book, done: Callable[[], None]
) -> None:
    async with _loaded(plan, population, book) as week:
        done()
        if "events" in plan.chosen:
            plan.say("events")
            await _measure_writes(week, plan.effort, book)
            done()
        if "reads" in plan.chosen:
            plan.say("reads")
            async with of_redis_py(week.server, ALL) as theirs:
                readings = [
                    *(
                        reading
                        for layout in plan.effort.layouts
                        for reading in of_laurels(
                            week.deployment, board_of(layout, _WINDOWS).name, owner_of(layout)
                        )
                    ),
                    *theirs,
                ]
                await measure_reads([week.server], readings, population, plan.effort, book)
            done()


async def _measure_writes(week: _Week, effort: RedisEffort, book: Book) -> None:
    server, deployment, population = week
    ours = [
        LaurelsWriter(deployment, layout, board_of(layout, _WINDOWS).name)
        for layout in effort.layouts
    ]
    async with by_hand(server, population.now_ms) as theirs:
        await measure_events(server, [*ours, *theirs], population, effort, book)
        forms = theirs[: len(get_args(Form))]
        await measure_holds(server, [*ours, *forms], population, effort, book)


@asynccontextmanager
async def _loaded(plan: RedisPlan, population: Population, book: Book) -> AsyncIterator[_Week]:
    """Load a board of each layout, and the sorted sets of the handwritten scheme."""
    now_ms = population.now_ms
    with serving(plan.cores.server) as server:
        async with deployed(server.url, now_ms) as deployment:
            with without_file([server]):
                plan.say(f"{population.count:,} first events")
                first = first_events(population, WEEK.begins_ms(now_ms), now_ms)
                for layout in plan.effort.layouts:
                    plan.say(f"loading {layout}")
                    board = board_of(layout, _WINDOWS)
                    await deployment.boards.create(board)
                    before = dataset_bytes(server)
                    await deployment.load(board, first)
                    _keep_memory(book, owner_of(layout), server, before, population)
                plan.say("loading the scheme by hand")
                before = dataset_bytes(server)
                load(server, Keys(now_ms), first)
                scheme = Owner("scheme by hand", "sorted sets", "the scheme by hand")
                _keep_memory(book, scheme, server, before, population)
                del first
            yield _Week(server, deployment, population)


def _keep_memory(
    book: Book, owner: Owner, server: Server, before: int, population: Population
) -> None:
    grown = dataset_bytes(server) - before
    book.keep(MEMORY, owner, "all + day + rolling 7d/1h", "bytes", grown / population.count)
