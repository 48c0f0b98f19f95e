"""Faults of a cluster: while slots move and nodes fail, calls still reach the nodes that own their
keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from laurels.errors.index_server import IndexMoving
from laurels.stores.redis.connection.moving import slot_of

from .asking import COUNT, WITHIN_SECONDS, connected, in_the_end, refused, script
from .cluster import Cluster
from .servers import Server

KEY = b"laurels:{boards}n"
BESIDE = b"laurels:{boards}d"
TIMEOUT_MS = 1_000
MOVING_MS = 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def source_and_target(cluster: Cluster) -> tuple[Server, Server]:
    source = cluster.owner_of(KEY)
    return source, next(node for node in cluster.primaries if node is not source)


def test_a_risky_setting_of_any_node_causes_a_warning(cluster: Cluster) -> None:
    async def check() -> None:
        cluster.primaries[1].call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        cluster.primaries[1].call("CONFIG", "SET", "maxmemory", "100mb")
        try:
            async with connected(cluster.url) as connection:
                (warning,) = connection.warnings
        finally:
            cluster.primaries[1].call("CONFIG", "SET", "maxmemory", "0")
        assert str(cluster.primaries[1].port) in warning

    asyncio.run(check())


def test_calls_go_to_the_node_that_owns_the_key(cluster: Cluster) -> None:
    async def check() -> None:
        async with connected(cluster.url) as connection:
            for number in range(30):
                key = b"k{%d}" % number
                assert slot_of(key) == cluster.slot_of(key)
                assert int(await connection.script(COUNT, key, b"")) == 1
                port = b"\r\ntcp_port:%d\r\n" % cluster.owner_of(key).port
                assert port in await connection.command(b"INFO", b"server", key=key)

    asyncio.run(check())


def test_a_flushed_script_is_loaded_on_the_node_that_lacks_it(cluster: Cluster) -> None:
    async def check() -> None:
        async with connected(cluster.url) as connection:
            for expected in range(1, 4):
                for node in cluster.primaries:
                    node.call("SCRIPT", "FLUSH")
                for key in (b"f{1}", b"f{2}", b"f{3}"):
                    assert int(await connection.script(COUNT, key, b"")) == expected

    asyncio.run(check())


def test_calls_follow_a_slot_that_moves(cluster: Cluster) -> None:
    """During the move, commands succeed at any time. A script succeeds as soon as all its keys are
    on one node."""

    async def check() -> None:
        source, target = source_and_target(cluster)
        slot = cluster.slot_of(KEY)
        async with (
            connected(cluster.url, MOVING_MS) as connection,
            connected(cluster.url, 1_000 * WITHIN_SECONDS) as patient,
        ):
            count = await in_the_end(connection, KEY)
            await connection.script(COUNT, BESIDE, b"")
            cluster.begin_migration(slot, source, target)
            await refused_as_moving(connection.script(COUNT, KEY, b""))
            while cluster.move_keys(slot, source, target, 1):
                assert await connection.command(b"GET", KEY, key=KEY) == b"%d" % count
                await refused_as_moving(connection.script(COUNT, KEY, b""))
            calling = asyncio.create_task(patient.script(COUNT, KEY, b""))
            await asyncio.sleep(0.05)  # most likely, the call now waits until the slot has moved
            await asyncio.to_thread(cluster.end_migration, slot, target)
            assert int(await calling) == count + 1
            # this call is redirected (MOVED)
            assert int(await connection.script(COUNT, KEY, b"")) == count + 2
        cluster.wait_until_ok()

    asyncio.run(check())


def test_a_script_whose_keys_are_partly_moved_does_nothing(cluster: Cluster) -> None:
    """The script changes two keys, but declares only one. While only one of them has moved,
    whichever it is, the script is refused and changes neither."""

    async def check(first: bytes) -> None:
        source, target = source_and_target(cluster)
        slot = cluster.slot_of(KEY)
        both = script(
            "redis.call('INCR', KEYS[1]); return tostring(redis.call('INCR', ARGV[1]))",
        )
        async with connected(cluster.url, MOVING_MS) as connection:
            count = int(await connection.script(both, KEY, BESIDE))
            counted = [await connection.command(b"GET", key, key=key) for key in (KEY, BESIDE)]
            cluster.begin_migration(slot, source, target)
            source.call("MIGRATE", "127.0.0.1", target.port, first, 0, 5_000)
            await refused_as_moving(connection.script(both, KEY, BESIDE))
            while cluster.move_keys(slot, source, target):
                pass
            cluster.end_migration(slot, target)
            assert counted == [await connection.command(b"GET", k, key=k) for k in (KEY, BESIDE)]
            assert int(await connection.script(both, KEY, BESIDE)) == count + 1
        cluster.wait_until_ok()

    for first in (KEY, BESIDE):
        asyncio.run(check(first))


async def refused_as_moving(call: Any) -> None:
    error = await refused(call, "index_moving")
    assert (type(error), error.may_have_applied) == (IndexMoving, False)


def test_nothing_is_lost_while_a_slot_moves_during_calls(cluster: Cluster) -> None:
    async def calls(url: str, ended: asyncio.Event) -> int:
        async with connected(url) as connection:
            number = 0
            while not ended.is_set():
                await connection.script(COUNT, KEY, b"")
                number += 1
            return number

    async def check() -> None:
        ended = asyncio.Event()
        async with connected(cluster.url) as connection:
            before = await in_the_end(connection, KEY)
            calling = [asyncio.create_task(calls(cluster.url, ended)) for _ in range(3)]
            for _ in range(3):
                source, target = source_and_target(cluster)
                await asyncio.to_thread(cluster.migrate, cluster.slot_of(KEY), source, target)
                await asyncio.to_thread(cluster.wait_until_ok)
            ended.set()
            made = sum(await asyncio.wait_for(asyncio.gather(*calling), 60))
            assert made
            assert await in_the_end(connection, KEY) == before + made + 1

    asyncio.run(check())


def test_the_replica_of_a_node_that_dies_takes_its_place() -> None:
    async def check(cluster: Cluster) -> None:
        primary = cluster.owner_of(KEY)
        async with connected(cluster.url, TIMEOUT_MS) as connection:
            for _ in range(3):
                count = int(await connection.script(COUNT, KEY, b""))
            cluster.replica_of(primary).wait_until_in_step(primary)
            primary.kill()
            assert (await refused(connection.script(COUNT, KEY, b""))).may_have_applied
            assert await in_the_end(connection, KEY) in (count + 1, count + 2)
            # nodes learn of the failover one after another
            await asyncio.to_thread(cluster.wait_until_ok)
            assert cluster.owner_of(KEY) is cluster.replica_of(primary)
            await asyncio.to_thread(primary.start)
            await asyncio.to_thread(cluster.wait_until_ok)
            assert await in_the_end(connection, b"elsewhere") == 1

    with Cluster(replicas=True, timeout_ms=1_000) as cluster:
        asyncio.run(check(cluster))


def test_a_cluster_without_all_slots_refuses_calls() -> None:
    async def check(cluster: Cluster) -> None:
        lost, alive = source_and_target(cluster)
        key = next(b"%d" % n for n in range(100) if cluster.owner_of(b"%d" % n) is alive)
        async with connected(cluster.url, TIMEOUT_MS) as connection:
            await connection.script(COUNT, key, b"")
            lost.kill()
            await asyncio.to_thread(cluster.wait_until_down)
            await refused(connection.script(COUNT, key, b""))
            await asyncio.to_thread(lost.start)
            await asyncio.to_thread(cluster.wait_until_ok)
            assert await in_the_end(connection, key) == 2

    with Cluster(timeout_ms=500) as cluster:
        asyncio.run(check(cluster))
