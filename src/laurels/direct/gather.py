"""Gathering: writes for one board that come while a call is under way go together in the next.

Nobody waits on a timer: a lone write goes at once, and the more there are, the more each call
carries. Boards do not wait for each other.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from laurels.accept import joined
from laurels.commit import MAX_EVENTS, Ticket
from laurels.writes import FoldedWrite

CarryOut = Callable[[FoldedWrite], Awaitable[Sequence[Any]]]


class Gatherer:
    """Queues of writes, one for each board, and the tasks that empty them."""

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self._queues: dict[int, deque[Ticket]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        """Who is told of each call: its writes, and the seconds it took by a clock."""

    async def write(self, write: FoldedWrite) -> Any:
        """The result of a write once it is carried out; raises what refused it."""
        ticket = Ticket(write, asyncio.get_running_loop().create_future())
        number = 0 if write.board is None else write.board.number
        if number in self._queues:
            self._queues[number].append(ticket)
        else:
            self._queues[number] = deque([ticket])
            task = asyncio.create_task(self._empty(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        assert ticket.future is not None
        return await ticket.future

    async def finish(self) -> None:
        """Waits until everything that was queued is settled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _empty(self, number: int) -> None:
        queue = self._queues[number]
        while queue:
            for tickets, write in joined(_taken(queue)):
                await self._settle(tickets, write)
        del self._queues[number]

    async def _settle(self, tickets: list[Ticket], write: FoldedWrite) -> None:
        began = 0.0 if self.observed is None else self.observed[1]()
        try:
            for ticket, result in zip(tickets, await self._carry_out(write), strict=True):
                ticket.succeed(result)
        except Exception as error:
            for ticket in tickets:
                ticket.fail(error)
        for ticket in tickets:
            ticket.deliver()
        if self.observed is not None:
            told, clock = self.observed
            told(sum(ticket.weight for ticket in tickets), clock() - began)


def _taken(queue: deque[Ticket]) -> list[Ticket]:
    """The writes that go together now."""
    group = [queue.popleft()]
    weight = group[0].weight
    while queue and not group[-1].alone and not queue[0].alone:
        weight += queue[0].weight
        if weight > MAX_EVENTS:
            break
        group.append(queue.popleft())
    return group
