"""The live feed: if all its changes are applied to the first list, the result equals the list that
`top` returns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from random import Random
from typing import Any, cast

import pytest

import laurels
from laurels import config
from laurels.api.aio import AsyncLeaderboards
from laurels.errors.service import Stopping
from laurels.server.live import channel as live_channel
from laurels.server.live.channel import KEPT_FRAMES, Channel, WatchedList
from laurels.server.live.frames import END, HEARTBEAT
from laurels.server.live.hub import SLICE_COST, Hub
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


def test_a_member_feed_reports_its_rank_and_who_passed_it() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        frames, received = await watched.watch(member="ann")
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["total"]) == (None, 0)
        for member, value, expected in (
            ("ann", 5, (1, 5, None, None)),
            ("bob", 3, None),
            ("bob", 9, (2, 5, 1, "bob")),
            ("ann", 20, (1, 25, 2, None)),
        ):
            await lb.submit("b", member, value)
            await watched.step()
            if expected is not None:
                received.take(await anext(frames))
                document = received.document
                names = ("rank", "score", "previous_rank", "overtaken_by")
                assert tuple(document[name] for name in names) == expected
        await lb.remove("b", "ann")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["previous_rank"]) == (None, 1)
        await frames.aclose()

    run(scenario)


def test_a_member_feed_reports_the_value_it_needs() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        frames, received = await watched.watch(member="ann", to_rank=1)
        received.take(await anext(frames))
        assert received.document["needed"]["value"] == 0
        watched.clock.advance(1)
        for member, value, gap, needed in (
            ("bob", 9, None, 10),
            ("ann", 5, {"rank": 1, "gap": 4}, 5),
            ("bob", 1, {"rank": 1, "gap": 5}, 6),
            ("ann", 6, {"rank": 1, "gap": 0}, None),
        ):
            await lb.submit("b", member, value)
            watched.clock.advance(1)
            await watched.step()
            received.take(await anext(frames))
            assert received.document["to_rank"] == gap
            event = received.document["needed"]
            assert (None if event is None else event["value"]) == needed
        await frames.aclose()

    run(scenario)


def test_a_member_feed_goes_on_while_the_member_is_hidden() -> None:
    async def scenario(watched: Watched) -> None:
        lb = watched.lb
        await lb.submit_many("b", [("ann", 5), ("bob", 9)])
        frames, received = await watched.watch(member="ann", to_rank=1)
        received.take(await anext(frames))
        await lb.hide("b", "ann", "a bot")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["needed"]) == (None, None)
        await lb.show("b", "ann")
        await watched.step()
        received.take(await anext(frames))
        assert (received.document["rank"], received.document["needed"]["value"]) == (2, 4)
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
