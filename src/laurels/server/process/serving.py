"""The server: a store, the application over it, and the process that runs them until it is
stopped."""

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct

from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.errors import LaurelsError
from laurels.flows.sinks.configured import BackgroundSinks
from laurels.flows.sinks.positions import ensure_sink_name
from laurels.flows.sources.configured import BackgroundSources
from laurels.model.validation import notation
from laurels.server.audit.auditing import Auditor
from laurels.server.auth.access import Keys
from laurels.server.auth.key_upkeep import KeyReader, store_last_used
from laurels.server.auth.opening import settle_keys
from laurels.server.flow_reports import FlowReports, ReportFile, RunningFlows
from laurels.stores.answers.answer import CacheSettings
from laurels.stores.base import Backing
from laurels.timeline.clock import Clock
from laurels.wire.keys import KeyStore
from laurels.wire.notation import json_notation
from laurels.wire.redaction import hide_folder
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

from .ports import Order, free
from .process_memory import return_free_memory
from .served import Served
from .settings import Settings

_log = structlog.get_logger("laurels")


class ServingAddress(Struct, frozen=True):
    """The address at which requests are accepted. If the store had no key, it also has the secret
    of the key that was made."""

    url: str
    first_key: str | None = None


Announce = Callable[[ServingAddress], None]


def _warn(text: str) -> None:
    _log.warning(text)


async def opened(settings: Settings, clock: str | Clock | None = None) -> Backing:
    """Open the store to serve, with its key store and audit log. From now on, error messages in
    this context, and in tasks started from it, show values as JSON."""
    notation.set(json_notation)
    for url in settings.stores:
        if (folder := config.folder_of(url)) is not None:
            hide_folder(folder)
    cache = CacheSettings(settings.cache_bytes, settings.cache_allow or None, settings.cache_deny)
    return await config.placed(
        settings.data,
        settings.placement,
        clock,
        max_clock_step=settings.max_clock_step,
        cache=cache,
        warn=_warn,
        ledgers=settings.ledgers,
    )


def warn_of(backing: Backing) -> None:
    """Log the ways in which an index server may lose counted events."""
    for risk in backing.store.risks:
        _log.warning(risk)


async def run(
    settings: Settings,
    backing: Backing,
    admin_key: str | None,
    ending: asyncio.Event,
    announce: Announce,
    order: Order | None = None,
) -> None:
    """Serve a store until `ending` is set, then close the store. With an `order` this process is
    one of several workers. Raises the errors of `serve`."""
    upkeep: list[asyncio.Task[None]] = []
    auditor: Auditor | None = None
    lb = AsyncLeaderboards(backing.store)
    try:
        store = backing.keys
        keys = await asyncio.to_thread(_keys, settings, store, admin_key)
        first_key = await asyncio.to_thread(settle_keys, settings, keys, store)
        if not keys.can_anyone_enter:
            _log.warning(
                "no key is left: all requests are refused until `laurels key create` makes one"
            )
        upkeep.append(asyncio.create_task(store_last_used(keys)))
        upkeep.append(asyncio.create_task(return_free_memory()))
        reader = None
        if backing.shared_keys is not None:
            reader = KeyReader(keys, backing.shared_keys, time.monotonic)
            upkeep.append(asyncio.create_task(reader.go_on()))
        auditor = Auditor(backing.store.audit_log, _now_ms)
        served = Served(settings, lb, backing, keys, reader, auditor, order)
        if settings.sinks or settings.sources:
            served.metrics.flows, work = await _flows(settings, lb, order)
            upkeep += map(asyncio.create_task, work)
        ip, port = free(settings) if order is None else (order.ip, order.port)
        await served.run(
            ip, port, ending, lambda address: announce(ServingAddress(address, first_key))
        )
    finally:
        for task in upkeep:
            task.cancel()
        await asyncio.gather(*upkeep, return_exceptions=True)
        if auditor is not None:
            await auditor.close()
        await lb.close()


async def _flows(
    settings: Settings, lb: AsyncLeaderboards, order: Order | None
) -> tuple[Callable[[], FlowReports], list[Coroutine[Any, Any, None]]]:
    """Return two things: a function that returns the state of the sinks and sources, and the
    coroutines that this process has to run for them. Of several workers, only the first one has
    such coroutines."""
    file = None if order is None else ReportFile(Path(order.reports), time.monotonic)
    if file is not None and order is not None and order.number > 1:
        absent = FlowReports(
            [SinkReport(name, elsewhere=True) for name in settings.sinks],
            [SourceReport(name, elsewhere=True) for name in settings.sources],
        )
        return partial(file.read, absent), []
    running = RunningFlows(_now_ms)
    for name in settings.sinks:
        await ensure_sink_name(lb, name)
    sinks = BackgroundSinks(settings.sinks, lb, _now_ms, partial(log_flow, "sink"))
    sources = BackgroundSources(
        settings.sources, lb, _now_ms, lambda: secrets.token_hex(8), partial(log_flow, "source")
    )
    running.sinks, running.sources = sinks.metrics, sources.metrics
    work: list[Coroutine[Any, Any, None]] = [sinks.run(), sources.run()]
    if file is not None:
        work.append(file.go_on(running.reports, _warn))
    return running.reports, work


def log_flow(kind: str, name: str, reason: str | Exception) -> None:
    """Log the message of a sink or source, or the error that ended it; an unexpected error with its
    traceback."""
    if isinstance(reason, Exception) and not isinstance(reason, LaurelsError):
        _log.error(kind, **{kind: name}, reason=repr(reason), exc_info=reason)
    else:
        _log.warning(kind, **{kind: name}, reason=str(reason))


def _keys(settings: Settings, store: KeyStore, admin_key: str | None) -> Keys:
    """Return the keys of the service. Blocks the thread."""
    return Keys(store, admin_key, secrets.token_bytes, _now_ms, default_rate=settings.rate)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
