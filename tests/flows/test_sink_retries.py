"""If a sink cannot send the changes of a board, it tries again once in each round, since an
operator may have removed the cause. A board that is gone is not shown as waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import laurels
from laurels.errors.sinks import SinkBehind, TargetRefused
from laurels.flows.sinks.metrics import describe_problems
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.round import ROUND_SECONDS
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.status import reset
from laurels.flows.sinks.target import SinkPage

from .sinking import NOW_MS
from .stepping import QUERIES, Counted, Memory, Steps, beside

OPTIONS = SinkOptions("s", what="changes")


class Refusing(Memory):
    """A target that refuses the changes of some boards, and whose positions can be reset."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    async def deliver(self, page: SinkPage) -> None:
        if page.board in self.refused:
            self.attempts += 1
            raise TargetRefused("permission denied")
        await super().deliver(page)

    async def reset(self, board: str, position: str | None) -> None:
        assert position is not None
        self.positions[board] = position


class Retried:
    """A sink of the boards b and c. The clock advances with each sleep."""

    def __init__(self, lb: laurels.AsyncLeaderboards, clock: laurels.ManualClock) -> None:
        self.lb, self.clock = lb, clock
        self.target, self.steps = Refusing(), Steps()
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

    async def pass_seconds(self, seconds: float) -> None:
        """Let the sink sleep for this time in total."""
        while seconds > 0:
            slept = await self.steps.step()
            self.clock.advance(int(slept * 1_000))
            await self.counted.quiet()
            seconds -= slept

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self.pass_seconds(0.01)

    async def until_sent(self, board: str, member: str) -> None:
        changes = self.target.changes.setdefault(board, [])
        await self.until(lambda: any(change.member == member for change in changes))


def play(test: Callable[[Retried], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            for name in ("b", "c"):
                await lb.create(laurels.Board(name, changes="1h"))
            retried = Retried(lb, clock)
            await beside(retried.sink, lambda: test(retried))

    asyncio.run(main())


def test_a_refused_board_is_tried_again_once_a_round() -> None:
    async def test(retried: Retried) -> None:
        target, sink = retried.target, retried.sink
        target.refused.add("b")
        await retried.lb.submit("b", "ann", 1)
        await retried.until(lambda: "b" in sink.failed)
        since = sink.metrics.of("b").wait
        assert since is not None
        assert since.next_ms is not None
        before = target.attempts
        await retried.pass_seconds(3 * ROUND_SECONDS)
        assert 2 <= target.attempts - before <= 4
        wait = sink.metrics.of("b").wait
        assert wait is not None
        assert (wait.code, wait.since_ms) == ("target_refused", since.since_ms)
        assert wait.attempts > since.attempts
        assert len(retried.messages) == 1, "the same error is not reported again"
        await retried.lb.submit("c", "bob", 1)
        await retried.until_sent("c", "bob")
        target.refused.clear()
        await retried.pass_seconds(2 * ROUND_SECONDS)
        await retried.until_sent("b", "ann")
        assert not sink.failed
        assert sink.metrics.failing_seconds(retried.clock.now_ms()) == 0

    play(test)


def test_a_running_sink_continues_at_a_position_that_was_reset() -> None:
    async def test(retried: Retried) -> None:
        lb, target, sink = retried.lb, retried.target, retried.sink
        target.refused.add("b")
        await lb.submit("b", "ann", 1)
        await retried.until(lambda: "b" in sink.failed)
        target.positions["b"] = (await lb.changes("c", after="now")).cursor
        await retried.pass_seconds(2 * ROUND_SECONDS)
        assert isinstance(sink.failed["b"], SinkBehind)
        assert describe_problems([sink.metrics.report("s", NOW_MS)]) is not None
        target.refused.clear()
        await reset(lb, target, OPTIONS, initial=False)
        await retried.pass_seconds(2 * ROUND_SECONDS)
        assert describe_problems([sink.metrics.report("s", NOW_MS)]) is None
        assert not sink.failed
        await lb.submit("b", "late", 1)
        await retried.pass_seconds(1)
        await retried.until_sent("b", "late")

    play(test)


def test_a_deleted_board_has_no_waiting_changes() -> None:
    async def test(retried: Retried) -> None:
        target, sink = retried.target, retried.sink
        for refused in ({"b"}, set[str]()):
            target.refused = refused
            target.is_up.clear()
            await retried.lb.create(laurels.Board("b", changes="1h"), exist_ok=True)
            await retried.lb.submit_many("b", [("ann", 1)] * 250)
            await retried.until(lambda: sink.metrics.waiting > 0)
            await retried.lb.delete("b")
            target.is_up.set()
            await retried.pass_seconds(2 * ROUND_SECONDS)
            if refused:  # the changes of the deleted board are tried again until they expire
                assert sink.metrics.waiting == 252
                assert isinstance(sink.failed["b"], TargetRefused)
                retried.clock.advance(3_600_000)
                await retried.pass_seconds(2 * ROUND_SECONDS)
            metrics = sink.metrics.report("s", retried.clock.now_ms() + 60_000)
            assert (metrics.waiting, metrics.lag_seconds, metrics.failing_seconds) == (0, 0, 0)
            assert not sink.failed

    play(test)
