"""One run of a server, from its start to its end."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

import structlog
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings

from laurels import config
from laurels.api.aio import AsyncLeaderboards
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
from laurels.server.auth.key_upkeep import KeyReader
from laurels.server.live.hub import Hub
from laurels.server.metrics import Metrics
from laurels.server.requests.bodies import Bodies
from laurels.server.requests.context import Server
from laurels.server.requests.deadlines import Deadlines
from laurels.server.requests.decoding import Decoder
from laurels.stores.answers.sessions import ConnectionSessions
from laurels.stores.base import Backing

from .ports import Order, SharedPort, listening
from .settings import Settings

LET_FINISH_SECONDS = 2.0
CLOSE_SECONDS = 0.5
_BACKLOG = 2_048
_log = structlog.get_logger("laurels")


class Served:
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


def _request_ids() -> Callable[[], str]:
    prefix, numbers = secrets.token_hex(4), count(1)
    return lambda: f"{prefix}-{next(numbers)}"
