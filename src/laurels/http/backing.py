"""What a server stands on, as the rest of it sees that: a store of this process, or an index server
that others write to as well."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from msgspec import Struct
from msgspec.structs import replace

from laurels.aio import AsyncLeaderboards
from laurels.clock_status import ClockStatus
from laurels.direct.service import Direct
from laurels.direct.surfaces import AsyncDirectLeaderboards
from laurels.errors import Unavailable
from laurels.service import Service
from laurels.write_failures import WriteFailures

from .caller import Caller
from .metrics import BOARDS_SHOWN, Held

Pulse = Callable[[str], tuple[int, int, int, bool]]


class Backing(Struct, frozen=True):
    """`pulse` tells who watches that a board has changed; where it `is_exact`, it is never late.
    `follow` brings it up to date where it is not; `ensure` raises what keeps the boards from being
    asked or written; `clock` tells how they stand to their clock; `held` are figures of what a
    caller may see."""

    pulse: Pulse
    held: Callable[[Caller], Awaitable[Held]]
    is_exact: bool = True
    follow: Callable[[Collection[str]], Awaitable[None]] | None = None
    ensure: Callable[[], Awaitable[None]] | None = None
    clock: Callable[[], ClockStatus] | None = None


def verbs_of(service: Service | Direct) -> AsyncLeaderboards:
    """The verbs over a service, on the loop that runs."""
    if isinstance(service, Direct):
        return AsyncDirectLeaderboards(service)
    return AsyncLeaderboards(service)


def backing_of(
    service: Service | Direct, lb: AsyncLeaderboards, clock: Callable[[], float]
) -> Backing:
    """What a server needs of a service beside the verbs; `clock` tells seconds since 1970."""
    if isinstance(service, Direct):
        return Backing(
            service.pulse,
            lambda caller: _held_there(service, caller),
            is_exact=False,
            follow=service.follow,
            ensure=service.answers,
            clock=service.clock_status,
        )
    began = clock()

    async def held(caller: Caller) -> Held:
        if not caller.is_unlimited:
            return _held_of_boards(lb, caller.sees)
        taken = service.snapshot_taken()
        age = clock() - (began if taken is None else taken)
        return _held_here(lb, age, service.write_failures)

    async def ensure() -> None:
        if service.write_failures.reason is not None:
            await asyncio.to_thread(service.ensure_writable)

    return Backing(service.pulse, held, ensure=ensure, clock=service.clock_status)


def _held_here(lb: AsyncLeaderboards, snapshot_age: float, write_failures: WriteFailures) -> Held:
    store = lb.sync.stats()
    return replace(
        _held_of_boards(lb, lambda _: True),
        of_boards_only=False,
        store=store,
        clock=store.clock,
        snapshot_age=snapshot_age,
        write_failures=write_failures.count,
        writable=write_failures.reason is None,
    )


def _held_of_boards(lb: AsyncLeaderboards, sees: Callable[[str], bool]) -> Held:
    """The figures of the boards that somebody sees, and none of the store as a whole."""
    seen = [board.name for board in lb.sync.boards() if sees(board.name)]
    shown = [lb.sync.stats(board) for board in seen[:BOARDS_SHOWN]]
    return Held(
        of_boards_only=True,
        boards=[(stats.board, stats.nbytes) for stats in shown],
        scopes=[
            (stats.board, form, count) for stats in shown for form, count in stats.scopes.items()
        ],
        scopes_memory=[(stats.board, stats.scopes_nbytes) for stats in shown if stats.scopes],
    )


async def _held_there(service: Direct, caller: Caller) -> Held:
    """Nothing is added up on the index server for this: that is for `/v1/stats`."""
    if not caller.is_unlimited:
        return Held(of_boards_only=True)
    try:
        await service.answers()
    except Unavailable:
        return Held(count=service.count, answers=False)
    return Held(count=service.count, answers=True, clock=service.clock_status())
