"""The live feed: if all its changes are applied to the first list, the result equals the list that
`top` returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.server.live import channel as live_channel
from laurels.server.live.channel import KEPT_FRAMES, Channel, WatchedList
from laurels.server.live.frames import END, HEARTBEAT
from laurels.server.live.hub import Hub
from tests.calendar_by_scanning import HOUR, utc_ms
from tests.internals import local

NOW_MS = utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC))
LIMIT = 5


class ReceivedList:
    """The list that a reader builds from the frames of a feed."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.last = ""
        self.entries: dict[str, dict[str, Any]] = {}
        self.document: dict[str, Any] = {}

    def take(self, content: bytes) -> None:
        fields = dict(line.split(": ", 1) for line in content.decode().splitlines() if ": " in line)
        if "event" not in fields:
            return
        kind, document = fields["event"], json.loads(fields["data"])
        self.kinds.append(kind)
        self.last, self.document = fields.get("id", self.last), document
        if kind == "top":
            self.entries = {entry["member"]: entry for entry in document["entries"]}
        elif kind == "change":
            self._change(document)

    def _change(self, change: dict[str, Any]) -> None:
        for member in change["left"]:
            del self.entries[member]
        for entry in (*change["entered"], *change["moved"], *change["scored"]):
            self.entries[entry["member"]] = {key: entry[key] for key in ("member", "rank", "score")}
        self.entries = {member: self.entries[member] for member in change["order"]}

    def listed(self) -> list[tuple[str, int, int]]:
        return [(e["member"], e["rank"], e["score"]) for e in self.entries.values()]


class Watched:
    """A hub over a store in memory, with a clock that only the tests advance."""

    def __init__(self, lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        self.lb, self.clock = lb, clock
        self.seconds = 0.0
        self.hub = Hub(
            lb,
            local(lb).change_token,
            epoch="e",
            clock=lambda: self.seconds,
            failed=_raise,
        )

    async def watch(
        self, last: str | None = None, **what: Any
    ) -> tuple[AsyncGenerator[bytes, None], ReceivedList]:
        """Open a stream. Return its frames, and a list to which the first frame has been
        applied."""
        watched = WatchedList(
            "b", what.get("window"), LIMIT, 20, what.get("member"), to_rank=what.get("to_rank")
        )
        frames, received = await self.hub.watch(watched, last), ReceivedList()
        received.take(await anext(frames))
        return frames, received

    async def step(self) -> None:
        """Let one second pass, so that every list is due. Then make the hub read one slice of the
        due lists."""
        self.seconds += 1
        await self.hub._read_slice()


def _raise(error: BaseException) -> None:
    raise error


def run(scenario: Any) -> None:
    async def watched(lb: AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        await scenario(Watched(lb, clock))

    run_over(watched)


def run_over(scenario: Any) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        service = config.connect("memory:", clock, create=True)
        async with AsyncLeaderboards(service) as lb:
            await lb.create(laurels.Board("b", windows=["all", "day"], rank="competition"))
            await asyncio.wait_for(scenario(lb, clock), 60)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no ticker, because the tests call the hub themselves."""
    monkeypatch.setattr(Hub, "_start", lambda _: None)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("window", ["all", "day"])
def test_changes_applied_to_the_first_list_give_the_current_list(seed: int, window: str) -> None:
    random = Random(seed)

    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        await lb.submit_many("b", [(f"m{i}", random.randrange(9)) for i in range(7)])
        frames, received = await watched.watch(window=window)
        received.take(await anext(frames))
        for _ in range(60):
            for _ in range(random.randrange(3)):
                member = f"m{random.randrange(10)}"
                if random.random() < 0.2:
                    await lb.remove("b", member)
                elif random.random() < 0.05:
                    watched.clock.advance(random.randrange(2, 9) * HOUR)
                else:
                    await lb.submit("b", member, random.randrange(-4, 9))
            await watched.step()
            channel = next(iter(watched.hub._channels.values()))
            if next(iter(channel.watchers)).holds:
                received.take(await anext(frames))
            page = await lb.top("b", window=window, limit=LIMIT)
            assert received.listed() == [(e.member, e.rank, e.score) for e in page.entries]
        assert {"top", "change"} <= set(received.kinds)
        await frames.aclose()

    run(scenario)


def test_unchanged_lists_are_not_sent() -> None:
    async def scenario(watched: Watched) -> None:
        await watched.lb.submit_many("b", [(f"m{i}", 10 - i) for i in range(9)])
        frames, received = await watched.watch()
        received.take(await anext(frames))
        await watched.lb.set_data("b", "m0", {"a": 1})
        await watched.lb.submit("b", "m8", 0)
        await watched.step()
        (channel,) = watched.hub._channels.values()
        assert not next(iter(channel.watchers)).holds
        await frames.aclose()
        assert not watched.hub._channels

    run(scenario)


def test_a_reconnecting_client_gets_missed_changes_or_the_whole_list() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        await lb.submit("b", "ann", 5)
        staying, _ = await watched.watch()
        frames, received = await watched.watch()
        received.take(await anext(frames))
        await frames.aclose()
        await lb.submit("b", "bob", 7)
        await watched.step()
        for last, expected in (
            (received.last, ["change"]),
            ("other.0", ["top"]),
            (f"{received.last}9", ["top"]),
            ("x", ["top"]),
        ):
            again, heard = await watched.watch(last)
            heard.take(await anext(again))
            assert heard.kinds == expected, last
            await again.aclose()
        await staying.aclose()
        later, heard = await watched.watch(received.last)
        heard.take(await anext(later))
        assert heard.kinds == ["top"], "a reopened channel uses other frame numbers"
        await later.aclose()

    run(scenario)


def test_a_slow_watcher_gets_the_whole_list_instead_of_missed_changes() -> None:
    async def scenario(watched: Watched) -> None:
        frames, received = await watched.watch()
        received.take(await anext(frames))
        for i in range(3):
            await watched.lb.submit("b", f"m{i}", i + 1)
            await watched.step()
        received.take(await anext(frames))
        assert received.kinds == ["top", "top"]
        assert [member for member, *_ in received.listed()] == ["m2", "m1", "m0"]
        await frames.aclose()

    run(scenario)


def test_an_idle_stream_gets_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_channel, "HEARTBEAT_SECONDS", 0.001)

    async def scenario(watched: Watched) -> None:
        frames, _ = await watched.watch()
        await anext(frames)
        assert await anext(frames) == HEARTBEAT
        await frames.aclose()

    run(scenario)


def test_streams_end_with_the_server() -> None:
    async def scenario(watched: Watched) -> None:
        frames, received = await watched.watch()
        received.take(await anext(frames))
        watched.hub.stop()
        rest = [content async for content in frames]
        assert rest == [END]

    run(scenario)


def test_a_deleted_board_ends_its_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()

    async def scenario(watched: Watched) -> None:
        frames, received = await watched.watch()
        received.take(await anext(frames))
        watched.seconds += 1
        await watched.lb.delete("b")
        assert END in [content async for content in frames]

    run(scenario)


def test_a_later_reader_gets_the_current_list() -> None:
    async def scenario(watched: Watched) -> None:
        first, _ = await watched.watch()
        await anext(first)
        await watched.lb.submit("b", "ann", 5)
        second, received = await watched.watch()
        received.take(await anext(second))
        assert received.listed() == [("ann", 1, 5)]
        await first.aclose()
        await second.aclose()

    run(scenario)


def test_frames_are_kept_for_a_while() -> None:
    channel = Channel(WatchedList("b", None, 1, 20), "e")
    as_of = laurels.AsOf(1, "all")
    for i in range(KEPT_FRAMES + 5):
        channel.publish(laurels.Page([laurels.Entry("a", 1, i)], 1, as_of), None, 0.0)
    assert len(channel.after(f"e.{KEPT_FRAMES}")) == 4
    assert channel.after("e.1") == [channel.whole()]
