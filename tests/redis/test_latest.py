"""A server's list of recently changed boards is bounded. Readers learn if the list has lost
entries."""

from __future__ import annotations

import asyncio

import laurels
from laurels.stores.redis.index.latest import LatestOnServer
from tests.redis.asking import connected
from tests.redis.servers import Server


def test_only_the_latest_changed_boards_are_listed(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as connection:
            latest = LatestOnServer(connection, "bounded:", most=3)
            assert await latest.since(None) == (0, None)
            assert await latest.since(0) == (0, [])
            for board in (7, 8, 9, 10, 11):
                latest.note(board)
                await latest.finish()
            assert await latest.since(5) == (5, [])
            assert await latest.since(3) == (5, [10, 11])
            assert await latest.since(2) == (5, [9, 10, 11])
            assert await latest.since(1) == (5, None)
            assert await latest.since(6) == (5, None)
            latest.note(9)
            await latest.finish()
            assert await latest.since(3) == (6, [10, 11, 9])

    asyncio.run(main())


def test_boards_that_change_together_share_one_note(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url) as connection:
            latest = LatestOnServer(connection, "together:")
            for board in (1, 2, 3, 2):
                latest.note(board)
            await latest.finish()
            newest, boards = await latest.since(0)
            assert (newest, sorted(boards or ())) == (1, [1, 2, 3])

    asyncio.run(main())


def test_a_note_reaches_the_server_before_its_writer_closes(server: Server) -> None:
    url = f"{server.url}?prefix=closing:"
    with laurels.open(url) as reader:
        with laurels.open(url) as lb:
            lb.create(laurels.Board("b", changes="1h"))
            lb.create(laurels.Board("plain"))
        cursor = reader.changed_boards().cursor
        with laurels.open(url) as lb:
            lb.submit("b", "ann", 1)
            lb.submit("plain", "ann", 1)
        assert reader.changed_boards(cursor).boards == ["b"]
