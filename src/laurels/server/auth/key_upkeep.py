"""Background work for the keys: read changes made by other processes, and store the time of each
key's last use."""

import asyncio
from collections.abc import Callable

from laurels.errors import LaurelsError
from laurels.wire.keys import SharedKeyStore

from .access import Keys

POLL_SECONDS = 0.25
"""How often the version of the stored keys is read, in seconds. This version changes with the keys,
so every process refuses a revoked key, and has ended its streams, within a second."""
RELOAD_SECONDS = 5.0
"""How often the keys are read, in seconds, even if their version is unchanged, since older releases
of laurels do not change the version."""
STALE_SECONDS = 5.0
"""The number of seconds after the last successful read during which the keys are still accepted."""
USED_SECONDS = 60.0


class KeyReader:
    """Reloads the keys that are stored on an index server. `clock` returns seconds."""

    def __init__(self, keys: Keys, store: SharedKeyStore, clock: Callable[[], float]) -> None:
        self._keys = keys
        self._store = store
        self._clock = clock
        self._version: str | None = None
        self._loaded_at = -RELOAD_SECONDS
        self._read_at = clock()
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> None:
        """Read the keys if they have changed. Callers that wait at the same time share one read."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(_take_error)
        await asyncio.shield(self._reading)

    async def go_on(self) -> None:
        """Read the keys periodically. If reading fails for `STALE_SECONDS`, the keys are no longer
        accepted."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.read()
            except LaurelsError:
                self._keys.is_stale = self._clock() - self._read_at > STALE_SECONDS

    async def _read(self) -> None:
        began = self._clock()
        version = await self._store.version()
        if version != self._version or began - self._loaded_at >= RELOAD_SECONDS:
            await self._load()
            self._loaded_at = began
        self._read_at = began
        self._keys.is_stale = False

    async def _load(self) -> None:
        while True:
            before = self._keys.version
            version, stored = await self._store.load()
            # Read again if this process has changed the keys during the read.
            if before == self._keys.version:
                self._keys.take(stored)
                self._version = version
                return


def _take_error(reading: asyncio.Task[None]) -> None:
    """Mark the error of a read as retrieved, so that asyncio does not report it if no task waits
    for the read. That may happen when the server ends and closes its connection during a read. A
    task that does wait still gets the error."""
    if not reading.cancelled():
        reading.exception()


async def store_last_used(keys: Keys) -> None:
    """Store the times at which keys were last used, once a minute and at the end."""
    try:
        while True:
            await asyncio.sleep(USED_SECONDS)
            await asyncio.to_thread(keys.store_last_used)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.to_thread(keys.store_last_used))
        raise
