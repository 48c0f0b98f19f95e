"""The time for which a boundary (the end of a rolling window's step) blocks the server."""

import time
from collections.abc import Iterable, Sequence

import msgspec

from bench.history import HOUR_MS, Steps
from bench.redis.boards import (
    MOST,
    Deployment,
    LayoutName,
    board_of,
    deployed,
    first_events,
    owner_of,
)
from bench.redis.book import Book, Owner
from bench.redis.serving import Server, blocked_ms, cost_of, serving, without_file
from bench.workload import Entry, Population
from laurels import Board, Column

_WINDOW = Steps(3)
_LAYOUTS: tuple[LayoutName, ...] = ("packed", "prefixed")
_CANDIDATES = (24, 100)
_GROUP = "How long the server is held at a boundary, ms (wanted: a chunk below 5 ms)"


async def measure_passes(core: int, population: Population, book: Book) -> None:
    """Measure the most expensive pass: every member has a total in the leaving step, and every
    second member has another total in the next step."""
    for layout in _LAYOUTS:
        with serving(core) as server:
            async with deployed(server.url, population.now_ms) as deployment:
                deployment.do_nothing_ahead()
                board = board_of(layout, [_WINDOW.window])
                await deployment.boards.create(board)
                boundary = _Boundary(server, deployment, board, population, owner_of(layout), book)
                with without_file([server]):
                    await boundary.fill()
                await boundary.measure()


async def measure_best_passes(core: int, population: Population, book: Book) -> None:
    """Measure the pass of a `best` column whose values get worse from step to step, so that every
    member has a candidate in each step of the window."""
    for many in _CANDIDATES:
        for layout in _LAYOUTS:
            with serving(core) as server:
                async with deployed(server.url, population.now_ms) as deployment:
                    deployment.do_nothing_ahead()
                    board = _best(layout, Steps(many))
                    await deployment.boards.create(board)
                    owner = owner_of(layout, f"best, {many} candidates")
                    boundary = _Falling(server, deployment, board, population, owner, book)
                    with without_file([server]):
                        await boundary.fill_steps(many)
                    await boundary.measure()


def _best(layout: LayoutName, steps: Steps) -> Board:
    """Return a board with one best column in this layout."""
    packed = layout == "packed"
    column = Column(op="best", min=0 if packed else None, max=MOST if packed else None)
    return msgspec.structs.replace(board_of(layout, [steps.window]), columns=(column,))


class _Boundary:
    """A board whose clock passes one boundary after another."""

    def __init__(
        self,
        server: Server,
        deployment: Deployment,
        board: Board,
        population: Population,
        owner: Owner,
        book: Book,
    ) -> None:
        self._server, self._deployment, self._board = server, deployment, board
        self._population, self._owner, self._book = population, owner, book
        self._somebody = population.active(1)

    async def fill(self) -> None:
        """Give all members an event in one step, and every second one also in the next."""
        await self._deployment.load(self._board, self._now())
        await self._pass_boundary()
        halves = (batch[::2] for batch in self._now())
        await self._deployment.load(self._board, halves)

    async def measure(self) -> None:
        """Measure three boundaries. The first is passed without being measured. The work for the
        second is done ahead, share by share, and that for the third by the first call after it."""
        await self._pass_boundary()
        with blocked_ms(self._server) as chunks:
            cost = await cost_of([self._server], self._deployment.settle)
        self._keep("chunk, processor time", 1e3 * cost.server_seconds / len(chunks))
        self._keep("chunk, median", chunks[len(chunks) // 2])
        self._keep("chunk, 99 %", chunks[len(chunks) * 99 // 100])
        self._keep("chunk, longest", chunks[-1])
        self._keep("whole pass", 1e3 * cost.seconds)
        with blocked_ms(self._server) as blocked:
            await self._pass_boundary()
        self._keep("step rotation", blocked[-1])
        with blocked_ms(self._server) as unprepared:
            begun = time.perf_counter()
            await self._pass_boundary()
            first = time.perf_counter() - begun
        self._keep("nothing done ahead: longest", unprepared[-1])
        self._keep("nothing done ahead: first caller", 1e3 * first)

    async def _pass_boundary(self) -> None:
        """Move the clock beyond a boundary, and read a standing."""
        self._deployment.clock.advance(HOUR_MS)
        await self._deployment.standing(self._board.name, self._somebody, "rolling")

    def _now(self) -> Iterable[Sequence[Entry]]:
        now_ms = self._deployment.clock.now_ms()
        return first_events(self._population, now_ms, now_ms)

    def _keep(self, case: str, figure_ms: float) -> None:
        self._book.keep(_GROUP, self._owner, case, "ms", figure_ms)


class _Falling(_Boundary):
    """A board on which each member's score is worse in every step than in the step before."""

    async def fill_steps(self, many: int) -> None:
        """Give all members an event in each of `many` steps, each worse than the previous one."""
        for step in range(many):
            if step:
                await self._pass_boundary()
            value = many - step
            worse = ([(member, value, at) for member, _, at in batch] for batch in self._now())
            await self._deployment.load(self._board, worse)
