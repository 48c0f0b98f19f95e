"""The live feed over the network: at any time, a reader has the list that `top` returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

import laurels
from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.core.standing import AsOf, Entry, Page
from laurels.model.exact_json import decode_json
from laurels.server.live.channel import WatchedList
from laurels.server.live.frames import END
from laurels.server.live.hub import Hub
from tests.calendar_by_scanning import HOUR, utc_ms
from tests.http.listening import WITHIN_SECONDS, Feed, Known, feed
from tests.serving import JSON, Served

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
SEVERAL = [{"name": "p", "scale": 1}, {"name": "q", "op": "last", "order": "asc"}]
LIVE = "/v1/boards/b/live?interval=20"

Scenario = Callable[[httpx.AsyncClient, Served], Coroutine[Any, Any, None]]


def play(
    folder: Path, scenario: Scenario, clock: laurels.Clock | None = None, **settings: Any
) -> None:
    """Run a scenario with a new server and its board `b`."""

    async def main(server: Served) -> None:
        async with (
            asyncio.timeout(60),
            httpx.AsyncClient(base_url=server.url, timeout=WITHIN_SECONDS) as http,
        ):
            board = settings_of_board
            (await http.put("/v1/boards/b", json=board)).raise_for_status()
            await scenario(http, server)

    settings_of_board = settings.pop("board", {})
    with Served(folder / "boards", clock, **settings) as server:
        asyncio.run(main(server))


async def submit(http: httpx.AsyncClient, member: str, value: Any) -> None:
    event = {"member": member, "value": value}
    (await http.post("/v1/boards/b/scores", json=event)).raise_for_status()


async def until(done: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while not done():
            await asyncio.sleep(0.002)


class Moments:
    """The answers of `top` that the writing client gets after its writes, by offset and period."""

    def __init__(self, http: httpx.AsyncClient, window: str) -> None:
        self._http = http
        self._window = window
        self.pages: dict[tuple[int, str | None], Any] = {}
        self.now: tuple[int, str | None] = (0, None)

    async def look(self) -> None:
        answer = await self._http.get(f"/v1/boards/b/top?limit=4&window={self._window}")
        page = decode_json(answer.raise_for_status().content)
        assert isinstance(page, dict)
        del page["next"]
        self.now = page["as_of"]["offset"], page["as_of"]["period"]
        assert self.pages.setdefault(self.now, page) == page


@pytest.mark.parametrize("rank", ["ordinal", "competition", "dense"])
@pytest.mark.parametrize("window", ["all", "day", "r"])
def test_a_reader_always_has_the_list_that_top_returns(
    tmp_path: Path, window: str, rank: str
) -> None:
    random, clock = Random(f"{window} {rank}"), laurels.ManualClock(NOW_MS)

    async def act(http: httpx.AsyncClient) -> None:
        member = f"m{random.randrange(8)}"
        match random.randrange(12):
            case 0:
                await http.post("/v1/boards/b/remove", json={"member": member})
            case 1:
                await http.put("/v1/boards/b/data", json={"member": member, "data": {"a": 1}})
            case 2:
                clock.advance(random.choice([1, 40, 60, 24 * 60]) * HOUR // 60)
            case 3:
                events = [[f"m{i}", [random.randrange(-2, 3), 1]] for i in range(8)]
                await http.post("/v1/boards/b/scores", json=events)
            case _:
                await submit(http, member, [random.randrange(-3, 4), random.randrange(3)])

    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        moments, received, wrong = Moments(http, window), Known(), list[Any]()

        async def read(opened: Feed) -> None:
            async for frame in opened.frames():
                received.take(frame)
                seen.append((received.as_of["offset"], received.as_of["period"], received.page))

        seen: list[tuple[int, str | None, Any]] = []
        async with feed(server.url, f"{LIVE}&limit=4&window={window}") as opened:
            await moments.look()
            reading = asyncio.create_task(read(opened))
            for step in range(60):
                await act(http)
                await moments.look()
                if step % 4 == 0:
                    await until(partial(_agree, received, moments))
            reading.cancel()
        for offset, period, page in seen:
            if page != moments.pages.get((offset, period)):
                wrong.append((page, moments.pages.get((offset, period))))
        assert not wrong
        assert "change" in received.kinds
        assert ("top" in received.kinds[1:]) == (window != "all")

    board = {"columns": SEVERAL, "rank": rank, "windows": ["all", "day", "r=rolling:2h/1h"]}
    play(tmp_path, scenario, clock, board=board)


def _agree(received: Known, moments: Moments) -> bool:
    one, other = received.page, moments.pages[moments.now]
    return bool((one["entries"], one["total"]) == (other["entries"], other["total"]))


def test_a_reconnecting_feed_resumes_where_it_was(tmp_path: Path) -> None:
    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        async with feed(server.url, LIVE) as stays:
            first = await stays.next()
            for score in (1, 2):
                await submit(http, "ann", 1)
                assert (await stays.next()).document["order"] == ["ann"], score
            async with feed(server.url, LIVE, last=first.number) as again:
                missed = [await again.next(), await again.next()]
            assert [frame.kind for frame in missed] == ["change", "change"]
            assert missed[1].document["scored"][0]["score"] == 2
            for last in ("0.1", first.number.replace(".0", ".9"), "x", "1" * 400):
                async with feed(server.url, LIVE, last=last) as other:
                    whole = await other.next()
                    assert (whole.kind, whole.number) == ("top", missed[1].number)

    play(tmp_path, scenario)


def test_a_reader_that_stalls_is_cut_off_and_delays_no_other(tmp_path: Path) -> None:
    async def cut_off(http: httpx.AsyncClient) -> int:
        text = (await http.get("/metrics")).text
        lines = [line.split() for line in text.splitlines()]
        return sum(int(float(line[1])) for line in lines if line[0].endswith("cut_off_total"))

    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        events = [[f"{'m' * 100}{i}", i] for i in range(1_000)]
        (await http.post("/v1/boards/b/scores?receipts=none", json=events)).raise_for_status()
        async with (
            feed(server.url, f"{LIVE}&limit=1000", buffer=4_096) as stalled,
            feed(server.url, f"{LIVE}&limit=1") as quick,
        ):
            await quick.next()
            step = 0
            while not await cut_off(http):
                step += 1
                await submit(http, f"{'m' * 100}{step % 1_000}", 10_000 * step)
                assert (await quick.next(within_seconds=2)).kind == "change"
            assert END not in await stalled.rest()
            for _ in range(5):
                await submit(http, "ann", 10_000_000)
                await quick.next(within_seconds=2)
            assert await cut_off(http) == 1

    play(tmp_path, scenario, stall_seconds=1)


def test_a_deleted_board_ends_its_feeds_once(tmp_path: Path) -> None:
    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        async with feed(server.url, LIVE) as opened, feed(server.url, f"{LIVE}&member=a") as of_one:
            for each in (opened, of_one):
                await each.next()
            (await http.delete("/v1/boards/b", headers=JSON)).raise_for_status()
            for each in (opened, of_one):
                assert (await each.rest()).count(END) == 1

    play(tmp_path, scenario)


def test_a_board_that_is_retained_no_longer_ends_its_feeds(tmp_path: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    board = {"ends": NOW_MS + HOUR, "retain": "1h"}

    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        async with feed(server.url, LIVE) as opened, feed(server.url, f"{LIVE}&member=a") as of_one:
            for each in (opened, of_one):
                await each.next()
            clock.set(NOW_MS + 2 * HOUR)
            for each in (opened, of_one):
                assert (await each.rest()).count(END) == 1
        answer = await http.get("/v1/boards/b/top")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_board")

    play(tmp_path, scenario, clock, board=board)


def test_a_thousand_readers_get_a_change(tmp_path: Path) -> None:
    readers = 1_000

    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(feed(server.url, LIVE)) for _ in range(readers)
            ]
            assert {(await each.next()).kind for each in opened} == {"top"}
            await submit(http, "ann", 7)
            heard = await asyncio.gather(*(each.next() for each in opened))
            assert [frame.document["order"] for frame in heard] == [["ann"]] * readers
            assert len({frame.number for frame in heard}) == 1

    play(tmp_path, scenario)


def test_each_key_has_its_share_of_feeds(tmp_path: Path) -> None:
    async def scenario(http: httpx.AsyncClient, server: Served) -> None:
        async with feed(server.url, LIVE), feed(server.url, LIVE):
            refused = await http.get(LIVE)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        async with asyncio.timeout(WITHIN_SECONDS):
            while (await http.get("/v1/boards/b/export")).status_code == 429:
                pass  # wait until the server has noticed that the streams have ended
        async with feed(server.url, LIVE):
            pass

    play(tmp_path, scenario, streams_per_key=2)


def in_hub(scenario: Callable[[AsyncLeaderboards, Hub], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario with a hub over a store in memory and its board `b`."""

    async def main() -> None:
        service = config.connect("memory:", laurels.ManualClock(NOW_MS), create=True)
        async with asyncio.timeout(WITHIN_SECONDS), AsyncLeaderboards(service) as lb:
            await lb.create(laurels.Board("b"))
            await scenario(lb, hub_over(lb, service.change_token))

    asyncio.run(main())


def hub_over(lb: Any, change_token: Callable[[str], Any]) -> Hub:
    loop = asyncio.get_running_loop()
    return Hub(lb, change_token, epoch="e", clock=loop.time, failed=print)


WHAT = WatchedList("b", None, 10, 20)


async def started(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Skip the first list of a stream. Return the stream."""
    for _ in range(2):
        await anext(frames)
    return frames


def test_a_feed_that_never_starts_opens_no_channel() -> None:
    async def scenario(_: AsyncLeaderboards, hub: Hub) -> None:
        frames = await hub.watch(WHAT, None)
        assert not hub._channels
        await started(frames)
        assert hub._channels
        await frames.aclose()
        assert not hub._channels

    in_hub(scenario)


def test_closing_a_feed_of_a_deleted_board_keeps_the_new_ones() -> None:
    async def scenario(lb: AsyncLeaderboards, hub: Hub) -> None:
        old = await hub.watch(WHAT, None)
        await started(old)
        await lb.delete("b")
        await until(lambda: not hub._channels)
        await lb.create(laurels.Board("b"))
        new = await started(await hub.watch(WHAT, None))
        await old.aclose()
        await lb.submit("b", "ann", 1)
        async with asyncio.timeout(WITHIN_SECONDS):
            assert b'"order":["ann"]' in await anext(new)

    in_hub(scenario)


def test_an_outdated_slow_query_does_not_revert_the_list() -> None:
    """A slow query may return an older state after a newer query has begun. The list must not go
    back to the older state."""

    async def scenario(_: AsyncLeaderboards, __: Hub) -> None:
        moment, slow = 0, asyncio.Event()

        async def top(*_: Any, **__: Any) -> Page:
            answer = Page([Entry("ann", 1, moment)], 1, AsOf(moment, "all"))
            if moment == 1:
                await slow.wait()
            return answer

        hub = hub_over(cast(Any, SimpleNamespace(top=top)), lambda _: moment)
        frames = await started(await hub.watch(WHAT, None))
        (channel,) = hub._channels.values()
        moment = 1
        await until(lambda: channel.change_token == 1)
        moment = 2
        other = asyncio.create_task(hub.watch(WHAT, None))
        for _turn in range(5):
            await asyncio.sleep(0)
        slow.set()
        await (await other).aclose()
        await until(lambda: channel.change_token == 2)
        assert channel.page is not None
        assert channel.page.as_of.offset == 2
        await frames.aclose()  # type: ignore[attr-defined]

    in_hub(scenario)
