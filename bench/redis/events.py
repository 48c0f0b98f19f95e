"""Events per second in batches of 1,000, and the cost of an event for server and client."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, get_args

from bench.redis.boards import BATCH, Deployment, LayoutName, in_flight, owner_of, traffic_of
from bench.redis.book import Book, Owner
from bench.redis.effort import RedisEffort
from bench.redis.serving import Server, blocked_ms, cost_of
from bench.timing import Unit
from bench.workload import Batch, Population, Steep, Traffic, in_batches

WANTED: dict[Traffic | Steep, float] = {"zipf": 2, "uniform": 0.9}
"""The targets of the packed layout: the least ratio of its events per second to those of a
handwritten script."""
RATE, BEST = "Events/s", "its best"
_CHECKED = 50
_BETWEEN_BATCHES_MS = 10


class EventWriter(Protocol):
    """A writer of batches, which counts events in all windows."""

    @property
    def owner(self) -> Owner: ...

    async def submit(self, batch: Batch) -> None:
        """Count a batch; return when the server has done it."""

    async def scores(self, members: Sequence[str]) -> list[int]:
        """Return the current scores in the rolling window, 0 for absent members."""
        ...


class LaurelsWriter:
    """A board of laurels through the whole Python API, including receipts."""

    def __init__(self, deployment: Deployment, layout: LayoutName, board: str) -> None:
        self.owner = owner_of(layout)
        self._deployment, self._board = deployment, board

    async def submit(self, batch: Batch) -> None:
        self._deployment.clock.advance(_BETWEEN_BATCHES_MS)
        receipts = await self._deployment.boards.submit_many(self._board, batch)
        assert not receipts.refused, "an event was refused"

    async def scores(self, members: Sequence[str]) -> list[int]:
        return await self._deployment.scores(self._board, members, "rolling")


async def measure_events(
    server: Server,
    writers: Sequence[EventWriter],
    population: Population,
    effort: RedisEffort,
    book: Book,
) -> None:
    """Measure each traffic with each number of batches in flight, in rounds over all writers. The
    first round is not recorded. Also record the best result of each writer."""
    for kind in effort.kinds:
        for many in effort.in_flight:
            each = max(effort.events, many * BATCH)
            events = traffic_of(population, kind, (effort.rounds + 1) * each)
            for number, run in enumerate(in_batches(events, each)):
                for writer in writers:
                    figures = await _run(server, writer, run, many)
                    for (group, unit), figure in figures.items() if number else ():
                        case = f"{many} in flight"
                        book.keep(title(group, kind), writer.owner, case, unit, figure)
        for writer in writers:
            book.keep_best(title(RATE, kind), writer.owner, BEST, "events/s")


def title(group: str, kind: Traffic | Steep) -> str:
    """Return the title of the table of one traffic."""
    wanted = f" (wanted of packed: {WANTED[kind]:g} x)" if kind in WANTED else ""
    return f"{group}, {kind}{wanted}"


async def _run(
    server: Server, writer: EventWriter, run: Batch, many: int
) -> dict[tuple[str, Unit], float]:
    """Return the figures of one run. Raise AssertionError if the scores do not match the sent
    events."""
    sent: Counter[str] = Counter()
    for member, value in run:
        sent[member] += value
    watched = [member for member, _ in sent.most_common(_CHECKED)]
    before = await writer.scores(watched)
    batches = in_batches(run, BATCH)
    cost = await cost_of([server], lambda: in_flight(batches, many, writer.submit))
    for member, had, has in zip(watched, before, await writer.scores(watched), strict=True):
        if has - had != sent[member]:
            raise AssertionError(
                f"{writer.owner}: {member} gained {has - had}, expected {sent[member]}"
            )
    return {
        (RATE, "events/s"): len(run) / cost.seconds,
        ("Redis's processor time an event, µs", "µs"): 1e6 * cost.server_seconds / len(run),
        ("The client's processor time an event, µs", "µs"): 1e6 * cost.client_seconds / len(run),
    }


async def measure_holds(
    server: Server,
    writers: Sequence[EventWriter],
    population: Population,
    effort: RedisEffort,
    book: Book,
) -> None:
    """Measure for how long one batch blocks the server. The writers alternate."""
    group = f"How long a batch of {BATCH:,} holds the server, ms"
    for kind in get_args(Traffic) if effort.hold_batches else ():
        events = traffic_of(population, kind, effort.hold_batches * BATCH)
        durations: list[list[float]] = [[] for _ in writers]
        for batch in in_batches(events, BATCH):
            for writer, kept in zip(writers, durations, strict=True):
                with blocked_ms(server) as blocked:
                    await writer.submit(batch)
                kept.append(blocked[-1])
        for writer, kept in zip(writers, durations, strict=True):
            kept.sort()
            book.keep(group, writer.owner, f"{kind}, median", "ms", kept[len(kept) // 2])
            book.keep(group, writer.owner, f"{kind}, longest", "ms", kept[-1])
