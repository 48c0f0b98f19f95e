"""The lag of a sink is the number of changes that its target has not stored: the changes of the
page that is being sent, and all later ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import laurels
from laurels.errors.sinks import TargetUnavailable
from laurels.flows.sinks.metrics import describe_problems
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import SinkBoardStatus, statuses

from .sinking import NOW_MS, sent, sink_of
from .stepping import QUERIES, Counted, Memory, Steps, beside

OPTIONS = SinkOptions("s", what="changes")
HOUR = 3_600_000


class Paused:
    """A sink whose target accepts pages of up to 100 changes. At first the target is down."""

    def __init__(self, lb: laurels.AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        self.lb, self.clock = lb, clock
        self.target, self.steps = Memory(), Steps()
        self.target.is_up.clear()
        self.counted = Counted(lb, QUERIES)
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
        """Wait until the sink counts this number of changes as waiting."""
        while self.sink.metrics.waiting != count:
            await self.counted.quiet()
            await self.steps.step()

    async def until_sent(self, member: str) -> None:
        """Wait until the target has a change of a member."""
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
            await beside(paused.sink, lambda: test(paused))

    asyncio.run(main())


def test_all_waiting_pages_count_towards_the_lag() -> None:
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
        assert paused.sink.metrics.lag_seconds(clock.now_ms()) == 3
        await lb.submit_many("b", [("late", 1)] * 7, position=("sink:another", "x"))
        await paused.until_waiting(307)
        status = await paused.status()
        assert (status.state, status.lag_changes, status.lag_seconds) == ("waiting", 307, 3.0)
        paused.target.is_up.set()
        await paused.until_sent("late")
        await paused.until_waiting(0)
        assert paused.sink.metrics.lag_seconds(clock.now_ms()) == 0
        status = await paused.status()
        assert (status.state, status.lag_changes, status.lag_seconds) == ("done", 0, 0.0)

    play(laurels.Board("b", changes="1h"), test)


def test_a_stopped_sink_lags_by_the_changes_since_it_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async(tmp_path / "boards", clock=clock) as lb:
            await lb.create(laurels.Board("b", changes="1h"))
            await sent(lb, str(tmp_path / "lines"))
            for batch in range(5):
                await lb.submit_many("b", [(f"m{i}", 1) for i in range(300 + batch)])
                await sent(lb, str(tmp_path / "others"), name="other")
            options = sink_of(lb, str(tmp_path / "lines")).options
            (status,) = await statuses(lb, None, options, NOW_MS + 5_000)
            assert (status.lag_changes, status.lag_seconds) == (1_510, 5.0)

    asyncio.run(main())


def test_a_sink_warns_before_the_board_removes_what_it_has_not_sent() -> None:
    """The warning depends on the number of changes. It is logged once, and not again until the sink
    has caught up."""

    async def test(paused: Paused) -> None:
        lb, clock = paused.lb, paused.clock
        paused.target.is_up.set()
        await lb.submit("b", "first", 1)
        await paused.until_sent("first")
        await paused.until_waiting(0)
        paused.target.is_up.clear()
        clock.advance(2 * HOUR)
        await lb.submit_many("b", [("m", 1)] * 99)
        await paused.until_waiting(99)
        await paused.steps.step()
        assert not paused.messages, "a registered sink loses no changes by their age"
        assert describe_problems([paused.sink.metrics.report("s", clock.now_ms())]) is None
        assert not (await paused.status()).is_nearly_lost
        await lb.submit_many("b", [("m", 1)])
        await paused.until_waiting(100)
        await paused.steps.step()
        await lb.submit_many("b", [("m", 1)])
        await paused.until_waiting(101)
        await paused.steps.step()
        (message,) = paused.messages
        assert message.startswith("b: 100 changes are not sent, 50% of what the board keeps")
        status = await paused.status()
        assert (status.is_nearly_lost, status.used, status.code) == (True, 0.505, None)
        assert describe_problems([paused.sink.metrics.report("s", clock.now_ms())]) is not None
        paused.target.is_up.set()
        await paused.until_waiting(0)
        assert describe_problems([paused.sink.metrics.report("s", clock.now_ms())]) is None

    play(laurels.Board("b", changes="1h", changes_max=200), test)


def test_an_unregistered_sink_warns_by_the_age_of_changes() -> None:
    """The board removes changes by their age if the sink is not registered, so the warning depends
    on their age, too."""

    async def test(paused: Paused) -> None:
        lb, clock = paused.lb, paused.clock
        await lb.submit("b", "ann", 1)
        await paused.until_waiting(2)
        clock.advance(HOUR // 2 - 1)
        await paused.steps.step()
        assert not paused.messages
        clock.advance(1)
        await paused.steps.step()
        (message,) = paused.messages
        assert message.startswith("b: 2 changes are not sent, 50% of what the board keeps")

    play(laurels.Board("b", changes="1h"), test)


class Unreachable(Memory):
    """A target that cannot be connected to, or that cannot be asked for a position, until it is
    up."""

    def __init__(self, *, opens: bool) -> None:
        super().__init__()
        self._opens = opens
        self.is_up.clear()

    async def open(self) -> None:
        if not self._opens:
            self._ensure_up()

    async def position(self, board: str) -> str | None:
        self._ensure_up()
        return await super().position(board)

    def _ensure_up(self) -> None:
        if not self.is_up.is_set():
            raise TargetUnavailable("the target is down")


@pytest.mark.parametrize("opens", [False, True])
def test_a_sink_that_starts_while_its_target_is_down_shows_its_lag(opens: bool) -> None:
    """The lag is counted from the position that the store has. If the store has none, it is counted
    from the oldest change that is kept."""

    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(laurels.Board("b", changes="1h"))
            await lb.submit_many("b", [(f"m{i}", 1) for i in range(150)])
            target = Unreachable(opens=opens)
            waits: list[tuple[int, float]] = []

            async def sleep(_: float) -> None:
                waits.append((sink.metrics.waiting, sink.metrics.lag_seconds(clock.now_ms())))
                clock.advance(1_000)
                if len(waits) == 2:
                    target.is_up.set()

            def started() -> SinkRunner:
                waits.clear()
                target.is_up.clear()
                options = SinkOptions("s", until_end=True, what="changes")
                return SinkRunner(lb, target, options, now_ms=clock.now_ms, sleep=sleep)

            sink = started()
            await sink.run()
            assert waits == [(151, 0.0), (151, 1.0)]
            await lb.submit_many("b", [("late", 1)] * 5)
            sink = started()
            await sink.run()
            assert waits == [(5, 0.0), (5, 1.0)]
            assert sink.metrics.waiting == 0

    asyncio.run(main())
