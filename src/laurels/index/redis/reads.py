"""Questions about one shard that come while others are under way are asked together in the next
call: a call costs more than what most questions ask.

Nobody waits on a timer, and a lone question goes at once. All that is asked in one call is answered
of one state.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from laurels.index.asking import Ask
from laurels.index.remote import Opened, Reading

UNDER_WAY = 2
"""Calls for one shard at a time, so that one is on its way while the server answers another."""
WEIGHT_MOST = 500
"""The entries that one call asks for, about; a question for more goes alone."""


class _Wanted(NamedTuple):
    opened: Opened
    asks: Sequence[Ask]
    now_ms: int
    due_ms: int
    weight: int
    reading: "asyncio.Future[Reading]"

    def goes_with(self, other: "_Wanted") -> bool:
        """Whether both are about the board as it is known now, until the same instant."""
        return self.due_ms == other.due_ms and self.opened.version == other.opened.version


class _Line:
    """The questions about one shard that wait, and how many calls are under way."""

    def __init__(self) -> None:
        self.waiting: deque[_Wanted] = deque()
        self.under_way = 0


class Read(Protocol):
    """How one call is made."""

    async def __call__(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading: ...


class Reads:
    """Asks many questions by few calls."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lines: dict[tuple[int, int], _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(
        self, board: Opened, asks: Sequence[Ask], *, now_ms: int, due_ms: int
    ) -> Reading:
        """Answers asks from one state. Raises as the index does."""
        place = board.number, board.shard
        line = self._lines.setdefault(place, _Line())
        if line.under_way < UNDER_WAY and not line.waiting:
            line.under_way += 1
            try:
                return await self._read(board, asks, now_ms=now_ms, due_ms=due_ms)
            finally:
                self._go_on(place, line)
        reading = asyncio.get_running_loop().create_future()
        line.waiting.append(_Wanted(board, asks, now_ms, due_ms, sum(map(_weight, asks)), reading))
        found: Reading = await reading
        return found

    def _go_on(self, place: tuple[int, int], line: _Line) -> None:
        """After a call: the next one, or nothing more to do for the shard."""
        if line.waiting:
            task = asyncio.create_task(self._ask(place, line, _taken(line.waiting)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        line.under_way -= 1
        if not line.under_way:
            self._lines.pop(place, None)

    async def _ask(self, place: tuple[int, int], line: _Line, group: list[_Wanted]) -> None:
        first = group[0]
        try:
            read = await self._read(
                first.opened,
                [ask for each in group for ask in each.asks],
                now_ms=max(each.now_ms for each in group),
                due_ms=first.due_ms,
            )
        except BaseException as error:
            for each in group:
                if not each.reading.done():
                    each.reading.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            at = 0
            for each in group:
                found = read.found[at : at + len(each.asks)]
                at += len(each.asks)
                if not each.reading.done():
                    each.reading.set_result(Reading(found, read.offset))
        finally:
            self._go_on(place, line)


def _weight(ask: Ask) -> int:
    return 1 + len(ask.members) + sum(max(0, span.high - span.low) for span in ask.spans)


def _taken(waiting: deque[_Wanted]) -> list[_Wanted]:
    """The questions that are asked together now."""
    group = [waiting.popleft()]
    weight = group[0].weight
    while waiting and group[0].goes_with(waiting[0]):
        weight += waiting[0].weight
        if weight > WEIGHT_MOST:
            break
        group.append(waiting.popleft())
    return group
