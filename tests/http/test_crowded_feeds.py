"""Many live feeds at once: they cost little, and those of one subject do not delay others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

import laurels
from laurels.api.aio import AsyncLeaderboards
from laurels.errors.service import Stopping
from laurels.server.live.channel import WatchedList
from laurels.server.live.hub import SLICE_COST, Hub
from tests.http.test_feed import LIMIT, Watched, _by_hand, _raise, run_over
from tests.internals import local

__all__ = ["_by_hand"]


class CountedLists:
    """The boards of a hub. They count the entries, lists and change tokens that the hub reads."""

    def __init__(self, lb: AsyncLeaderboards) -> None:
        self._lb = lb
        self.entries = 0
        self.lists = 0
        self.tokens = 0

    async def top(self, *args: Any, **kwargs: Any) -> laurels.Page:
        page = await self._lb.top(*args, **kwargs)
        self.entries += len(page.entries)
        self.lists += 1
        return page

    def change_token(self, board: str) -> tuple[int, int, int, bool]:
        self.tokens += 1
        return local(self._lb).change_token(board)


class Crowded(Watched):
    """A hub with a board of 1,000 members, and many lists that one subject watches. The hub's reads
    are counted."""

    def __init__(self, lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        super().__init__(lb, clock)
        self.counted = CountedLists(lb)
        self.hub = Hub(
            cast(Any, self.counted),
            self.counted.change_token,
            epoch="e",
            clock=lambda: self.seconds,
            failed=_raise,
        )

    async def begin(self, limits: range) -> list[asyncio.Task[AsyncGenerator[bytes, None]]]:
        """Begin to open a stream for each limit, all for the subject "greedy". The streams may have
        to wait for their first lists."""
        events = [(f"m{i}", i) for i in range(1_000)]
        await self.lb.submit_many("b", events)
        opening = [
            asyncio.create_task(self.hub.watch(WatchedList("b", None, limit, 20), None, "greedy"))
            for limit in limits
        ]
        await asyncio.sleep(0)
        return opening

    async def open(self, limits: range) -> list[AsyncGenerator[bytes, None]]:
        """Open a stream for each limit, and receive the first lists."""
        opening = await self.begin(limits)
        while not all(each.done() for each in opening):
            await self.step()
        streams = [each.result() for each in opening]
        for frames in streams:
            await anext(frames)
        return streams


def test_the_first_lists_of_one_subject_do_not_delay_those_of_another() -> None:
    async def scenario(lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        crowded = Crowded(lb, clock)
        hub, counted = crowded.hub, crowded.counted
        opening = await crowded.begin(range(100, 1_000))
        assert counted.entries <= SLICE_COST, "at first the hub reads only one slice"
        other = asyncio.create_task(hub.watch(WatchedList("b", None, 3, 20), None, "other"))
        before = counted.entries
        await asyncio.sleep(0)
        await crowded.step()
        await asyncio.sleep(0)
        assert other.done(), "the subject with the lowest cost is served in the next slice"
        assert counted.entries - before <= SLICE_COST
        frames = other.result()
        for _ in range(2):
            await anext(frames)
        for step in range(5):
            await lb.submit("b", "m7", 10_000)
            before = counted.entries
            await crowded.step()
            assert f'"score":{10_007 + step * 10_000}' in (await anext(frames)).decode()
            assert counted.entries - before <= SLICE_COST
        assert not all(each.done() for each in opening)
        while not all(each.done() for each in opening):
            before = counted.entries
            await crowded.step()
            assert counted.entries - before <= SLICE_COST
        for each in opening:
            assert (await anext(each.result())).startswith(b"retry")
            await each.result().aclose()
        await frames.aclose()

    run_over(scenario)


def test_idle_feeds_cost_one_change_token_per_board() -> None:
    async def scenario(lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        crowded = Crowded(lb, clock)
        streams = await crowded.open(range(1, 301))
        while await crowded.hub._read_slice():
            pass
        looks, tokens, lists = 50, crowded.counted.tokens, crowded.counted.lists
        for _ in range(looks):
            await crowded.step()
        assert crowded.counted.tokens - tokens == looks
        assert crowded.counted.lists == lists
        for frames in streams:
            await frames.aclose()
        for kept in (crowded.hub._by_board, crowded.hub._changed, crowded.hub._change_tokens):
            assert not kept

    run_over(scenario)


def test_a_subject_with_many_feeds_does_not_delay_others() -> None:
    async def scenario(lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        crowded = Crowded(lb, clock)
        hub, many = crowded.hub, await crowded.open(range(100, 400))
        (one, _), two = (
            await crowded.watch(),
            await hub.watch(WatchedList("b", "day", 5, 20), None, "b"),
        )
        await anext(two)
        channels = list(hub._channels.values())
        for _ in range(5):
            before = {channel.watched: channel.number for channel in channels}
            await lb.submit("b", "m7", 10_000)
            crowded.seconds += 1
            assert await hub._read_slice(), "there is more than one slice"
            limits = {
                each.watched.limit for each in channels if each.number != before[each.watched]
            }
            assert {LIMIT, 5} <= limits, "subjects with one list are served first"
            assert sum(limits) < 2 * SLICE_COST
        slices = 1
        while await hub._read_slice():
            slices += 1
        assert len({channel.change_token for channel in channels}) == 1, "not all lists were read"
        cost = sum(channel.cost for channel in channels)
        assert slices <= cost / (SLICE_COST - 450), "a list waits only once"
        for frames in (one, two, *many):
            await frames.aclose()

    run_over(scenario)


def test_streams_waiting_for_their_first_list_are_refused_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()

    async def scenario(lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        crowded = Crowded(lb, clock)
        opening = await crowded.begin(range(700, 720))
        crowded.hub.stop()
        ended = await asyncio.gather(*opening, return_exceptions=True)
        assert any(isinstance(each, Stopping) for each in ended)
        assert not crowded.hub._queue
        with pytest.raises(Stopping):
            await crowded.hub.watch(WatchedList("b", None, 9, 20), None, "late")

    run_over(scenario)
