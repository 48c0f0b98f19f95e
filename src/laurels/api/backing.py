"""What a server stands on, as the rest of it sees that: a store of this process, or an index server
that others write to as well."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from laurels.core.clock_status import ClockStatus
from laurels.core.stats import Stats
from laurels.errors import Unavailable
from laurels.stores.base import Servable
from laurels.stores.local.store import Service
from laurels.stores.local.write_failures import WriteFailures
from laurels.stores.redis.store import Direct
from laurels.wire.audit_entry import AuditStore
from laurels.wire.keys import KeyStore

from .aio import AsyncLeaderboards

BOARDS_SHOWN = 1_000
"""Boards with figures of their own: more labels than that hurt whoever collects them."""

ChangeTokenOf = Callable[[str], tuple[int, int, int, bool]]


class Viewer(Protocol):
    """Who may look at figures, and of which boards."""

    @property
    def is_unlimited(self) -> bool: ...

    def sees(self, board: str) -> bool: ...


class StoreFigures(Struct, frozen=True):
    """Figures of what there is: of a store of this process, or how many boards it knows of those on
    an index server, and whether that answers."""

    of_boards_only: bool = False
    """Whether it is for a caller that is limited to some boards: nothing of the store is told."""
    store: Stats | None = None
    boards: Sequence[tuple[str, int]] = ()
    """Names, and the bytes that the rankings take."""
    scopes: Sequence[tuple[str, str, int]] = ()
    """Boards, the labels of scopes of theirs, and how many such scopes hold anybody."""
    scopes_memory: Sequence[tuple[str, int]] = ()
    """Boards that have scopes, and the bytes that the rankings of these take."""
    snapshot_age: float = 0.0
    write_failures: int = 0
    writable: bool = True
    count: int = 0
    answers: bool = True
    clock: ClockStatus | None = None


class Backing(Struct, frozen=True):
    """The store, the verbs `lb` over it, and what a server needs besides: its keys, an audit log,
    and what is below.

    `change_token` changes with a board (see `Service.change_token`); where it `is_exact`, at once.
    `follow` brings it up to date where it is not; `ensure` raises what keeps the boards from being
    asked or written; `clock` tells how they stand to their clock; `held` are figures of what a
    caller may see. `observe` has a function called after each commit, as `Service.observe`. `risks`
    are sentences on how what was counted may be lost.
    """

    store: Servable
    lb: AsyncLeaderboards
    keys: KeyStore
    audit: AuditStore
    observe: Callable[[Callable[[int, float], None], Callable[[], float]], None]
    change_token: ChangeTokenOf
    held: Callable[[Viewer], Awaitable[StoreFigures]]
    is_exact: bool = True
    follow: Callable[[Collection[str]], Awaitable[None]] | None = None
    ensure: Callable[[], Awaitable[None]] | None = None
    clock: Callable[[], ClockStatus] | None = None
    risks: Sequence[str] = ()


def on_index_server(service: Direct, keys: KeyStore) -> Backing:
    """Boards on an index server; on the loop of the service."""
    return Backing(
        service,
        AsyncLeaderboards(service),
        keys,
        service.audit,
        service.observe,
        service.change_token,
        lambda caller: _held_there(service, caller),
        is_exact=False,
        follow=service.follow,
        ensure=service.answers,
        clock=service.clock_status,
        risks=service.risks,
    )


def in_process(
    service: Service, keys: KeyStore, audit: AuditStore, clock: Callable[[], float]
) -> Backing:
    """Boards of this process, on the loop that runs; `clock` tells seconds since 1970."""
    lb = AsyncLeaderboards(service)
    began = clock()

    async def held(caller: Viewer) -> StoreFigures:
        if not caller.is_unlimited:
            return _held_of_boards(lb, caller.sees)
        taken = service.snapshot_taken()
        age = clock() - (began if taken is None else taken)
        return _held_here(lb, age, service.write_failures)

    async def ensure() -> None:
        if service.write_failures.reason is not None:
            await asyncio.to_thread(service.ensure_writable)

    return Backing(
        service,
        lb,
        keys,
        audit,
        service.observe,
        service.change_token,
        held,
        ensure=ensure,
        clock=service.clock_status,
    )


def _held_here(
    lb: AsyncLeaderboards, snapshot_age: float, write_failures: WriteFailures
) -> StoreFigures:
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


def _held_of_boards(lb: AsyncLeaderboards, sees: Callable[[str], bool]) -> StoreFigures:
    """The figures of the boards that somebody sees, and none of the store as a whole."""
    seen = [board.name for board in lb.sync.boards() if sees(board.name)]
    shown = [lb.sync.stats(board) for board in seen[:BOARDS_SHOWN]]
    return StoreFigures(
        of_boards_only=True,
        boards=[(stats.board, stats.nbytes) for stats in shown],
        scopes=[
            (stats.board, form, count) for stats in shown for form, count in stats.scopes.items()
        ],
        scopes_memory=[(stats.board, stats.scopes_nbytes) for stats in shown if stats.scopes],
    )


async def _held_there(service: Direct, caller: Viewer) -> StoreFigures:
    """Nothing is added up on the index server for this: that is for `/v1/stats`."""
    if not caller.is_unlimited:
        return StoreFigures(of_boards_only=True)
    try:
        await service.answers()
    except Unavailable:
        return StoreFigures(count=service.count, answers=False)
    return StoreFigures(count=service.count, answers=True, clock=service.clock_status())
