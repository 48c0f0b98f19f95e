"""Several processes change the definition of a board. None of them overwrites a version that it has
not read."""

from __future__ import annotations

import asyncio

import pytest

from laurels.core.board_record import BoardRecord
from laurels.errors import UnknownBoard
from laurels.model.board import Board
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.index.definitions import FORMAT, RedisDefinitions
from laurels.stores.redis.index.everywhere import RedisEverywhere
from laurels.stores.redis.registry import Registry
from laurels.timeline.instants import MIN_MS
from tests.redis.asking import connected
from tests.redis.servers import Server

PREFIX = "laurels:"


def registry_at(connection: Connection, prefix: str) -> Registry:
    return Registry(RedisDefinitions(connection, prefix), RedisEverywhere(connection, prefix))


def record(board: Board, number: int, version: int = 1) -> BoardRecord:
    return BoardRecord(number, board.to_json(), version, 5, {}, {}, MIN_MS)


def test_a_definition_is_replaced_only_if_it_is_the_version_read(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as connection:
            one = RedisDefinitions(connection, f"{PREFIX}a:")
            assert await one.load() == ({}, 1)
            assert not await one.put("b", b"old", b"new", None)
            assert not await one.put("b", None, b"new", 2)
            assert await one.put("b", None, b"\xff\x00", 1)
            assert not await one.put("b", None, b"again", 2)
            assert await one.put("b", b"\xff\x00", b"new", None)
            assert await one.load() == ({"b": b"new"}, 2)
            assert await one.put("b", b"new", None, None)
            assert await one.load() == ({}, 2)
            assert await one.note("clock") is None
            assert await one.first_note("clock", "event") == "event"
            assert await one.first_note("clock", "system") == "event"
            assert await one.note("clock") == "event"

    asyncio.run(main())


def test_only_one_of_two_processes_creates_a_board(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as first, connected(server.url) as second:
            registries = [registry_at(connection, f"{PREFIX}b:") for connection in (first, second)]
            board = Board("gifts", windows=["all", "day"])
            done = await asyncio.gather(
                *[registry.create(record(board, 1), "gifts") for registry in registries]
            )
            assert sorted(done) == [False, True]
            for registry in registries:
                state = registry.boards.named("gifts")
                assert (state.number, state.board, state.created_ms) == (1, board, 5)
                assert registry.boards.next_number == 2

    asyncio.run(main())


def test_a_change_by_another_process_is_read_and_an_outdated_one_refused(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as first, connected(server.url) as second:
            here, there = (registry_at(connection, f"{PREFIX}c:") for connection in (first, second))
            assert await here.create(record(Board("b"), 1), "b")
            await there.load()
            changed = Board("b", windows=["all", "day"])
            assert await there.change(there.boards.named("b"), record(changed, 1, version=2))
            assert not await here.change(here.boards.named("b"), record(Board("b"), 1, version=2))
            assert here.boards.named("b").board == changed
            assert await here.delete(here.boards.named("b"))
            assert not await there.delete(there.boards.named("b"))
            for registry in (here, there):
                with pytest.raises(UnknownBoard):
                    registry.boards.named("b")
                assert registry.boards.next_number == 2

    asyncio.run(main())


def test_of_formats_that_are_required_at_once_the_newest_is_stored(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as connection:
            for i in range(10):
                prefix = f"{PREFIX}format{i}:"
                required = (FORMAT, *range(1, FORMAT))
                each = [RedisDefinitions(connection, prefix) for _ in required]
                await asyncio.gather(*map(RedisDefinitions.require_format, each, required))
                assert await each[0].note("format") == str(FORMAT)
                await each[1].require_format(2)
                assert await each[0].note("format") == str(FORMAT)

    asyncio.run(main())
