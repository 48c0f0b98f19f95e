"""A service in a process of its own, whose clocks and late answers a test controls:
`python -m tests.redis.hot_service URL CLOCKS PORT`.

It prints its address. After it has read the line `hold`, it delays the next answer of the index
server to a query. When this answer has arrived, the program prints `held`. The service gets the
answer after the line `release`. The program ends when its input ends.
"""

from __future__ import annotations

import asyncio
import mmap
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from laurels.config import index_server
from laurels.server.process import serving
from laurels.server.process.settings import Settings
from tests.serving import ADMIN_KEY


class SharedClocks:
    """Two clocks in a file that several processes share: the time of the boards in milliseconds,
    and a clock of ages in nanoseconds. Only tests move them."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._numbers = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")

    @classmethod
    def create(cls, path: Path, now_ms: int) -> SharedClocks:
        path.write_bytes(bytes(16))
        clocks = cls(path)
        clocks._numbers[0] = now_ms
        return clocks

    def now_ms(self) -> int:
        return self._numbers[0]

    def elapsed_ns(self) -> int:
        return self._numbers[1]

    def advance(self, ms: int) -> None:
        """Move both clocks."""
        self._numbers[0] += ms
        self._numbers[1] += ms * 1_000_000

    def set_now(self, now_ms: int) -> None:
        """Move only the time of the boards."""
        self._numbers[0] = now_ms


class Gate:
    """Delays chosen answers of an index on their way to the store."""

    def __init__(self, index: Any) -> None:
        self._read = index.read
        index.read = self._delayed
        self._holds_next = False
        self._released = asyncio.Event()

    def follow(self, order: str) -> None:
        """Carry out a line of the input."""
        if order == "hold":
            self._holds_next, self._released = True, asyncio.Event()
        else:
            self._holds_next = False
            self._released.set()

    async def _delayed(self, opened: Any, requests: Sequence[Any], **options: Any) -> Any:
        is_held, released = self._holds_next and bool(requests), self._released
        if is_held:
            self._holds_next = False
        reading = await self._read(opened, requests, **options)
        if is_held:
            print("held", flush=True)
            await released.wait()
        return reading


async def main(url: str, path: str, port: str) -> None:
    clocks = SharedClocks(Path(path))
    opening: Any = index_server
    opening.boot_ns = clocks.elapsed_ns
    settings = Settings(data=url, port=int(port))
    backing = await serving.opened(settings, clocks)
    store: Any = backing.store
    # Without background work, a service learns of changes only by requests.
    store.start = lambda: None
    gate = Gate(store._catalog.index)
    ending, loop = asyncio.Event(), asyncio.get_running_loop()

    def read_orders() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(gate.follow, line.strip())
        loop.call_soon_threadsafe(ending.set)

    threading.Thread(target=read_orders, daemon=True).start()
    await serving.run(
        settings, backing, ADMIN_KEY, ending, lambda address: print(address.url, flush=True)
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
