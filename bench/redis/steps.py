"""The server's cost of an event, by the number of steps in a rolling window."""

from collections.abc import Sequence
from typing import get_args

from bench.history import Steps
from bench.redis.boards import (
    BATCH,
    LAYOUTS,
    Deployment,
    LayoutName,
    board_of,
    deployed,
    first_events,
    in_flight,
    owner_of,
    traffic_of,
)
from bench.redis.book import Book
from bench.redis.effort import RedisEffort
from bench.redis.events import LaurelsWriter
from bench.redis.serving import Server, cost_of, serving, without_file
from bench.workload import Batch, Entry, Population, Traffic, in_batches

FEW, MANY = Steps(7), Steps(700)
_GROUP = "Redis's processor time an event by steps of an hour, µs (wanted: 1.05 x at most)"


async def measure_steps(core: int, population: Population, effort: RedisEffort, book: Book) -> None:
    """Compare windows of 7 and 700 steps of an hour, both full. They count the same events,
    alternately."""
    now_ms = population.now_ms
    first = [
        (steps, first_events(population, steps.begins_ms(now_ms), now_ms)) for steps in (FEW, MANY)
    ]
    for layout in LAYOUTS:
        with serving(core) as server:
            async with deployed(server.url, now_ms) as deployment:
                with without_file([server]):
                    pair = [await _full(deployment, layout, *each) for each in first]
                for kind in get_args(Traffic):
                    await _turns(server, layout, pair, kind, population, effort, book)


async def _full(
    deployment: Deployment, layout: LayoutName, steps: Steps, first: Sequence[Sequence[Entry]]
) -> LaurelsWriter:
    """Return a board with one event of each member, anywhere in the window."""
    board = board_of(layout, [steps.window], name=f"{steps.many}-steps")
    await deployment.boards.create(board)
    await deployment.load(board, first)
    return LaurelsWriter(deployment, layout, board.name)


async def _turns(
    server: Server,
    layout: LayoutName,
    pair: Sequence[LaurelsWriter],
    kind: Traffic,
    population: Population,
    effort: RedisEffort,
    book: Book,
) -> None:
    """Run both boards in alternating order. The first run of each is not recorded."""
    events = traffic_of(population, kind, (effort.step_rounds + 1) * effort.step_events)
    for number, run in enumerate(in_batches(events, effort.step_events)):
        took = [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):
            took[place] = await _took_us(server, pair[place], run)
        if number:
            for steps, figure in zip((FEW, MANY), took, strict=True):
                book.keep(_GROUP, owner_of(layout, f"{steps.many} steps"), kind, "µs", figure)
            book.keep(_GROUP, owner_of(layout, "700 by 7"), kind, "x", took[1] / took[0])


async def _took_us(server: Server, writer: LaurelsWriter, run: Batch) -> float:
    batches = in_batches(run, BATCH)
    cost = await cost_of([server], lambda: in_flight(batches, 1, writer.submit))
    return 1e6 * cost.server_seconds / len(run)
