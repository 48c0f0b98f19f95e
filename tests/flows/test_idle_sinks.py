"""While nothing is written, a sink of many boards sends the store one small query per poll, for any
number of boards."""

from __future__ import annotations

import asyncio
from typing import Any

import laurels
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.round import ROUND_SECONDS, BoardRound
from laurels.flows.sinks.runner import SinkRunner

from .sinking import NOW_MS
from .stepping import QUERIES, Counted, Memory, Steps, beside

BOARDS = 200


class Idle:
    """A sink of many boards that has sent everything."""

    def __init__(self, lb: laurels.AsyncLeaderboards) -> None:
        self.lb = lb
        self.target = Memory()
        self.steps = Steps()
        self.counted = Counted(lb, QUERIES)
        self.sink = SinkRunner(
            lb,
            self.target,
            SinkOptions("s", what="changes"),
            now_ms=lambda: NOW_MS,
            sleep=self.steps.sleep,
        )

    async def settle(self) -> None:
        """Wait until the sink has reported its position in each board, a query for changed boards
        has found none, and no query is in progress."""
        has_reported = False
        while not has_reported or self.counted.named != []:
            await self.counted.quiet()
            has_reported = self.counted.begun["submit_many"] == BOARDS
            await self.steps.step()
        await self.counted.quiet()
        self.counted.forget()

    async def pass_seconds(self, seconds: float) -> int:
        """Let the sink sleep for this time in total. Return the number of sleeps."""
        steps = 0
        while seconds > 0:
            seconds -= await self.steps.step()
            await self.counted.quiet()
            steps += 1
        return steps


def play(test: Any) -> None:
    async def main() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            for number in range(BOARDS):
                await lb.create(laurels.Board(f"b{number}", changes="1h"))
            idle = Idle(lb)

            async def settled() -> None:
                await idle.settle()
                await test(idle)

            await beside(idle.sink, settled)

    asyncio.run(main())


def test_an_idle_store_gets_a_query_at_each_poll_and_one_for_each_board_a_round() -> None:
    async def test(idle: Idle) -> None:
        steps = await idle.pass_seconds(2 * ROUND_SECONDS)
        assert idle.counted.begun["changed_boards"] == steps
        assert idle.counted.begun["boards"] <= 3
        assert idle.counted.begun["position"] == idle.counted.begun["submit_many"] == 0
        assert set(idle.counted.read) == {f"b{number}" for number in range(BOARDS)}
        assert BOARDS <= idle.counted.begun["changes"] <= 3 * BOARDS
        assert steps < 150, "it polls once a second when nothing happens"

    play(test)


def test_a_change_arrives_after_one_poll() -> None:
    async def test(idle: Idle) -> None:
        await idle.lb.submit("b17", "ann", 1)
        await idle.steps.step()
        assert idle.counted.named == ["b17"]
        await idle.target.until("b17", "ann")
        await idle.counted.quiet()
        others = BOARDS / ROUND_SECONDS + 1
        assert idle.counted.begun["changes"] - idle.counted.read["b17"] <= others

    play(test)


def test_a_new_board_is_found_by_its_first_change() -> None:
    async def test(idle: Idle) -> None:
        await idle.lb.create(laurels.Board("late", changes="1h"))
        await idle.lb.submit("late", "ann", 1)
        await idle.steps.step()
        await idle.target.until("late", "ann")
        assert idle.counted.begun["boards"] == 0

    play(test)


def test_a_change_without_a_hint_arrives_within_a_round() -> None:
    async def test(idle: Idle) -> None:
        idle.counted.loses_hints = True
        await idle.lb.submit("b17", "ann", 1)
        await idle.lb.create(laurels.Board("late", changes="1h"))
        await idle.lb.submit("late", "bob", 1)
        await idle.pass_seconds(3 * ROUND_SECONDS)
        await idle.target.until("b17", "ann")
        await idle.target.until("late", "bob")

    play(test)


def test_a_round_visits_each_board_once() -> None:
    for count in (0, 1, 7, 200, 20_000):
        names, dealt, seconds = [str(i) for i in range(count)], [], 0.0
        boards = BoardRound()
        assert boards.after(1.0) == ()
        boards.begin(names)
        while not boards.is_over:
            dealt.append(boards.after(1.0))
            seconds += 1.0
        assert [name for each in dealt for name in each] == names
        assert seconds == max(ROUND_SECONDS, count / 100)
        assert max(map(len, dealt)) <= 101
