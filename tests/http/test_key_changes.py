"""Several processes change keys at the same time, and streams end when their key ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import laurels
from laurels import config
from laurels.server.auth.at_rest import keys_of
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import ADMIN_KEY, JSON

from .listening import Feed, feed
from .process import WITHIN_SECONDS, Process

ADMIN = {**JSON, "authorization": f"Bearer {ADMIN_KEY}"}
STREAMS = 16
"""Enough streams for each of two workers to have some."""
PROCESSES = 3
CHANGES = """
import sys, time
from laurels.errors import Locked
from laurels.errors.service import KeysBusy
from laurels.server.auth.at_rest import keys_of

url, own, count, together = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def change(keys, number):
    while True:
        try:
            keys.create(f"{own}-{number}", "read")
            break
        except KeysBusy:
            pass
    while number % 2:
        try:
            return keys.revoke(f"{own}-{number - 1}")
        except KeysBusy:
            pass

numbers = list(range(count))
while numbers:
    try:
        with keys_of(url, print) as keys:
            for number in numbers[:together]:
                change(keys, number)
    except Locked:  # another process has the folder
        time.sleep(0.01)
    else:
        del numbers[:together]
"""


@pytest.fixture(params=["folder", "index server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "folder":
        yield str(tmp_path)
        return
    with Server() as redis:
        laurels.open(redis.url).close()
        yield redis.url


def test_no_key_is_lost_or_revived_by_processes_that_change_keys_at_once(
    store: str, scaled: Scaled
) -> None:
    count = scaled(6, 200)
    together = count if config.is_direct(store) else 1
    changing = [
        subprocess.Popen(
            [sys.executable, "-c", CHANGES, store, f"p{i}", str(count), str(together)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(PROCESSES)
    ]
    for process in changing:
        _, error = process.communicate(timeout=20 * WITHIN_SECONDS)
        assert process.returncode == 0, error
    with keys_of(store, print) as keys:
        names = {key.name for key in keys.listed()}
    assert names == {f"p{i}-{number}" for i in range(PROCESSES) for number in range(1, count, 2)}


def made(url: str, **fields: Any) -> dict[str, Any]:
    answer = httpx.post(f"{url}/v1/keys", json={"name": "game", **fields}, headers=ADMIN)
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def seconds_until_the_end(streams: list[Feed], began: float) -> float:
    """Wait until all streams have ended. Return the seconds from the wall-clock time `began` until
    then."""
    await asyncio.gather(*[stream.rest() for stream in streams])
    return time.time() - began


def test_streams_of_all_workers_end_with_their_key() -> None:
    async def end_with_key(url: str, **fields: Any) -> float:
        key = await asyncio.to_thread(made, url, **fields)
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(
                    feed(url, "/v1/boards/b/live?interval=20", key=key["key"])
                )
                for _ in range(STREAMS)
            ]
            for each in opened:
                await each.next()
            ends = time.time()
            if "seconds" in fields:
                ends = key["expires_ms"] / 1_000
            else:
                await asyncio.to_thread(httpx.delete, f"{url}/v1/keys/game", headers=ADMIN)
            return await seconds_until_the_end(opened, ends)

    with Server() as redis, Process(redis.url, "--workers", "2") as server:
        httpx.put(f"{server.url}/v1/boards/b", json={}, headers=ADMIN).raise_for_status()
        revoked = asyncio.run(end_with_key(server.url))
        expired = asyncio.run(end_with_key(server.url, seconds=10))
        print(f"streams ended {revoked:.2f} s after revocation, {expired:.2f} s after expiry")
        assert 0 <= revoked < WITHIN_SECONDS
        assert 0 <= expired < WITHIN_SECONDS
