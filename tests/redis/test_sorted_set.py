"""A plain sorted set of Redis is read in shares."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from laurels.errors.index_server import IndexFailed
from laurels.stores.redis.connection.sorted_set import BEGINNING, SortedSet

from .asking import connected
from .servers import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        server.call("ZADD", "small", "3.2", "ann", "-inf", b"\xff", "1e17", "")
        flat = [part for number in range(5_000) for part in (str(number / 8), f"m{number}")]
        server.call("ZADD", "large", *flat)
        server.call("HSET", "hash", "ann", "{}", b"\xff", b"\xfe")
        yield server


def test_a_small_set_is_read_at_once(server: Server) -> None:
    async def scenario() -> None:
        async with connected(server.url) as connection:
            scanned = await SortedSet(connection, b"small").scan(BEGINNING, 1)
        assert scanned.cursor == BEGINNING
        assert dict(scanned.entries) == {b"ann": 3.2, b"\xff": float("-inf"), b"": 1e17}

    asyncio.run(scenario())


def test_a_large_set_is_read_in_shares(server: Server) -> None:
    async def scenario() -> None:
        async with connected(server.url) as connection:
            large = SortedSet(connection, b"large")
            scanned, cursor, shares = dict[bytes, float](), BEGINNING, 0
            while shares == 0 or cursor != BEGINNING:
                entries, cursor = await large.scan(cursor, 100)
                assert len(entries) < 300
                scanned |= dict(entries)
                shares += 1
            assert await large.size() == 5_000
        assert scanned == {b"m%d" % number: number / 8 for number in range(5_000)}
        assert shares > 10

    asyncio.run(scenario())


def test_scores_and_fields_of_members_are_read(server: Server) -> None:
    async def scenario() -> None:
        async with connected(server.url) as connection:
            small = SortedSet(connection, b"small")
            assert await small.scores([b"ann", b"nobody", b"\xff"]) == [3.2, None, float("-inf")]
            assert await small.scores([]) == []
            assert await small.fields(b"hash", [b"ann", b"x", b"\xff"]) == [b"{}", None, b"\xfe"]
            many = [b"m%d" % number for number in range(2_500)]
            assert await small.fields(b"hash", many) == [None] * 2_500

    asyncio.run(scenario())


def test_the_kind_of_a_key_is_detected(server: Server) -> None:
    async def scenario() -> None:
        async with connected(server.url) as connection:
            kinds = [
                await SortedSet(connection, b"small").kind(key) for key in (b"small", b"hash", b"x")
            ]
            assert kinds == ["zset", "hash", "none"]
            with pytest.raises(IndexFailed, match="WRONGTYPE"):
                await SortedSet(connection, b"hash").scan(BEGINNING, 1)

    asyncio.run(scenario())


def test_each_start_of_a_server_is_recognized() -> None:
    async def scenario() -> None:
        with Server() as server:
            async with connected(server.url) as connection:
                first = await SortedSet(connection, b"k").process()
                assert first
                assert await SortedSet(connection, b"k").process() == first
            server.restart()
            async with connected(server.url) as connection:
                assert await SortedSet(connection, b"k").process() not in ("", first)

    asyncio.run(scenario())
