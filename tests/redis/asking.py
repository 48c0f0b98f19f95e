"""Connections to a server within a `with` block, and the scripts that tests run over them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.connection.connection import Connection, connect, redis_address
from laurels.stores.redis.scripts import Script

PATIENCE_MS = 10_000
WITHIN_SECONDS = 60


def script(source: str) -> Script:
    return Script(name="test", source=source, sha=hashlib.sha1(source.encode()).hexdigest())


COUNT = script("return tostring(redis.call('INCR', KEYS[1]))")
"""A script that returns how many times it has run for its key."""

ENDLESS = script("while true do end")


@asynccontextmanager
async def connected(url: str, timeout_ms: int = PATIENCE_MS) -> AsyncIterator[Connection]:
    connection = await connect(redis_address(url), timeout_ms=timeout_ms)
    try:
        yield connection
    finally:
        await connection.close()


async def refused(call: Any, code: str = "index_unavailable") -> IndexUnavailable:
    """Return the retryable error with which a call fails within the time limit."""
    with pytest.raises(IndexUnavailable) as caught:
        await asyncio.wait_for(call, WITHIN_SECONDS)
    error = caught.value
    assert (error.code, error.status, error.retryable) == (code, 503, True)
    return error


async def in_the_end(connection: Connection, key: bytes, seconds: float = WITHIN_SECONDS) -> int:
    """Return the answer of COUNT. While the call fails with a retryable error, repeat it."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                return int(await connection.script(COUNT, key, b""))
            except IndexUnavailable:
                await asyncio.sleep(0.02)
