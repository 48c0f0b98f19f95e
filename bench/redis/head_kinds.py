"""Two kinds of boards with a head: one in several shards, and one with `hide_zero`. Each is
compared with a board that has a head and nothing else, and with the same board without a head.

All have the same members and scores on one server, and get the same events in alternating rounds.
The figures are processor time of the server, so several shards gain nothing by using several cores.
"""

from collections.abc import Callable

from bench.redis.boards import BATCH, Deployment, deployed, in_flight
from bench.redis.book import Book, Owner
from bench.redis.effort import RedisEffort
from bench.redis.heads import HEAD, entries_of
from bench.redis.serving import Server, cost_of, dataset_bytes, serving, without_file
from bench.workload import Batch, Population, in_batches, member_name
from laurels import Board

SHARDS = 3
_HEADS = {
    "plain": Board("plain", head=HEAD, rank="competition"),
    f"{SHARDS} shards": Board("shards", head=HEAD, rank="competition", shards=SHARDS),
    "hide_zero": Board("hide-zero", head=HEAD, rank="competition", hide_zero=True),
}
_EXACT = {
    "plain": Board("exact-plain", rank="competition"),
    f"{SHARDS} shards": Board("exact-shards", rank="competition", shards=SHARDS),
    "hide_zero": Board("exact-hide-zero", rank="competition", hide_zero=True),
}
_KINDS = [(kind, "head", board) for kind, board in _HEADS.items()]
_KINDS += [(kind, "exact", board) for kind, board in _EXACT.items()]
_GROUP = "Boards with a head in shards and with hide_zero"


async def measure_head_kinds(
    core: int,
    population: Population,
    effort: RedisEffort,
    book: Book,
    say: Callable[[str], None],
    done: Callable[[], None],
) -> None:
    """Measure memory, events in batches and ranks of each kind of board with a head. Call `say`
    before the measurement, and `done` after it."""
    say("heads in shards and with hide_zero")
    with serving(core) as server:
        async with deployed(server.url, population.now_ms) as deployment:
            kinds = _Kinds(server, deployment, population, effort, book)
            await kinds.load()
            await kinds.measure_events()
            await kinds.measure_ranks()
    done()


class _Kinds:
    """All kinds of boards on one server."""

    def __init__(
        self,
        server: Server,
        deployment: Deployment,
        population: Population,
        effort: RedisEffort,
        book: Book,
    ) -> None:
        self._server, self._deployment = server, deployment
        self._population, self._effort, self._book = population, effort, book

    def _keep(self, case: str, unit: str, figures: dict[tuple[str, str], float]) -> None:
        """For each kind of board with a head, store two ratios of a round: its figure divided by
        that of the board with a head and nothing else, and its figure divided by that of the same
        board without a head."""
        for kind in _HEADS:
            figure = figures[kind, "head"]
            for name, other in (("plain head", ("plain", "head")), ("exact", (kind, "exact"))):
                if min(figure, figures[other]) > 0 and other != (kind, "head"):
                    owner = Owner("laurels", f"head, {kind}, by {name}")
                    self._book.keep(_GROUP, owner, f"{case} ({unit})", "x", figure / figures[other])

    async def load(self) -> None:
        """Load all boards with the same scores."""
        count, now_ms = self._population.count, self._population.now_ms
        batches, grown = entries_of("lognormal", count, now_ms), {}
        with without_file([self._server]):
            for kind, order, board in _KINDS:
                await self._deployment.boards.create(board)
                before = dataset_bytes(self._server)
                await self._deployment.load(board, batches)
                grown[kind, order] = (dataset_bytes(self._server) - before) / count
        self._keep("memory", "bytes a member", grown)

    async def measure_events(self) -> None:
        """Count the same events on all boards, in batches."""
        events, rounds = self._effort.head_events, self._effort.head_rounds
        traffic = self._population.traffic("zipf", (rounds + 1) * events)
        for number, run in enumerate(in_batches(traffic, events)):
            figures = {}
            for kind, order, board in _KINDS[:: 1 if number % 2 else -1]:

                async def submit(batch: Batch, name: str = board.name) -> None:
                    await self._deployment.boards.submit_many(name, batch, ranks=False)

                batches = in_batches(run, BATCH)
                cost = await cost_of([self._server], lambda: in_flight(batches, 1, submit))  # noqa: B023 (called at once)
                figures[kind, order] = len(run) / max(cost.server_seconds, 1e-6)
            if number:
                self._keep(f"batches of {BATCH:,}, Zipf", "events/s", figures)

    async def measure_ranks(self) -> None:
        """Read the ranks of random members, one by one."""
        count, reads = self._population.count, self._effort.head_reads
        for number in range(self._effort.head_rounds + 1):
            members = [member_name((number + 1) * 7_919 * i % count) for i in range(reads)]
            figures = {}
            for kind, order, board in _KINDS:

                async def ask(member: str, name: str = board.name) -> None:
                    await self._deployment.boards.rank(name, member)

                cost = await cost_of([self._server], lambda: in_flight(members, 1, ask))  # noqa: B023 (called at once)
                figures[kind, order] = cost.server_seconds / reads
            if number:
                self._keep("rank of a random member", "µs", figures)
