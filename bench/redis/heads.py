"""Boards with a head, compared with the same boards without a head (which keep all members in exact
order), and with sorted sets that a handwritten script writes.

All have the same members and scores on one server, and get the same events in alternating runs.
Rates and times are computed from the processor time of the server, so they do not include any
client. Scores are lognormal, with few ties; the widths of estimates are measured for other scores
as well.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import cycle, pairwise
from math import exp
from random import Random
from typing import TypeAlias, get_args

from bench.redis.boards import BATCH, Deployment, deployed, in_flight
from bench.redis.book import Book, Owner
from bench.redis.by_hand import load_plain
from bench.redis.effort import RedisEffort, Scores
from bench.redis.serving import (
    Server,
    blocked_ms,
    cost_of,
    cpu_seconds,
    dataset_bytes,
    serving,
    without_file,
)
from bench.timing import Unit
from bench.workload import Batch, Entry, Population, Traffic, in_batches, member_name
from laurels import Board
from laurels.model.board_fields import Tie

Work: TypeAlias = Callable[[Batch], Awaitable[object]]

HEAD = 1_000
TIES: tuple[Tie, ...] = ("first", "member")
HAND = Owner("one sorted set", "a script by hand")
MEMORY = "Memory of a board with a head, bytes a member"
_MEMORY_MOST: dict[Tie, float] = {"first": 0.35, "member": 0.5}
_BATCHES_LEAST: dict[Tie, float] = {"first": 0.9, "member": 0.6}
_LOAD = 10_000
_SPREAD_MS = 3_600_000
_LISTED = 11_500  # a head of 1,000 is trimmed to 11,000 entries, and refilled below 3,500
_KEY = "hand"
_ADD = "for i = 1, #ARGV, 2 do redis.call('ZINCRBY', KEYS[1], ARGV[i + 1], ARGV[i]) end"
_ADD_RANKED = f"""local before = redis.call('ZREVRANK', KEYS[1], ARGV[1])
{_ADD}
return {{before, redis.call('ZREVRANK', KEYS[1], ARGV[1])}}"""
_RANK = "return redis.call('ZREVRANK', KEYS[1], ARGV[1])"
_LOOP = "local sum = 0 for i = 1, 100000 do sum = sum + i % 7 end return sum"
"""Work that always takes the same instructions."""


def board_with(tie: Tie, head: int) -> Board:
    """Return a board with the window `all`, and without a head if `head` is 0."""
    return Board(f"{tie}-{head}", tie=tie, head=head, rank="competition")


def scores_of(kind: Scores, count: int) -> list[int]:
    """Return the first score of each member; neighbours in the list are not neighbours in rank."""
    rng = Random(kind)
    if kind == "lognormal":
        return [1 + int(exp(rng.gauss(12, 2))) for _ in range(count)]
    if kind == "uniform":
        return [1 + rng.randrange(10**9) for _ in range(count)]
    places = list(range(1, count + 1))
    rng.shuffle(places)
    return [10**9 // place for place in places]


def entries_of(kind: Scores, count: int, now_ms: int) -> list[list[Entry]]:
    """Return the first event of each member, in batches."""
    rng = Random(5)
    entries = [
        (member_name(i), score, now_ms - int(rng.random() * _SPREAD_MS))
        for i, score in enumerate(scores_of(kind, count))
    ]
    return [entries[first : first + _LOAD] for first in range(0, count, _LOAD)]


def quantile(figures: Sequence[float], percent: int) -> float:
    """Return the figure that `percent` % of the sorted figures do not exceed."""
    return figures[min(len(figures) - 1, len(figures) * percent // 100)]


async def measure_heads(
    core: int,
    population: Population,
    effort: RedisEffort,
    book: Book,
    say: Callable[[str], None],
    done: Callable[[], None],
) -> None:
    """Measure everything for both ways to order equal scores, and then the widths of estimates for
    each kind of scores. Call `say` before each of these measurements, and `done` after it."""
    for tie in TIES:
        say(f"head, tie {tie}")
        with serving(core) as server:
            async with deployed(server.url, population.now_ms) as deployment:
                bench = _Heads(server, deployment, tie, population, effort, book)
                await bench.load()
                await bench.measure_events()
                await bench.measure_ranks()
                await bench.measure_passes()
        done()
    for kind in effort.head_scores:
        say(f"widths of estimates, {kind} scores")
        with serving(core) as server, without_file([server]):
            async with deployed(server.url, population.now_ms) as deployment:
                await _measure_widths(deployment, kind, population, book)
        done()


async def measure_head_memory(core: int, population: Population, book: Book) -> None:
    """Measure only memory, with a server for each way to order equal scores."""
    for tie in TIES:
        with serving(core) as server:
            async with deployed(server.url, population.now_ms) as deployment:
                await _Heads(server, deployment, tie, population, None, book).load()


class _Heads:
    """A board with a head, the same board without a head, and a sorted set, on one server."""

    def __init__(
        self,
        server: Server,
        deployment: Deployment,
        tie: Tie,
        population: Population,
        effort: RedisEffort | None,
        book: Book,
    ) -> None:
        self._server, self._deployment, self._tie = server, deployment, tie
        self._population, self._effort, self._book = population, effort, book
        self._exact, self._head = board_with(tie, 0), board_with(tie, HEAD)
        self._exact_owner = Owner("laurels", f"tie {tie}, exact")
        self._head_owner = Owner("laurels", f"tie {tie}, head")
        names = [(self._exact_owner, "by exact"), (HAND, "by one sorted set")]
        self._ratios = [(each, Owner("laurels", f"tie {tie}, head {by}")) for each, by in names]

    def _keep(self, group: str, case: str, unit: Unit, figures: dict[Owner, float]) -> None:
        """Keep the figures of one round. Also divide the figure of the board with a head by the
        figure of each of the others, and keep these ratios."""
        for owner, figure in figures.items():
            self._book.keep(group, owner, case, unit, figure)
        for other, ratio in self._ratios:
            if min(figures[other], figures[self._head_owner]) > 0:
                self._book.keep(group, ratio, case, "x", figures[self._head_owner] / figures[other])

    # Memory

    async def load(self) -> None:
        """Load the two boards and the sorted set with the same scores."""
        count, now_ms = self._population.count, self._population.now_ms
        batches, grown = entries_of("lognormal", count, now_ms), {}
        with without_file([self._server]):
            for board, owner in (
                (self._exact, self._exact_owner),
                (self._head, self._head_owner),
            ):
                await self._deployment.boards.create(board)
                before = dataset_bytes(self._server)
                await self._deployment.load(board, batches)
                grown[owner] = (dataset_bytes(self._server) - before) / count
            before = dataset_bytes(self._server)
            load_plain(self._server, _KEY, batches)
            grown[HAND] = (dataset_bytes(self._server) - before) / count
        wanted = f"{MEMORY} (wanted of tie {self._tie}: {_MEMORY_MOST[self._tie]:g} x exact)"
        self._keep(wanted, f"{count:,}", "bytes", grown)

    # Events

    def _writers(self, ranks: bool) -> dict[Owner, Work]:
        boards = self._deployment.boards
        script = self._server.call("SCRIPT", "LOAD", _ADD_RANKED if ranks else _ADD)

        def ours(board: Board) -> Work:
            async def submit(batch: Batch) -> None:
                receipts = await boards.submit_many(board.name, batch, ranks=ranks)
                assert not receipts.refused, "an event was refused"

            return submit

        async def by_hand(batch: Batch) -> None:
            words = [word for member, value in batch for word in (member, value)]
            self._server.call("EVALSHA", script, 1, _KEY, *words)

        return {
            self._exact_owner: ours(self._exact),
            self._head_owner: ours(self._head),
            HAND: by_hand,
        }

    async def measure_events(self) -> None:
        """Count the same events on the two boards and in the sorted set, in batches and one by
        one."""
        assert self._effort is not None
        least = _BATCHES_LEAST[self._tie]
        rate = f"Events/s of the server's processor, tie {self._tie}"
        for kind in get_args(Traffic):
            group = f"{rate}, {kind} (wanted: {least:g} x exact in batches, 0.5 x one by one)"
            many, few = self._effort.head_events, max(1, self._effort.head_events // 40)
            await self._rounds(group, f"batches of {BATCH:,}", kind, many, BATCH, ranks=False)
            await self._rounds(group, "one by one", kind, few, 1, ranks=False)
            await self._rounds(group, "one by one, with its ranks", kind, few, 1, ranks=True)

    async def _rounds(
        self, group: str, case: str, kind: Traffic, events: int, size: int, *, ranks: bool
    ) -> None:
        assert self._effort is not None
        writers = self._writers(ranks)
        rounds = self._effort.head_rounds
        traffic = self._population.traffic(kind, (rounds + 1) * events)
        for number, run in enumerate(in_batches(traffic, events)):
            figures = {}
            for owner in sorted(writers, key=lambda each: each.settings, reverse=number % 2 == 1):
                figures[owner] = await self._rate(writers[owner], in_batches(run, size), len(run))
            if number:
                self._keep(group, case, "events/s", figures)

    async def _rate(self, submit: Work, batches: Sequence[Batch], events: int) -> float:
        cost = await cost_of([self._server], lambda: in_flight(batches, 1, submit))
        return events / max(cost.server_seconds, 1e-6)

    # Ranks

    async def measure_ranks(self) -> None:
        """Read the ranks of members of the last fifth, one by one."""
        assert self._effort is not None
        boards = self._deployment.boards
        scores = scores_of("lognormal", self._population.count)
        order = sorted(range(len(scores)), key=scores.__getitem__)
        tail = [member_name(i) for i in order[: len(order) // 5]]
        script = self._server.call("SCRIPT", "LOAD", _RANK)

        async def of_exact(member: str) -> None:
            await boards.rank(self._exact.name, member)

        async def of_head(member: str) -> None:
            await boards.rank(self._head.name, member)

        async def by_hand(member: str) -> None:
            self._server.call("EVALSHA", script, 1, _KEY, member)

        asks = {self._exact_owner: of_exact, self._head_owner: of_head, HAND: by_hand}
        for number in range(self._effort.head_rounds + 1):
            some = Random(number).choices(tail, k=self._effort.head_reads)
            figures = {}
            for owner, ask in asks.items():
                figures[owner] = await self._read_us(ask, some)
            if number:
                group = "The server's processor time of one read (wanted: 2.5 x exact at most)"
                self._keep(group, "rank of a member of the last fifth", "µs", figures)

    async def _read_us(self, ask: Callable[[str], Awaitable[object]], members: list[str]) -> float:
        cost = await cost_of([self._server], lambda: in_flight(members, 1, ask))
        return 1e6 * cost.server_seconds / len(members)

    # Passes

    async def measure_passes(self) -> None:
        """Measure the longest call of a refill and of a new grid, while single events arrive."""
        self._deployment.do_nothing_ahead()
        name = self._head.name
        for _ in range(_LISTED // HEAD + 1):
            page = await self._deployment.boards.top(name, limit=HEAD)
            batch = [
                (each.member, -each.score) for each in page.entries if isinstance(each.score, int)
            ]
            await self._deployment.boards.submit_many(name, batch)
        await self._measure_pass("a refill")
        for batch in in_batches(list(self._crowding()), BATCH):
            await self._deployment.boards.submit_many(name, batch)
        await self._measure_pass("a new grid")

    def _crowding(self) -> Iterator[tuple[str, int]]:
        """Yield events that move the last 1 in 25 members to almost the same place below the head,
        so that a segment has too many members."""
        scores = scores_of("lognormal", self._population.count)
        order = sorted(range(len(scores)), key=scores.__getitem__)
        value = scores[order[-min(4 * _LISTED, len(order) // 2)]]
        for i in order[: len(order) // 25]:
            yield member_name(i), value

    async def _measure_pass(self, what: str) -> None:
        """Do a pass share by share. After each share send a single event, and run a loop of fixed
        length.

        The elapsed time of a call includes interruptions of the server by other programs, but its
        processor time does not. Both vary with the machine, and the times of the loop show how
        much.
        """
        events = cycle(self._population.traffic("uniform", 10_000))
        loop = self._server.call("SCRIPT", "LOAD", _LOOP)
        used: dict[str, list[float]] = {"a share": [], "an event": [], "a fixed loop": []}

        async def single() -> None:
            await self._deployment.boards.submit_many(self._head.name, [next(events)])

        left = True
        with blocked_ms(self._server, besides=loop) as calls:
            while left:
                instants = [cpu_seconds([self._server])]
                left = await self._deployment.share()
                instants.append(cpu_seconds([self._server]))
                await single()
                instants.append(cpu_seconds([self._server]))
                self._server.call("EVALSHA", loop, 0)
                instants.append(cpu_seconds([self._server]))
                for figures, (begin, end) in zip(used.values(), pairwise(instants), strict=True):
                    figures.append(1e3 * (end - begin))
        group = "How long a call holds the server during a pass, ms (wanted: below 10)"
        kinds = {f"{case}, processor time": figures for case, figures in used.items()}
        for kind, figures in {**kinds, "elapsed": calls}.items():
            figures.sort()
            owner = Owner(self._head_owner.name, f"{self._head_owner.settings}, {kind}")
            for case, percent in (("median", 50), ("99 %", 99), ("longest", 100)):
                if figures:
                    figure = quantile(figures, percent)
                    self._book.keep(group, owner, f"{what}, {case}", "ms", figure)


async def _measure_widths(
    deployment: Deployment, kind: Scores, population: Population, book: Book
) -> None:
    """Measure the widths of estimates: first with a new grid, and then after as many events as the
    board has members."""
    board = board_with("first", HEAD)
    await deployment.boards.create(board)
    await deployment.load(board, entries_of(kind, population.count, population.now_ms))
    await _keep_widths(deployment, board, kind, "new grid", population, book)

    async def submit(batch: Batch) -> None:
        await deployment.boards.submit_many(board.name, batch)

    events = population.traffic("uniform", population.count)
    await in_flight(in_batches(events, BATCH), 4, submit)
    await _keep_widths(deployment, board, kind, "after an event a member", population, book)


async def _keep_widths(
    deployment: Deployment,
    board: Board,
    kind: Scores,
    when: str,
    population: Population,
    book: Book,
) -> None:
    widths = []
    for member in population.sample(2_000):
        standing = await deployment.boards.standing(board.name, member)
        if standing is not None and not standing.exact:
            widths.append(100 * (standing.rank_high - standing.rank_low) / standing.rank_low)
    widths.sort()
    owner = Owner("laurels", f"{kind} scores")
    group = "Width of an estimated rank, % of the rank (wanted: at most 2 with a new grid)"
    for percent in (50, 99) if widths else ():
        book.keep(group, owner, f"{when}, {percent} %", "%", quantile(widths, percent))
