"""Streams of changes and exports: the hub does their work in slices, and charges the work for a
stream to the subject of this stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

import laurels
from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.core.changes.answers import ChangePage
from laurels.core.query import ListQuery, Query
from laurels.errors.service import Stopping
from laurels.server.auth.caller import Caller
from laurels.server.live import change_stream
from laurels.server.live.change_stream import ChangeStream
from laurels.server.live.channel import WatchedList
from laurels.server.live.frames import END
from laurels.server.live.hub import SLICE_COST, Hub
from laurels.server.requests.context import RequestContext, Streamed
from laurels.server.verbs import streams
from laurels.wire.queries import parameters_of
from tests.calendar_by_scanning import utc_ms
from tests.internals import local

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
MANY = 40


class Counted:
    """A store that counts the pages that others read from it."""

    is_exact = True

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._store = local(lb)
        self.pages = 0

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        return self._store.change_token(board)

    async def changes_async(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        self.pages += 1
        return await self._store.changes_async(board, after, limit, initial=initial)

    async def ask_async(self, board: str, query: Query[Any]) -> Any:
        self.pages += 1
        return await self._store.ask_async(board, query)


class Turns:
    """A hub over a board that keeps its changes. Tests run the hub's slices one by one."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self.lb = lb
        self.store = Counted(lb)
        self.seconds = 0.0
        self.hub = Hub(
            lb,
            self.store.change_token,
            epoch="e",
            clock=lambda: self.seconds,
            failed=_raise,
        )

    def changes(self, payer: str = "greedy") -> ChangeStream:
        return ChangeStream(self.hub, cast(Any, self.store), "b", payer, shows_reasons=True)

    async def export(self, payer: str = "greedy") -> AsyncGenerator[bytes, None]:
        server = cast(Any, SimpleNamespace(hub=self.hub, store=self.store))
        context = RequestContext(server, Caller(payer, 1, key_id=payer), "b")
        answered = await streams.export(context, parameters_of(ListQuery)())
        assert isinstance(answered, Streamed)
        return answered.parts

    async def step(self) -> int:
        """Run one slice; return how many pages it read."""
        before = self.store.pages
        self.seconds += 1
        await self.hub._read_slice()
        await asyncio.sleep(0)
        return self.store.pages - before

    async def is_served_next(self) -> bool:
        """Begin a stream for another subject. Return whether the next slice serves that subject."""
        watching = asyncio.create_task(self.hub.watch(WatchedList("b", None, 3, 20), None, "other"))
        await asyncio.sleep(0)
        await self.step()
        is_served = watching.done()
        await (await watching).aclose()
        return is_served


def _raise(error: BaseException) -> None:
    raise error


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hub, "_start", lambda _: None)
    monkeypatch.setattr(change_stream, "PAUSE_SECONDS", 0)


def run(scenario: Any) -> None:
    async def main() -> None:
        store = config.connect("memory:", laurels.ManualClock(NOW_MS), create=True)
        async with AsyncLeaderboards(store) as lb:
            await lb.create(laurels.Board("b", changes="1h"))
            await lb.submit_many("b", [(f"m{i}", i) for i in range(1_500)])
            await asyncio.wait_for(scenario(Turns(lb)), 60)

    asyncio.run(main())


def test_pages_of_changes_are_read_in_turns() -> None:
    async def scenario(turns: Turns) -> None:
        most = SLICE_COST // (change_stream.CHANGE_COST * change_stream.STREAM_PAGE) + 1
        many = [turns.changes() for _ in range(MANY)]
        opening = [asyncio.create_task(each.begin(None, initial=False)) for each in many]
        await asyncio.sleep(0)
        assert turns.store.pages <= most
        assert await turns.is_served_next()
        while not all(each.done() for each in opening):
            assert await turns.step() <= most

    run(scenario)


def test_new_changes_are_read_in_turns() -> None:
    async def scenario(turns: Turns) -> None:
        many = [turns.changes() for _ in range(MANY)]
        for each in many:
            opening = asyncio.create_task(each.begin("now", initial=False))
            while not opening.done():
                await turns.step()
        frames = [each.frames() for each in many]
        for stream in frames:
            assert (await anext(stream)).startswith(b"retry")
        coming = [asyncio.create_task(_next(stream)) for stream in frames]
        await asyncio.sleep(0)
        before = turns.store.pages
        assert await turns.step() == 0, "no page is read while nothing changes"
        await turns.lb.submit_many("b", [(f"m{i}", 1) for i in range(1_000)])
        await turns.step()
        assert await turns.is_served_next()
        while not all(each.done() for each in coming):
            await turns.step()
        assert turns.store.pages - before == MANY
        for page in coming:
            document = json.loads(page.result().decode().split("data: ")[1])
            assert len(document["changes"]) == change_stream.STREAM_PAGE
        turns.hub.stop()
        for stream in frames:
            assert [frame async for frame in stream] == [END]
        assert not turns.hub._waits

    run(scenario)


def test_exports_are_read_in_turns() -> None:
    async def scenario(turns: Turns) -> None:
        most = SLICE_COST // streams.EXPORT_COST + 1
        opening = [asyncio.create_task(turns.export()) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert turns.store.pages <= most
        assert await turns.is_served_next()
        while not all(each.done() for each in opening):
            assert await turns.step() <= most
        for each in opening:
            reading = asyncio.create_task(_whole(each.result()))
            while not reading.done():
                await turns.step()
            assert reading.result() == 1_500

    run(scenario)


def test_streams_that_wait_for_their_turn_are_refused_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()

    async def scenario(turns: Turns) -> None:
        opening = [asyncio.create_task(turns.export()) for _ in range(MANY)]
        await asyncio.sleep(0)
        turns.hub.stop()
        ended = await asyncio.gather(*opening, return_exceptions=True)
        assert any(isinstance(each, Stopping) for each in ended)

    run(scenario)


async def _next(frames: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(frames)


async def _whole(parts: AsyncGenerator[bytes, None]) -> int:
    return sum([part.count(b"\n") async for part in parts])
