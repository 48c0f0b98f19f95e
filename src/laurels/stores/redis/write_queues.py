"""Queues of writes. Writes to a board that arrive during a call are sent together in the next call.

There is no timer. A single write is sent at once; when many writes arrive, many of them share a
call. Writes to a board do not wait for writes to other boards.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from laurels.errors import PartlyCounted
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.intake.accept import join_writes
from laurels.stores.intake.commit import MAX_EVENTS
from laurels.stores.intake.tickets import Ticket
from laurels.stores.intake.writes import FoldedWrite
from laurels.stores.redis.connection.deadline import VERB_SECONDS, ends_at

CarryOut = Callable[[FoldedWrite], Awaitable[Sequence[Any]]]


class WriteQueues:
    """Queues of writes, one for each board, and the tasks that empty them."""

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self._queues: dict[int, deque[Ticket]] = {}
        self._arrived: dict[int, deque[float]] = {}
        """The arrival time of each write in the queue, by board number."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.observed: tuple[Callable[[int, float], None], Callable[[], float]] | None = None
        """An observer and its clock. The observer is called after each write with the number of
        events in it and the seconds it took."""

    async def write(self, write: FoldedWrite) -> Any:
        """Carry out a write. Return its result, or raise the error that it fails with."""
        loop = asyncio.get_running_loop()
        ticket = Ticket(write, loop.create_future())
        number = 0 if write.board is None else write.board.number
        if number in self._queues:
            self._queues[number].append(ticket)
            self._arrived[number].append(loop.time())
        else:
            self._queues[number], self._arrived[number] = deque([ticket]), deque([loop.time()])
            task = asyncio.create_task(self._drain(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        assert ticket.future is not None
        return await ticket.future

    async def finish(self) -> None:
        """Wait until all queued writes have their results."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _drain(self, number: int) -> None:
        """Carry out the writes of a queue. The time limit of a write begins when the write arrived
        or, if that is later, when the index last answered."""
        queue, arrived = self._queues[number], self._arrived[number]
        loop = asyncio.get_running_loop()
        answered = loop.time()
        while queue:
            group = _next_group(queue)
            arrived_at = min([arrived.popleft() for _ in group])
            for tickets, write in join_writes(group):
                with ends_at(max(arrived_at, answered) + VERB_SECONDS):
                    if await self._settle(tickets, write):
                        answered = loop.time()
        del self._queues[number], self._arrived[number]

    async def _settle(self, tickets: list[Ticket], write: FoldedWrite) -> bool:
        """Carry out a write, and give each of its tickets a result or an error. Return whether the
        index answered."""
        answered = True
        began = 0.0 if self.observed is None else self.observed[1]()
        try:
            for ticket, result in zip(tickets, await self._carry_out(write), strict=True):
                ticket.succeed(result)
        except Exception as error:
            answered = not isinstance(error, IndexUnavailable | PartlyCounted)
            for ticket in tickets:
                ticket.fail(_error_for(ticket, error))
        for ticket in tickets:
            ticket.deliver()
        if self.observed is not None:
            observer, clock = self.observed
            observer(sum(ticket.weight for ticket in tickets), clock() - began)
        return answered


def _error_for(ticket: Ticket, error: Exception) -> Exception:
    """Return the error for one of several joined writes. For a write of one event, PartlyCounted
    becomes IndexUnavailable, since one event cannot be counted in part."""
    if isinstance(error, PartlyCounted) and ticket.weight == 1:
        return IndexUnavailable(error.what, may_have_applied=True)
    return error


def _next_group(queue: deque[Ticket]) -> list[Ticket]:
    """Take from the queue the writes that are carried out together next."""
    group = [queue.popleft()]
    weight = group[0].weight
    while queue and not group[-1].exclusive and not queue[0].exclusive:
        weight += queue[0].weight
        if weight > MAX_EVENTS:
            break
        group.append(queue.popleft())
    return group
