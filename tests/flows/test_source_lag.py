"""A source that lags loses no events, because it reports to the boards the time up to which it has
read the stream."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.flows.sources.mapping import DEFAULT
from laurels.flows.sources.reader import (
    ZERO,
    Message,
    StoredPosition,
    StreamPosition,
    StreamState,
)
from laurels.flows.sources.runner import SourceRunner
from laurels.flows.sources.settings import SourceSettings
from laurels.flows.sources.template import parse_mapping
from tests.cli.running import Shell
from tests.redis.servers import Server

from .nats_servers import NatsServer
from .sourcing import KeptRejects, count, nothing, scores

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
BEGIN_MS = 1_795_186_800_000  # 20 November 2026, 15:00 UTC
HOURS = laurels.Board("b", windows=["hour:keep=30", "all"], grace="5m")
EVENT = b'{"board": "b", "member": "ann", "value": 1}'


class LeapingClock(laurels.ManualClock):
    """A clock that a test may also set back."""

    def set(self, now_ms: int) -> None:
        self._now_ms = now_ms


class MemoryReader:
    """A stream in this process, whose messages get the time of a clock. A reader that waits for a
    message moves this clock on by `idle_ms`."""

    name, resumes, ended = "memory", True, False

    def __init__(self, clock: laurels.ManualClock, idle_ms: int = 0) -> None:
        self.messages: list[Message] = []
        self.clock = clock
        self._idle_ms = idle_ms

    def take(self, raw: bytes = EVENT, at_ms: int | None = None) -> None:
        taken_ms = self.clock.now_ms() if at_ms is None else at_ms
        place = StreamPosition(len(self.messages) + 1)
        self.messages.append(Message(place, raw, taken_ms))

    async def open(self) -> StreamState:
        return StreamState("memory", ZERO, StreamPosition(len(self.messages)))

    def stored_position(self, position: StreamPosition) -> StoredPosition:
        return StoredPosition("memory", str(position))

    def mismatch(self, stored: StoredPosition) -> str | None:
        return None

    def is_expired(self, stored: StoredPosition) -> bool:
        return False

    async def time_ms(self) -> int | None:
        return self.clock.now_ms()

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        await asyncio.sleep(0)
        messages = [m for m in self.messages if m.position > after][:limit]
        if not messages and wait:
            self.clock.advance(self._idle_ms)
        return messages

    async def close(self) -> None:
        pass


class BusyReader(MemoryReader):
    """A stream that gets a message every five seconds, so that a reader never waits."""

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        await asyncio.sleep(0)
        self.clock.advance(5 * SECOND)
        self.take()
        return self.messages[after.major :]


def run(
    lb: laurels.AsyncLeaderboards,
    reader: MemoryReader,
    warn: Callable[[str], None] = lambda _text: None,
    **settings: Any,
) -> SourceRunner:
    return SourceRunner(
        lb,
        reader,
        parse_mapping(DEFAULT),
        SourceSettings(**{"name": "s", "until_end": True, **settings}),
        rejects=KeptRejects(),
        sleep=nothing,
        now_ms=reader.clock.now_ms,
        warn=warn,
    )


@asynccontextmanager
async def opened(clock: laurels.ManualClock) -> AsyncIterator[laurels.AsyncLeaderboards]:
    async with laurels.open_async("memory:", clock=clock) as lb:
        await lb.create(HOURS)
        yield lb


async def ends(lb: laurels.AsyncLeaderboards, board: str = "b") -> list[tuple[bool, bool]]:
    """Return for each period, oldest first, whether it is final and whether it waits for the
    source. Periods before `BEGIN_MS` are left out."""
    periods = await lb.periods(board, "hour")
    return [
        (info.final, info.waits_for == ("source/s",))
        for info in reversed(periods)
        if info.start_ms >= BEGIN_MS
    ]


def test_a_delayed_source_counts_messages_in_their_own_periods() -> None:
    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        async with opened(clock) as lb:
            reader = MemoryReader(clock)
            reader.take()
            await run(lb, reader).run()
            for _ in range(20):
                clock.advance(20 * MINUTE)
                reader.take()
            clock.advance(2 * HOUR)
            waiting = (False, True)
            assert await ends(lb) == [*[waiting] * 8, (False, False)]
            metrics = run(lb, reader, batch=3)
            await metrics.run()
            assert (metrics.metrics.applied, metrics.metrics.late) == (20, {})
            assert await ends(lb) == [*[(True, False)] * 8, (False, False)]
            totals = [(await lb.top("b", period=p.label)).entries for p in await lb.periods("b")]
            counted = [sum(int(str(e.score)) for e in entries) for entries in totals]
            assert counted[:9] == [0, 0, 3, 3, 3, 3, 3, 3, 3]

    asyncio.run(main())


def test_lateness_is_decided_for_each_message_of_a_batch() -> None:
    """If the stream took a message after the grace of the message's hour, the message is late for
    that hour, whichever batch it is in."""

    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        async with opened(clock) as lb:
            reader = MemoryReader(clock)
            await run(lb, reader).run()
            old = json.dumps({"board": "b", "member": "ann", "value": 1, "at": BEGIN_MS}).encode()
            for at_ms in range(BEGIN_MS, BEGIN_MS + 3 * HOUR, MINUTE):
                reader.take(old, at_ms)
            clock.advance(4 * HOUR)
            runner = run(lb, reader)
            await runner.run()
            in_time = 60 + 5 + 1
            assert runner.metrics.late == {"hour": 3 * 60 - in_time}
            label = (await lb.periods("b", "hour"))[4].label
            page = await lb.top("b", window="hour", period=label)
            assert [entry.score for entry in page] == [in_time]

    asyncio.run(main())


def test_boards_without_messages_get_the_time_of_the_source() -> None:
    """A period becomes final within ten seconds after the end of its grace, even on a board that
    gets no messages. To such a board, the source reports the time once for each period, not every
    ten seconds."""

    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        async with opened(clock) as lb:
            await lb.create(laurels.Board("quiet", windows=["hour:keep=30"], changes="7d"))
            await lb.create(laurels.Board("endless", changes="7d"))
            reader = MemoryReader(clock, idle_ms=SECOND)
            reader.take()
            runner = run(lb, reader, until_end=False)
            task = asyncio.create_task(runner.run())
            for hour in range(1, 4):
                end_ms = BEGIN_MS + hour * HOUR + 5 * MINUTE
                while clock.now_ms() <= end_ms + 12 * SECOND:
                    await asyncio.sleep(0)
                expected = [*[(True, False)] * hour, (False, False)]
                assert await ends(lb) == await ends(lb, "quiet") == expected
            runner.stop()
            await task
            positions = [change.kind for change in await lb.changes("quiet")].count("position")
            assert positions <= 3 + 2
            assert [change.kind for change in await lb.changes("endless")].count("position") <= 4

    asyncio.run(main())


def test_a_busy_stream_advances_the_time_of_idle_boards() -> None:
    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        async with opened(clock) as lb:
            await lb.create(laurels.Board("quiet", windows=["hour:keep=30"]))
            reader = BusyReader(clock)
            runner = run(lb, reader, until_end=False)
            task = asyncio.create_task(runner.run())
            while clock.now_ms() < BEGIN_MS + 2 * HOUR + 6 * MINUTE:
                await asyncio.sleep(0)
            runner.stop()
            await task
            assert await ends(lb, "quiet") == [(True, False), (True, False), (False, False)]

    asyncio.run(main())


def test_a_clock_leap_does_not_block_periods_for_good() -> None:
    """While the stream's clock is ahead, the source reports a time in the future. After the clock
    has been corrected, the source reports the right time."""

    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        runners = LeapingClock(BEGIN_MS)
        async with opened(clock) as lb:
            reader = MemoryReader(runners)
            runners.set(BEGIN_MS + 900 * HOUR)
            reader.take()
            await run(lb, reader).run()
            runners.set(BEGIN_MS + HOUR)
            clock.set(BEGIN_MS + HOUR)
            reader.take()
            await run(lb, reader).run()
            clock.set(BEGIN_MS + 2 * HOUR + 6 * MINUTE)
            assert await ends(lb) == [(False, True), (False, True), (False, False)]
            runners.set(clock.now_ms())
            await run(lb, reader).run()
            assert await ends(lb) == [(True, False), (True, False), (False, False)]

    asyncio.run(main())


def _later(folder: Path, now_ms: int) -> laurels.ManualClock:
    """Create the board; return a clock that is three hours ahead of `now_ms`."""
    with laurels.open(folder, clock=laurels.ManualClock(now_ms)) as lb:
        lb.create(HOURS)
    return laurels.ManualClock(now_ms + 3 * HOUR)


def _counted(folder: Path, address: str, now_ms: int) -> None:
    clock = _later(folder, now_ms)

    @asynccontextmanager
    async def boards() -> AsyncIterator[laurels.AsyncLeaderboards]:
        async with laurels.open_async(folder, clock=clock) as lb:
            yield lb

    ran = count(boards, address, now_ms=clock.now_ms())
    assert (ran.metrics.applied, ran.metrics.late) == (2, {})
    with laurels.open(folder, clock=clock) as lb:
        waiting = [p.label for p in lb.periods("b", "hour") if p.waits_for == ("source/source",)]
        assert waiting
        assert not lb.periods("b", "hour")[1].final
    with laurels.open(folder, clock=laurels.ManualClock(clock.now_ms() + 99 * HOUR)) as lb:
        finals = [p.final for p in lb.periods("b", "hour")]
        assert (finals[:25], finals[26:]) == ([False] * 25, [True] * 4)


def test_a_nats_stream_reports_its_time(tmp_path: Path) -> None:
    with NatsServer() as nats:
        nats.create("EVENTS", "events.*")
        nats.publish("events.a", [EVENT, EVENT])
        _counted(tmp_path / "boards", f"{nats.url}/EVENTS", time.time_ns() // 1_000_000)


def test_a_redis_stream_reports_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, now_ms = tmp_path / "boards", time.time_ns() // 1_000_000
    with Server() as redis:
        for _ in range(2):
            redis.call("XADD", "lag", "*", "event", EVENT)
        _counted(folder, f"{redis.url}/0/lag", now_ms)
    shell = Shell(monkeypatch, tmp_path)
    (row,) = shell("source", "status", "source", "--json").json()["boards"]
    assert row["counted_until"].startswith("20")
    assert "waits for source/source" in shell("board", "show", "b").out
    again = ("source", "retire", "source", "--json")
    assert [shell(*again).json()["boards"] for _ in range(2)] == [["b"], []]
    assert "waits for" not in shell("board", "show", "b").out
    (kept,) = shell("source", "status", "source", "--json").json()["boards"]
    assert kept == row | {"counted_until": ""}


@pytest.mark.parametrize("lag", [0, 30 * MINUTE])
def test_a_new_run_continues_with_the_reported_time(lag: int) -> None:
    """A period that the previous run made final stays final, even if the stream's clock has been
    set back."""

    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS + HOUR + 6 * MINUTE)
        async with opened(clock) as lb:
            reader = MemoryReader(clock)
            await run(lb, reader).run()
            assert (await ends(lb))[0] == (True, False)
            clock.advance(MINUTE)
            reader.take(at_ms=BEGIN_MS + lag)  # the stream's clock has been set back
            runner = run(lb, reader)
            await runner.run()
            assert runner.metrics.late == {"hour": 1}
            assert (await ends(lb))[0] == (True, False)

    asyncio.run(main())


def test_file_sources_report_no_time(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(EVENT + b"\n")
    with laurels.open(tmp_path / "boards") as lb:
        lb.create(HOURS)
    count(tmp_path / "boards", tmp_path / "events")
    assert scores(tmp_path / "boards", "b") == {"ann": 1}
    next_hour_ms = (time.time_ns() // 1_000_000 // HOUR + 1) * HOUR
    after_grace = laurels.ManualClock(next_hour_ms + 10 * MINUTE)
    with laurels.open(tmp_path / "boards", clock=after_grace) as lb:
        [counted] = [period for period in lb.periods("b", "hour") if period.total]
        assert counted.final
        assert "passed_ms" not in str(lb.position("b", "source/source"))


class LateReader(MemoryReader):
    """A stream whose source lags. For each message, `lags_ms` has the time from its arrival in the
    stream until the source reads it."""

    def __init__(self, clock: laurels.ManualClock, lags_ms: Sequence[int]) -> None:
        super().__init__(clock)
        self._lags_ms = list(lags_ms)
        self._lag_ms = 0

    async def time_ms(self) -> int | None:
        return self.clock.now_ms() - self._lag_ms

    async def read(self, after: StreamPosition, limit: int, *, wait: bool) -> Sequence[Message]:
        self.clock.advance(15 * SECOND)
        if self._lags_ms:
            lag_ms = self._lags_ms.pop(0)
            self.clock.advance(max(0, lag_ms - self._lag_ms))
            self._lag_ms = lag_ms
            self.take(at_ms=self.clock.now_ms() - lag_ms)
        return await super().read(after, limit, wait=wait)


@pytest.mark.parametrize(
    ("windows", "window", "most_ms"),
    [
        (["all", "1h=rolling:1h/10m"], "1h", 50 * MINUTE),
        # what remains of the event's hour, at most 1 h, and `close_wait`
        (["all", "hour:keep=30"], "hour", 5 * HOUR),
        (["all"], None, 0),
    ],
)
def test_a_source_warns_before_its_events_are_too_late(
    windows: list[str], window: str | None, most_ms: int
) -> None:
    """A window begins to refuse the events of a source at a certain lag. Each time that the lag
    reaches half of this, the source warns once."""

    async def main() -> None:
        clock = laurels.ManualClock(BEGIN_MS)
        board = laurels.Board("b", windows=windows, grace="0s", close_wait="4h")
        warnings: list[str] = []
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(board)
            lags_ms = (5 * MINUTE, most_ms // 2 + 20 * MINUTE, 5 * MINUTE, 9 * HOUR)
            reader = LateReader(clock, [lag_ms for lag_ms in lags_ms for _ in range(3)])
            await run(lb, reader, warnings.append).run()
        expected = [] if window is None else [f"the window {window!r}"] * 2
        assert [
            text.partition("long, ")[2].partition(" refuses")[0] for text in warnings
        ] == expected

    asyncio.run(main())
