"""Keys are read periodically. If the server stops during a read, the error of the read is not
reported."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from laurels.errors import Closed
from laurels.server.auth.key_upkeep import KeyReader


class Closing:
    """A key store whose read fails because its connection is closed."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.closed = asyncio.Event()

    async def version(self) -> str:
        self.requested.set()
        await self.closed.wait()
        raise Closed("the connection to the index server is closed")


def test_the_error_of_an_abandoned_read_is_not_reported() -> None:
    contexts: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: contexts.append(context)
        )
        store = Closing()
        reader = KeyReader(None, store, lambda: 0.0)  # type: ignore[arg-type]
        waiting = asyncio.create_task(reader.read())
        await store.requested.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        store.closed.set()
        while reader._reading is not None and not reader._reading.done():
            await asyncio.sleep(0)
        del reader, waiting
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert contexts == []


def test_the_waiter_of_a_read_gets_its_error() -> None:
    async def main() -> None:
        store = Closing()
        store.closed.set()
        with pytest.raises(Closed):
            await KeyReader(None, store, lambda: 0.0).read()  # type: ignore[arg-type]

    asyncio.run(main())
