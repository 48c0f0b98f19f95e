"""Boards in the three layouts of a ranking, with their first events and their traffic.

Scores stay below `MOST`, so that every board can count the same events. Each member begins with one
event, at a random instant in the longest rolling window of its board. The value of this event is
inversely proportional to the member's position in the order of activity (see `bench.workload`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from operator import itemgetter
from random import Random
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from bench.redis.book import Owner
from bench.workload import Batch, Entry, Population, Steep, Traffic
from laurels import Board, Column
from laurels.api.aio import AsyncLeaderboards
from laurels.config import direct_async
from laurels.errors import NotReady
from laurels.stores.intake.shares import SHARE
from laurels.timeline.clock import ManualClock

LayoutName: TypeAlias = Literal["plain", "packed", "prefixed"]

LAYOUTS: tuple[LayoutName, ...] = get_args(LayoutName)
BATCH = 1_000
MOST = 2**20 - 1
"""The greatest score on the board with the packed layout: 20 bits, which leave 33 bits for the tie
word."""
LARGEST_VALUE = 4
SHARDED = "shards" in Board.__struct_fields__
"""Whether this version can divide a board into shards."""

_FIRST_MOST = MOST // 3
_LOAD_BATCH = 10_000
_LOADS_IN_FLIGHT = 4
_DEDUPE = "30d"
_DEFINED: dict[LayoutName, dict[str, Any]] = {
    "plain": {"tie": "member"},
    "packed": {"columns": [Column(min=0, max=MOST)], "tie_resolution": "1m"},
    "prefixed": {},
}
_LAYOUT_MODULE = "laurels.stores.redis.index.layout"

T = TypeVar("T")


def board_of(
    layout: LayoutName, windows: Sequence[str], *, name: str = "", shards: int = 1
) -> Board:
    """Return a board whose definition gives its rankings this layout."""
    more: dict[str, Any] = {"shards": shards} if SHARDED else {}
    named = name or f"{layout}-{shards}"
    return Board(named, windows=windows, dedupe=_DEDUPE, **_DEFINED[layout], **more)


def owner_of(layout: LayoutName, more: str = "") -> Owner:
    """Return the owner of figures that were measured on laurels. Its settings name the layout for
    which the board is defined and, if the measured version uses another one, also that one."""
    kept = kept_as(board_of(layout, ["all"]))
    label = layout if kept == layout else f"{layout} (kept {kept})"
    return Owner("laurels", f"{label}{more and f', {more}'}")


def kept_as(board: Board) -> str:
    """Return the layout that the measured version of laurels uses for a board's rankings. Versions
    without a module for layouts have only the prefixed one."""
    try:
        module = import_module(_LAYOUT_MODULE)
    except ModuleNotFoundError as error:
        if error.name != _LAYOUT_MODULE:
            raise
        return "prefixed"
    return str(module.layout_of(board.rules()).name)


def first_events(population: Population, begins_ms: int, now_ms: int) -> list[list[Entry]]:
    """Return one event of each member, at an instant from `begins_ms` to `now_ms`, in batches.

    The events are in the order of time, as in a history, so the events of a batch are in few steps
    of a window.
    """
    random = Random(7).random
    members = [entry for batch in population.batches() for entry in batch]
    greatest = max(score for _, score, _ in members)
    events = [
        (
            member,
            1 + score * _FIRST_MOST // greatest,
            begins_ms + int(random() * (now_ms - begins_ms)),
        )
        for member, score, _ in members
    ]
    events.sort(key=itemgetter(2))
    return [events[first : first + _LOAD_BATCH] for first in range(0, len(events), _LOAD_BATCH)]


def traffic_of(population: Population, kind: Traffic | Steep, events: int) -> Batch:
    """Return events of small values on members drawn by Zipf (s = 1) or uniformly."""
    drawn = population.traffic(kind, events)
    return [(member, 1 + value % LARGEST_VALUE) for member, value in drawn]


async def in_flight(
    batches: Iterable[T], many: int, send: Callable[[T], Awaitable[object]]
) -> None:
    """Send batches so that `many` of them are in progress at any time: when one is answered, the
    next one is sent."""
    left = iter(batches)

    async def lane() -> None:
        for batch in left:
            await send(batch)

    await asyncio.gather(*(lane() for _ in range(many)))


class Deployment:
    """Boards on one server or cluster, with a clock that each batch moves forward."""

    def __init__(self, boards: AsyncLeaderboards, clock: ManualClock) -> None:
        self.boards = boards
        self.clock = clock

    async def load(self, board: Board, batches: Iterable[Sequence[Entry]]) -> None:
        """Count the first events of a board, and do the work that becomes due."""

        async def send(batch: Sequence[Entry]) -> None:
            receipts = await self.boards.submit_many(board.name, batch)
            assert not receipts.refused, "an event is refused"

        await in_flight(batches, _LOADS_IN_FLIGHT, send)
        await self.settle()

    async def settle(self) -> None:
        """Do all the work for the next boundary, share by share."""
        while await self.share():
            pass

    async def share(self) -> bool:
        """Do one share of the due work. Return whether more is left."""
        work = cast(Any, self.boards)._store.work
        return bool((await asyncio.to_thread(work, SHARE))[0])

    def do_nothing_ahead(self) -> None:
        """Stop the store's own task that prepares boundaries. Then a boundary is prepared only by
        `settle`, or by the first call after the boundary."""
        cast(Any, self.boards)._store._pacing.cancel()

    async def standing(self, board: str, member: str, window: str) -> None:
        """Read a standing, and repeat the query until it is answered."""
        while True:
            try:
                await self.boards.standing(board, member, window=window)
            except NotReady:
                continue
            return

    async def scores(self, board: str, members: Iterable[str], window: str) -> list[int]:
        """Return the current scores, 0 for absent members."""
        standings = [await self.boards.standing(board, member, window=window) for member in members]
        return [0 if standing is None else cast(int, standing.score) for standing in standings]


@asynccontextmanager
async def deployed(url: str, now_ms: int) -> AsyncIterator[Deployment]:
    """Return a context manager with a deployment."""
    clock = ManualClock(now_ms)
    async with await direct_async(url, clock) as boards:
        yield Deployment(boards, clock)
