"""A target gets one call at a time. A connection to a database, for example, takes one statement
at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import laurels
from laurels.flows.sinks.options import SinkOptions
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.target import SinkPage

from .paying import NOON_MS, due_ids, play_day, prized
from .stepping import Memory, Steps, beside


class Serial(Memory):
    """A target that records which calls begin while another call is in progress."""

    def __init__(self) -> None:
        super().__init__()
        self.delivering, self.paid = asyncio.Event(), asyncio.Event()
        self.in_progress: list[str] = []
        self.overlaps: list[tuple[str, ...]] = []

    async def position(self, board: str) -> str | None:
        async with self._call(f"position of {board}"):
            return await super().position(board)

    async def deliver(self, page: SinkPage) -> None:
        async with self._call(f"page of {page.board}"):
            self.delivering.set()
            await super().deliver(page)
        if page.payouts is not None:
            self.paid.set()

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[None]:
        self.in_progress.append(name)
        if len(self.in_progress) > 1:
            self.overlaps.append(tuple(self.in_progress))
        try:
            yield
        finally:
            self.in_progress.remove(name)


class WaitingPayouts:
    """A replacement of the verb with which a sink counts the waiting payouts. It returns only after
    the target has begun to store a page of changes. Right after this call, the sink asks the target
    for its position in the payouts."""

    def __init__(self, lb: laurels.AsyncLeaderboards, target: Serial) -> None:
        self._verb, self._target = lb.waiting_payouts, target
        self.counted = asyncio.Event()

    async def count(self, **selection: object) -> object:
        await self._target.delivering.wait()
        try:
            return await self._verb(**selection)  # type: ignore[arg-type]
        finally:
            self.counted.set()


def test_the_position_in_the_payouts_is_asked_for_between_two_calls() -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOON_MS)
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(prized(changes="7d"))
            await play_day(lb, clock)
            target = Serial()
            target.is_up.clear()
            payouts = WaitingPayouts(lb, target)
            setattr(lb, "waiting_payouts", payouts.count)  # noqa: B010 (a method cannot be assigned)

            async def test() -> None:
                await payouts.counted.wait()
                for _ in range(20):  # let the event loop run the other tasks
                    await asyncio.sleep(0)
                assert target.in_progress == ["page of b"]
                target.is_up.set()
                await target.paid.wait()
                assert target.overlaps == []
                sent = [change.id for change in target.changes["payouts:"]]
                assert sent == await due_ids(lb)

            options = SinkOptions("s")
            await beside(
                SinkRunner(lb, target, options, now_ms=clock.now_ms, sleep=Steps().sleep), test
            )

    asyncio.run(play())
