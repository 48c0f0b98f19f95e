"""The lag of a sink is all that its target has not stored, in the page at hand and behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import laurels
from laurels.flows.sinks.runner import SinkOptions, SinkRunner
from laurels.flows.sinks.status import SinkBoardStatus, statuses

from .sinking import NOW_MS, sent, sink_of
from .stepping import Counted, Memory, Steps

OPTIONS = SinkOptions("s")


class Paused:
    """A sink whose target takes pages of 100 changes, and is down."""

    def __init__(self, lb: laurels.AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        self.lb, self.clock = lb, clock
        self.target, self.steps = Memory(), Steps()
        self.target.is_up.clear()
        self.counted = Counted(lb, ("changes", "changed_boards", "position", "boards"))
        self.messages: list[str] = []
        self.sink = SinkRunner(
            lb,
            self.target,
            OPTIONS,
            now_ms=clock.now_ms,
            sleep=self.steps.sleep,
            report=self.messages.append,
        )

    async def until_waiting(self, count: int) -> None:
        """Return once the sink counts so many changes as waiting."""
        while self.sink.figures.waiting != count:
            await self.counted.quiet()
            await self.steps.step()

    async def until_sent(self, member: str) -> None:
        """Return once the target has a change of a member."""
        while all(change.member != member for change in self.target.changes.get("b", ())):
            await self.counted.quiet()
            await self.steps.step()

    async def status(self) -> SinkBoardStatus:
        (status,) = await statuses(self.lb, self.target, OPTIONS, self.clock.now_ms())
        return status


def play(board: laurels.Board, test: Callable[[Paused], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(board)
            paused = Paused(lb, clock)
            running = asyncio.create_task(paused.sink.run())
            try:
                await test(paused)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    asyncio.run(main())


def test_three_pages_that_wait_are_all_counted() -> None:
    async def test(paused: Paused) -> None:
        lb, clock = paused.lb, paused.clock
        paused.target.is_up.set()
        await lb.submit("b", "first", 1)
        await paused.until_sent("first")
        await paused.until_waiting(0)
        paused.target.is_up.clear()
        for batch in range(3):
            await lb.submit_many("b", [(f"m{batch}", 1)] * 100)
            clock.advance(1_000)
        await paused.until_waiting(300)
        assert paused.sink.figures.lag_seconds(clock.now_ms()) == 3
        await lb.submit_many("b", [("late", 1)] * 7, position=("sink:another", "x"))
        await paused.until_waiting(307)
        status = await paused.status()
        assert (status.state, status.lag_changes, status.lag_seconds) == ("waiting", 307, 3.0)
        paused.target.is_up.set()
        await paused.until_sent("late")
        await paused.until_waiting(0)
        assert paused.sink.figures.lag_seconds(clock.now_ms()) == 0
        status = await paused.status()
        assert (status.state, status.lag_changes, status.lag_seconds) == ("done", 0, 0.0)

    play(laurels.Board("b", changes="1h"), test)


def test_a_stopped_sink_is_behind_by_what_was_counted_since(tmp_path: Path) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async(tmp_path / "boards", clock=clock) as lb:
            await lb.create(laurels.Board("b", changes="1h"))
            await sent(lb, str(tmp_path / "lines"))
            for batch in range(5):
                await lb.submit_many("b", [(f"m{i}", 1) for i in range(300 + batch)])
                await sent(lb, str(tmp_path / "others"), name="other")
            options = sink_of(lb, str(tmp_path / "lines"))._options
            (status,) = await statuses(lb, None, options, NOW_MS + 5_000)
            assert (status.lag_changes, status.lag_seconds) == (1_510, 5.0)

    asyncio.run(main())
