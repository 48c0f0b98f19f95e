"""The server: a store, the application over it, and the process that runs them until it is
stopped."""

import asyncio
import logging
import secrets
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import structlog
import uvloop
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from msgspec import Struct

from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.errors import LaurelsError
from laurels.flows.sinks.configured import BackgroundSinks
from laurels.flows.sinks.positions import ensure_sink_name
from laurels.flows.sources.configured import BackgroundSources
from laurels.model.validation import notation
from laurels.server.admission.client_address import ClientAddresses
from laurels.server.admission.connections import (
    ConnectionGuard,
    allowed_connections,
    raise_descriptor_limit,
)
from laurels.server.admission.limits import AdmissionControl, Rates
from laurels.server.answers.hot_keys import HotKeys
from laurels.server.app import Application
from laurels.server.audit.auditing import Auditor
from laurels.server.auth.access import Keys
from laurels.server.auth.key_upkeep import KeyReader, store_last_used
from laurels.server.auth.opening import ensure_possible, settle_keys
from laurels.server.flow_reports import FlowReports, ReportFile, RunningFlows
from laurels.server.live.hub import Hub
from laurels.server.metrics import Metrics
from laurels.server.requests.bodies import Bodies
from laurels.server.requests.context import Server
from laurels.server.requests.deadlines import Deadlines
from laurels.server.requests.decoding import Decoder
from laurels.stores.answers.answer import CacheSettings
from laurels.stores.answers.sessions import ConnectionSessions
from laurels.stores.base import Backing
from laurels.timeline.clock import Clock
from laurels.wire.keys import KeyStore
from laurels.wire.notation import json_notation
from laurels.wire.redaction import hide_folder
from laurels.wire.sinks import SinkReport
from laurels.wire.sources import SourceReport

from .ports import Order, SharedPort, free, listening
from .process_memory import return_free_memory, settle_collector, share_arenas
from .settings import Settings
from .standard_log import forward_library_log

LET_FINISH_SECONDS = 2.0
CLOSE_SECONDS = 0.5
_BACKLOG = 2_048
_log = structlog.get_logger("laurels")


class ServingAddress(Struct, frozen=True):
    """The address at which requests are accepted. If the store had no key, it also has the secret
    of the key that was made."""

    url: str
    first_key: str | None = None


Announce = Callable[[ServingAddress], None]


def serve(settings: Settings, admin_key: str | None, announce: Announce) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. `announce` is called with the
    address as soon as requests are accepted.

    Raises NotLoopback, KeysNeeded, AddressInUse, InvalidKey and errors of opening the store.
    """
    settle_log(settings)
    ensure_possible(settings, admin_key)
    if settings.workers > 1:
        from .workers import oversee  # noqa: PLC0415 (workers import this module)

        return oversee(settings, admin_key, announce)
    uvloop.run(_serve(settings, admin_key, announce))
    return 0


async def _serve(settings: Settings, admin_key: str | None, announce: Announce) -> None:
    share_arenas()
    backing = await opened(settings)
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    warn_of(backing)
    settle_collector()
    await run(settings, backing, admin_key, ending, announce)


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
        served = _Served(settings, lb, backing, keys, reader, auditor, order)
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


class _Served:
    """One run of a server, from its start to its end."""

    def __init__(
        self,
        settings: Settings,
        lb: AsyncLeaderboards,
        backing: Backing,
        keys: Keys,
        reader: KeyReader | None,
        auditor: Auditor,
        order: Order | None,
    ) -> None:
        self._settings = settings
        store = backing.store
        self._admission = AdmissionControl(
            settings.max_writes,
            settings.max_streams,
            settings.streams_per_key,
            settings.streams_per_token,
        )
        self._deadlines = Deadlines(time.monotonic)
        bodies = Bodies(
            max(settings.max_bodies, 2 * settings.max_body), settings.body_seconds, self._deadlines
        )
        self._decoder = Decoder()
        self.metrics = Metrics(time.time)
        store.observe(self.metrics.committed, time.perf_counter)
        backing.answers.observe(self.metrics.answered_at_age)
        self._hub = Hub(
            lb,
            store.change_token,
            epoch=secrets.token_hex(4),
            clock=time.monotonic,
            failed=lambda error: _log.error("live feed failed", exc_info=error),
            follow=None if store.is_exact else store.follow,
        )
        self._app = Application(
            Server(
                lb,
                store,
                settings,
                keys,
                self._admission,
                self._deadlines,
                bodies,
                self._decoder,
                self._hub,
                self.metrics,
                auditor,
                backing.answers,
                ConnectionSessions(backing.answers.moment),
                HotKeys(time.monotonic),
                HotKeys(time.monotonic),
                backing.mover if order is None else None,
            ),
            Rates(settings.rate, settings.burst, time.monotonic),
            _request_ids(),
            time.perf_counter,
            None if reader is None else reader.read,
            None if order is None else order.number,
        )

    async def run(
        self, ip: str, port: int, ending: asyncio.Event, announce: Callable[[str], None]
    ) -> None:
        """Accept requests at an address until `ending` is set."""
        most = self._most_connections()
        server = SharedPort(
            self._app,
            address=ip,
            port=port,
            interface=Interfaces.RSGI,
            backlog=_BACKLOG,
            backpressure=most,
            http=HTTPModes.http1,
            http1_settings=HTTP1Settings(
                header_read_timeout=1_000 * self._settings.idle_seconds,
                max_buffer_size=self._settings.max_headers,
            ),
            websockets=False,
            log_enabled=False,
        )
        # This is longer than the time limit of streams. So a stream that is not read is cut off by
        # this server, which counts it, before the kernel closes the connection.
        server.unread_seconds = 3 * self._settings.stall_seconds
        address = f"http://{_written_host(self._settings.host)}:{port}"
        serving = asyncio.create_task(server.serve())
        await listening(server, ip, port, serving)
        with ExitStack() as stack:
            for url in self._settings.stores:
                stack.enter_context(config.announced(url, address))
            announce(address)
            most_each = max(1, min(self._settings.connections_per_address, most // 2))
            proxies = ClientAddresses(self._settings.trusted_proxy)
            guard = ConnectionGuard(port, most_each, proxies.is_proxy, _log_closed)
            watching = [
                asyncio.create_task(self._deadlines.watch()),
                asyncio.create_task(guard.watch()),
            ]
            ended = asyncio.create_task(ending.wait())
            await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
            await self._finish()
            for watcher in watching:
                watcher.cancel()
            self._decoder.close()
            server.stop()  # type: ignore[no-untyped-call]
            await asyncio.wait([serving], timeout=CLOSE_SECONDS)
            if serving.done():
                await serving
            else:  # the server reports a request that was cut off half-way; that is expected here
                asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def _most_connections(self) -> int:
        """Return the maximum number of connections. If it is lower than configured, log this."""
        wanted = self._settings.max_connections
        descriptors = raise_descriptor_limit()
        most = allowed_connections(wanted, descriptors)
        if most < wanted:
            _log.warning(
                f"the descriptor limit of {descriptors:,} allows {most:,} connections, "
                f"not the {wanted:,} of max_connections: raise it with `ulimit -n` or LimitNOFILE"
            )
        return most

    async def _finish(self) -> None:
        """End streams, refuse further writes, and wait for the requests in progress."""
        self._admission.stopping = True
        self._hub.stop()
        deadline = time.monotonic() + LET_FINISH_SECONDS
        while (self._admission.writes or self._admission.streams) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.02)  # wait a little, so that the last answers are sent


def _log_closed(address: str, count: int) -> None:
    _log.warning("connections closed: too many of one address", address=address, count=count)


def _written_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _request_ids() -> Callable[[], str]:
    prefix, numbers = secrets.token_hex(4), count(1)
    return lambda: f"{prefix}-{next(numbers)}"


def _escape(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters in texts from callers. They could forge a line of the log or move
    the cursor of a terminal."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = "".join([c if c.isprintable() else repr(c)[1:-1] for c in value])
    return event


def settle_log(settings: Settings) -> None:
    """Configure the log on standard error, in a form for people or for programs. A traceback shows
    lines of code but never the values of variables, which may be keys or very long."""
    shape: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _escape,
    ]
    if settings.log_format == "json":
        traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        shape += [
            structlog.processors.ExceptionRenderer(traceback),
            structlog.processors.JSONRenderer(),
        ]
    else:
        shape += [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=shape,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    forward_library_log()
