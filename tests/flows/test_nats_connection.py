"""A call that waits for a NATS server fails as soon as the connection is lost."""

from __future__ import annotations

import asyncio

import pytest

from laurels.flows.nats_connection import NatsConnection

from .databases import Nats

SECONDS = 3_600


def test_a_request_fails_once_the_connection_is_lost() -> None:
    async def main() -> None:
        with Nats() as broker:
            connection = NatsConnection()
            client = await connection.open(broker.url, 5)
            asked = asyncio.Event()

            async def ask(_: object) -> None:
                asked.set()

            await client.subscribe("question", cb=ask)

            async def request() -> None:
                async with connection.waiting():
                    await client.request("question", timeout=SECONDS)

            waiting = asyncio.create_task(request())
            await asked.wait()
        with pytest.raises(ConnectionError):
            await waiting
        with pytest.raises(ConnectionError):
            async with connection.waiting():
                await asyncio.Event().wait()
        await client.close()

    asyncio.run(main())


def test_a_timeout_of_a_call_stays_one() -> None:
    async def main() -> None:
        async with NatsConnection().waiting():
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        asyncio.run(main())
