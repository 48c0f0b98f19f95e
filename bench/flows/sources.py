"""Events counted per second from a stream, compared with a handwritten loop for the same client
library.

Both write to a folder in the same batches, each of which is durable together with its position.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import nats
from glide import GlideClient, GlideClientConfiguration, NodeAddress, StreamReadOptions
from nats.js.api import AckPolicy, ConsumerConfig
from tests.flows.nats_servers import NatsServer
from tests.redis.servers import Server

import laurels
from bench.workload import Batch, member_name
from laurels.flows.sources.mapping import DEFAULT
from laurels.flows.sources.opening import open_reader
from laurels.flows.sources.rejects import NoRejects
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import SourceSettings
from laurels.flows.sources.template import parse_mapping

BATCH = 1_000
STREAM, SUBJECT, KEY = "BENCH", "bench.events", "bench:events"

Loop: TypeAlias = Callable[[laurels.AsyncLeaderboards], Awaitable[None]]


class _Event(msgspec.Struct, frozen=True):
    """A message, with only the fields that the handwritten loop reads."""

    board: str
    member: str
    value: int


_decode = msgspec.json.Decoder(_Event).decode


def messages(count: int, members: int) -> list[bytes]:
    """Return messages for the members in turn."""
    return [
        msgspec.json.encode(_Event("b", member_name(i * 7_919 % members), 1 + i % 999))
        for i in range(count)
    ]


def fill_nats(server: NatsServer, count: int, members: int) -> str:
    """Publish messages to a new stream; return its address."""
    server.create(STREAM, SUBJECT)
    server.publish(SUBJECT, messages(count, members))
    return f"{server.url}/{STREAM}"


def fill_redis(server: Server, count: int, members: int) -> str:
    """Add messages to a new stream; return its address."""
    for message in messages(count, members):
        server.call("XADD", KEY, "*", "event", message)
    return f"{server.url}/0/{KEY}"


async def _timed(folder: Path, count: int, loop: Loop) -> float:
    """Return the events per second that a loop counts into a new folder."""
    async with laurels.open_async(folder) as lb:
        await lb.create(laurels.Board("b"))
        began = time.perf_counter()
        await loop(lb)
        seconds = time.perf_counter() - began
        counted = (await lb.stats("b")).offset
        if (await lb.count("b")) == 0 or not counted:
            raise RuntimeError("the loop has counted no events")
    return count / seconds


async def ours(address: str, folder: Path, count: int) -> float:
    """Return the events per second of a source that reads its stream to the end."""

    async def loop(lb: laurels.AsyncLeaderboards) -> None:
        reader = open_reader(address, sleep=asyncio.sleep, stdin=lambda _: b"", run="bench")
        runner = SourceRunner(
            lb,
            reader,
            parse_mapping(DEFAULT),
            SourceSettings("bench", batch=BATCH, until_end=True),
            rejects=NoRejects(),
            sleep=asyncio.sleep,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        try:
            await runner.run()
        finally:
            await reader.close()
        if runner.metrics.applied != count:
            raise RuntimeError(f"expected {count:,} events, the source counted {runner.metrics}")

    return await _timed(folder, count, loop)


async def by_hand_nats(server: NatsServer, folder: Path, count: int) -> float:
    """Return the events per second of a loop with a pull consumer of nats-py."""

    async def loop(lb: laurels.AsyncLeaderboards) -> None:
        client = await nats.connect(server.url)
        try:
            config = ConsumerConfig(ack_policy=AckPolicy.NONE)
            inbox = await client.jetstream().pull_subscribe(SUBJECT, stream=STREAM, config=config)
            done = 0
            while done < count:
                fetched = await inbox.fetch(BATCH)
                events: Batch = []
                for message in fetched:
                    event = _decode(message.data)
                    events.append((event.member, event.value))
                done += len(fetched)
                end = fetched[-1].metadata.sequence.stream
                await lb.submit_many("b", events, position=("hand", str(end)))
        finally:
            await client.close()

    return await _timed(folder, count, loop)


async def by_hand_redis(server: Server, folder: Path, count: int) -> float:
    """Return the events per second of a loop with XREAD of valkey-glide."""

    async def loop(lb: laurels.AsyncLeaderboards) -> None:
        address = NodeAddress("127.0.0.1", server.port)
        client = await GlideClient.create(GlideClientConfiguration([address]))
        try:
            after, done = "0-0", 0
            while done < count:
                answer = await client.xread({KEY: after}, StreamReadOptions(count=BATCH))
                [entries] = (answer or {}).values()
                events: Batch = []
                for [[_, value]] in entries.values():
                    event = _decode(value)
                    events.append((event.member, event.value))
                after = list(entries)[-1].decode()
                done += len(entries)
                await lb.submit_many("b", events, position=("hand", after))
        finally:
            await client.close()

    return await _timed(folder, count, loop)
