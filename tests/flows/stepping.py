"""Helpers to run a sink step by step: a test ends each sleep of the sink. The target is in memory,
and the queries of the sink are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import laurels
from laurels.core.changes.answers import Change, ChangedBoards
from laurels.flows.sinks.runner import SinkRunner
from laurels.flows.sinks.target import SinkPage

QUERIES = ("changes", "changed_boards", "boards", "position", "submit_many")
"""The verbs that a sink calls and whose calls are counted."""


async def beside(sink: SinkRunner, test: Callable[[], Awaitable[None]]) -> None:
    """Run a test and a sink concurrently until one of them ends. If that one has failed, raise its
    error. The sink must not end before the test."""
    running = asyncio.create_task(sink.run())
    testing = asyncio.ensure_future(test())
    tasks = {running, testing}
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        assert testing.done(), "the sink ended before the test"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Memory:
    """A target in memory, which keeps the received changes and positions. While `is_up` is cleared,
    deliveries wait."""

    keeps_positions = True
    holds_state = False
    limit = 100

    def __init__(self) -> None:
        self.positions: dict[str, str] = {}
        self.changes: dict[str, list[Change]] = {}
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.attempts = 0
        self._delivered = asyncio.Event()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def position(self, board: str) -> str | None:
        return self.positions.get(board)

    async def reset(self, board: str, position: str | None) -> None: ...

    async def deliver(self, page: SinkPage) -> None:
        self.attempts += 1
        await self.is_up.wait()
        self.positions[page.board] = page.after
        self.changes.setdefault(page.board, []).extend(page.changes)
        self._delivered.set()

    async def until(self, board: str, member: str) -> None:
        """Wait until a change of a member has arrived."""
        while all(change.member != member for change in self.changes.get(board, ())):
            self._delivered.clear()
            await self._delivered.wait()


class Steps:
    """A replacement of `sleep` in which every sleep ends when the test calls `step`."""

    def __init__(self) -> None:
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []
        self._begun = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping.append((seconds, future))
        self._begun.set()
        await future

    async def asleep(self) -> None:
        """Wait until the sink is sleeping."""
        while not self._sleeping:
            self._begun.clear()
            await self._begun.wait()

    async def step(self) -> float:
        """End the current sleep, and wait until the sink sleeps again. Return the number of seconds
        for which the ended sleep was requested."""
        await self.asleep()
        seconds, future = self._sleeping.pop()
        future.set_result(None)
        await self.asleep()
        return seconds


class Counted:
    """Counts of the queries that a sink makes."""

    def __init__(self, lb: laurels.AsyncLeaderboards, verbs: Sequence[str]) -> None:
        self.begun: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.loses_hints = False
        self.named: list[str] | None = None
        self._ended: Counter[str] = Counter()
        self._one_ended = asyncio.Event()
        for verb in verbs:
            setattr(lb, verb, self._counting(verb, getattr(lb, verb)))

    def _counting(self, verb: str, call: Any) -> Any:
        async def counting(*args: Any, **options: Any) -> Any:
            self.begun[verb] += 1
            if verb == "changes":
                self.read[args[0]] += 1
            try:
                answer = await call(*args, **options)
            finally:
                self._ended[verb] += 1
                self._one_ended.set()
            if isinstance(answer, ChangedBoards):
                if self.loses_hints:
                    answer = ChangedBoards([], answer.cursor)
                self.named = answer.boards
            return answer

        return counting

    async def quiet(self) -> None:
        """Wait until no query is in progress."""
        while self._ended != self.begun:
            self._one_ended.clear()
            await self._one_ended.wait()

    def forget(self) -> None:
        """Reset the counts."""
        self.named = None
        self.begun.clear()
        self._ended.clear()
        self.read.clear()
