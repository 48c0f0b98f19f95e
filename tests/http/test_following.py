"""A hub asks the store for writes of other processes, but only on boards that clients are
watching."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import laurels
from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.errors import NotReady
from laurels.server.live.channel import WatchedList
from laurels.server.live.hub import FOLLOW_SECONDS, Hub
from tests.internals import local


class Watched:
    """A hub with a clock that only the tests advance. `requested` has the sets of boards whose
    changes the hub has requested."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self.requested: list[set[str]] = []
        self.away = False
        self.seconds = 100.0
        self.failed: list[BaseException] = []
        self.hub = Hub(
            lb,
            local(lb).change_token,
            epoch="e",
            clock=lambda: self.seconds,
            failed=self.failed.append,
            follow=self._follow,
        )

    async def _follow(self, boards: Collection[str]) -> None:
        self.requested.append(set(boards))
        if self.away:
            raise NotReady("the index server is unavailable")

    async def look(self, seconds: float) -> list[set[str]]:
        """Let this much time pass. Return the sets of boards for whose changes the hub asked."""
        self.seconds += seconds
        self.requested = []
        await self.hub._read_slice()
        return self.requested


def test_all_watched_boards_are_followed_by_one_call_per_interval() -> None:
    async def main() -> None:
        service = config.connect("memory:", None, create=True)
        async with AsyncLeaderboards(service) as lb:
            for name in "abc":
                await lb.create(laurels.Board(name))
            watched = Watched(lb)
            assert await watched.look(10) == []
            streams = [
                await watched.hub.watch(WatchedList(board, None, limit, 20), None)
                for board, limit in (("a", 1), ("a", 2), ("b", 1))
            ]
            for stream in streams:
                await anext(stream)
            assert await watched.look(1) == [{"a", "b"}]
            assert await watched.look(FOLLOW_SECONDS / 2) == []
            assert await watched.look(FOLLOW_SECONDS) == [{"a", "b"}]
            for stream in streams:
                await stream.aclose()
            assert await watched.look(10) == []

    asyncio.run(main())


def test_streams_wait_while_the_store_cannot_report_changes() -> None:
    async def main() -> None:
        service = config.connect("memory:", None, create=True)
        async with AsyncLeaderboards(service) as lb:
            await lb.create(laurels.Board("a"))
            watched = Watched(lb)
            stream = await watched.hub.watch(WatchedList("a", None, 1, 20), None)
            assert b"retry" in await anext(stream)
            assert b"event: top" in await anext(stream)
            watched.away = True
            await watched.look(1)
            watched.away = False
            await lb.submit("a", "ann", 1)
            await watched.look(1)
            assert b"event: change" in await anext(stream)
            assert watched.failed == []
            await stream.aclose()

    asyncio.run(main())
