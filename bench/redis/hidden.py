"""The server's cost of reads on a board with hidden members, of whom half have no score.

The hidden members are written to the server directly, since hiding them one by one takes long.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle

from bench.peers import TOP
from bench.redis.boards import (
    LAYOUTS,
    Deployment,
    LayoutName,
    board_of,
    deployed,
    first_events,
    owner_of,
)
from bench.redis.book import Book
from bench.redis.effort import RedisEffort
from bench.redis.serving import Server, cost_of, serving, without_file
from bench.workload import Population

_GROUP = "Redis's processor time of one call with hidden members, ms"
_HIDING = '["bench",0,null]'
_SHARD = "laurels:{1.0}:"
_WRITTEN = 1_000
_FRIENDS = 20


async def measure_hidden(
    core: int, population: Population, effort: RedisEffort, book: Book
) -> None:
    """Measure the calls on one board in each layout, with more and more hidden members."""
    now_ms = population.now_ms
    first = first_events(population, now_ms - 86_400_000, now_ms)
    members = population.sample(max(effort.hidden) // 2)
    for layout in LAYOUTS:
        with serving(core) as server:
            async with deployed(server.url, now_ms) as deployment:
                board = board_of(layout, ["all"], name="b")
                await deployment.boards.create(board)
                with without_file([server]):
                    await deployment.load(board, first)
                for count in effort.hidden:
                    _hide(server, members[: count // 2], count)
                    await _measure(server, deployment, layout, population, effort, book, count)


def _hide(server: Server, members: Sequence[str], count: int) -> None:
    """Hide some members, and as many others without a score."""
    hidden = [*members, *(f"absent-{i}" for i in range(count - len(members)))]
    for start in range(0, count, _WRITTEN):
        pairs = [text for each in hidden[start : start + _WRITTEN] for text in (each, _HIDING)]
        server.call("HSET", f"{_SHARD}hh", *pairs)
    if count:
        server.call("HSET", f"{_SHARD}m", "hid", f"{count}:0")


async def _measure(
    server: Server,
    deployment: Deployment,
    layout: LayoutName,
    population: Population,
    effort: RedisEffort,
    book: Book,
    count: int,
) -> None:
    boards, asked = deployment.boards, cycle(population.sample(2_000, seed=3))

    async def standing() -> None:
        await boards.standing("b", next(asked))

    async def ranks() -> None:
        await boards.ranks("b", [next(asked) for _ in range(_FRIENDS)])

    async def submit() -> None:
        await boards.submit("b", next(asked), 1)

    async def top() -> None:
        assert len((await boards.top("b", limit=TOP)).entries) == TOP

    calls: dict[str, Callable[[], Awaitable[None]]] = {
        f"top {TOP}": top,
        "a page far below": lambda: _page(deployment, population.count // 2),
        "standing": standing,
        f"{_FRIENDS} ranks": ranks,
        "submit with ranks": submit,
    }
    owner = owner_of(layout, f"{count:,} hidden")
    for name, call in calls.items():
        await call()  # the first read of a board after a hiding does more
        for _ in range(effort.hidden_rounds):

            async def run(call: Callable[[], Awaitable[None]] = call) -> None:
                for _ in range(effort.hidden_calls):
                    await call()

            cost = await cost_of([server], run)
            book.keep(_GROUP, owner, name, "ms", 1e3 * cost.server_seconds / effort.hidden_calls)


async def _page(deployment: Deployment, first: int) -> None:
    page = await deployment.boards.top("b", offset=first, limit=TOP)
    assert len(page.entries) == TOP
