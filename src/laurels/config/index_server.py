"""Opening a store on an index server."""

import asyncio
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import DataAtRisk, InvalidClock
from laurels.model.validation import safe_repr
from laurels.stores.answers.answer import CacheSettings
from laurels.timeline.clock import Clock, EventClock
from laurels.timeline.clock_guard import ClockGuard

from .clocks import CLOCKS, boot_ns, parse_max_step
from .ledgers import ledger_urls
from .recording import recorded_verbs, recorded_verbs_async

if TYPE_CHECKING:
    from laurels.stores.redis.connection.connection import Connection
    from laurels.stores.redis.index.definitions import RedisDefinitions
    from laurels.stores.redis.index.index import RedisIndex
    from laurels.stores.redis.store import RedisStore


DEFAULT_CACHE = CacheSettings()


def direct(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool = True,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> Leaderboards:
    """Return `Leaderboards` over an index server, with an event loop in a thread. The warning
    DataAtRisk names the settings of the server by which counted events may be lost.

    Raises MissingRedis, UnknownUrl, InvalidClock, and the errors of an index server that cannot be
    used.
    """
    service = direct_beside(
        url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
    )
    _warn_of(service)
    return recorded_verbs(service)


async def direct_async(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool = True,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
) -> AsyncLeaderboards:
    """Return `AsyncLeaderboards` over an index server, on the running event loop."""
    service = await direct_here(
        url, clock, create=create, log_keep=log_keep, max_clock_step=max_clock_step
    )
    _warn_of(service)
    return recorded_verbs_async(service)


def direct_beside(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
    cache: CacheSettings = DEFAULT_CACHE,
) -> "RedisStore":
    """Open a store on an index server, with an event loop in a thread of its own. The thread ends
    when the store is closed."""
    from laurels.stores.redis.connection.loop import LoopThread  # noqa: PLC0415 (the package is optional)

    thread = LoopThread()
    try:
        service = thread.run(
            direct_here(
                url,
                clock,
                create=create,
                log_keep=log_keep,
                max_clock_step=max_clock_step,
                cache=cache,
            )
        )
    except BaseException:
        thread.close()
        raise
    service.on_close(thread.close)
    return service


async def direct_here(
    url: str,
    clock: str | Clock | None = None,
    *,
    create: bool,
    log_keep: object = None,
    max_clock_step: str | int | None = None,
    cache: CacheSettings = DEFAULT_CACHE,
    is_session: bool = True,
    moment: Callable[[], int] | None = None,
    ledgers: Mapping[str, str] = {},
) -> "RedisStore":
    """Open a store on an index server, on the running event loop. `ledgers` are URLs by name,
    besides those in the environment. With `is_session` the store is for a single reader, to whom no
    answer shows an older state than an answer before. A service has many readers, and passes False.
    `moment`
    returns the next moment; the stores of one service share this function, so that their moments
    are in one order."""
    from laurels.stores.redis.connection.connection import connect as connect_to  # noqa: PLC0415
    from laurels.stores.redis.connection.connection import redis_address  # noqa: PLC0415
    from laurels.stores.redis.index.audit import RedisAudit  # noqa: PLC0415
    from laurels.stores.redis.index.definitions import RedisDefinitions  # noqa: PLC0415
    from laurels.stores.redis.index.everywhere import RedisEverywhere  # noqa: PLC0415
    from laurels.stores.redis.index.keys import RedisKeys  # noqa: PLC0415
    from laurels.stores.redis.index.payout_places import RedisPayoutPlaces  # noqa: PLC0415
    from laurels.stores.redis.ledgers import ArchiveSettings  # noqa: PLC0415
    from laurels.stores.redis.registry import Registry  # noqa: PLC0415 (needs an optional package)
    from laurels.stores.redis.retry import Calls  # noqa: PLC0415
    from laurels.stores.redis.sharding.contents import ShardedContents  # noqa: PLC0415
    from laurels.stores.redis.sharding.sharded import ShardedIndex  # noqa: PLC0415
    from laurels.stores.redis.store import RedisStore  # noqa: PLC0415

    if log_keep is not None:
        raise InvalidClock(f"log_keep is {safe_repr(log_keep)}, but an index server keeps no log")
    address = redis_address(url)
    with _opening_counts_nothing():
        connection = await connect_to(address)
    try:
        definitions = RedisDefinitions(connection, address.prefix)
        guard = ClockGuard(parse_max_step(max_clock_step))
        registry = Registry(definitions, RedisEverywhere(connection, address.prefix))
        with _opening_counts_nothing():
            await definitions.ensure_readable(create=create)
            followed = await _followed(clock, connection, definitions, guard, create=create)
            await registry.load()
        index = _redis_index(connection, address.prefix, followed)

        async def close() -> None:
            await index.latest.finish()
            await connection.close()

        return RedisStore(
            ShardedIndex(index),
            registry,
            followed,
            asyncio.get_running_loop(),
            close,
            RedisKeys(connection, address.prefix),
            Calls(secrets.token_hex(8)),
            ShardedContents(index),
            connection.warnings,
            RedisAudit(connection, address.prefix),
            cache=cache,
            elapsed_ns=boot_ns,
            is_session=is_session,
            deletions=definitions,
            moment=moment,
            archive=ArchiveSettings(
                ledger_urls(ledgers), secrets.token_hex(8), secrets.token_bytes
            ),
            payout_places=RedisPayoutPlaces(connection, address.prefix),
        )
    except BaseException:
        await connection.close()
        raise


@contextmanager
def _opening_counts_nothing() -> Iterator[None]:
    """Return a context manager for opening an index server. Opening counts no events, so errors
    that leave the block do not say that a write may have been applied."""
    from laurels.errors.index_server import IndexUnavailable  # noqa: PLC0415

    try:
        yield
    except IndexUnavailable as error:
        error.note_read_only()
        raise


async def _followed(
    clock: str | Clock | None,
    connection: "Connection",
    definitions: "RedisDefinitions",
    guard: ClockGuard,
    *,
    create: bool,
) -> Clock:
    """Return the requested clock, or by default the clock of the boards on a server. A caller that
    may create boards also stores the clock on the server."""
    from laurels.stores.redis.index.node_clock import NodeClock  # noqa: PLC0415 (needs an optional package)

    if isinstance(clock, Clock) and not isinstance(clock, type):
        return clock
    kept = await definitions.note("clock")
    name = clock or kept or "system"
    if not isinstance(name, str) or name not in CLOCKS:
        raise InvalidClock(f"expected system or event as the clock, got {safe_repr(name)}")
    if kept is None and create:
        kept = await definitions.first_note("clock", name)
    if kept not in (None, name):
        raise InvalidClock("the boards already run on another clock")
    if name == "event":
        return EventClock()
    followed = NodeClock(connection, definitions.key, boot_ns, guard, notes=definitions)
    await followed.start()
    return followed


def _redis_index(connection: "Connection", prefix: str, clock: Clock) -> "RedisIndex":
    """Return the index on a server.

    If the boards use the server's own clock, the server itself removes the keys of old periods.
    """
    from laurels.stores.redis.index.index import RedisIndex  # noqa: PLC0415 (needs an optional package)
    from laurels.stores.redis.index.node_clock import NodeClock  # noqa: PLC0415

    return RedisIndex(connection, prefix, _wall_clock(clock), expires=isinstance(clock, NodeClock))


def _wall_clock(clock: Clock) -> Clock | None:
    """Return a clock that advances by itself; None for event time, which only events advance."""
    return None if isinstance(clock, EventClock) else clock


def _warn_of(service: "RedisStore") -> None:
    for risk in service.risks:
        warnings.warn(risk, DataAtRisk, stacklevel=4)
