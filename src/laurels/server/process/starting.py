"""Starting the service: in this process, or in several workers."""

import asyncio
import signal

import uvloop

from laurels.server.auth.opening import ensure_possible

from .process_memory import settle_collector, share_arenas
from .service_log import settle_log
from .serving import Announce, opened, run, warn_of
from .settings import Settings
from .workers import oversee


def serve(settings: Settings, admin_key: str | None, announce: Announce) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. `announce` is called with the
    address as soon as requests are accepted.

    Raises NotLoopback, KeysNeeded, AddressInUse, InvalidKey and errors of opening the store.
    """
    settle_log(settings)
    ensure_possible(settings, admin_key)
    if settings.workers > 1:
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
