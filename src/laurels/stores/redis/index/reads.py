"""Sends queries that arrive together to a shard in few calls, since a call costs more than most
queries.

There is no timer. The queries of one iteration of the event loop are sent at its end, divided
evenly into the calls that may be made, so that some calls are in transit while the server answers
others. When the maximum number of calls is in progress, later queries wait until a call is
answered. If several queries have the same request, it is sent once and they share its result, which
is immutable. All requests of a call are answered from one state of the server. The call is sent
after all its queries have arrived here, so this state is never older than the arrival of any of
them.

If the connection is lost soon after a call was sent, the call is repeated once. This is safe, as
repeating a read has no effect.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context, copy_context
from functools import partial
from math import ceil
from typing import Protocol

from msgspec import Struct

from laurels.core.requests import ReadRequest
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.connection.deadline import latest
from laurels.stores.redis.remote import Opened, Reading

MAX_CALLS = 4
"""The maximum number of calls in progress for one shard."""
MIN_READS = 8
"""If at least this many queries are waiting, a call takes at least this many of them, so that a few
queries are not divided over several calls."""
MAX_WEIGHT = 1_000
"""The approximate maximum number of entries that one call reads, which blocks the server for about
half a millisecond. A query for more entries is sent alone."""
REQUEST_WEIGHT = 20
"""The fixed cost of a read request, expressed as a number of entries."""
RETRY_SECONDS = 0.5
"""A call that fails within this number of seconds is repeated once."""
PAUSE_SECONDS = 0.05


class _PendingRead(Struct, frozen=True, gc=False):
    opened: Opened
    requests: Sequence[ReadRequest]
    now_ms: int
    due_ms: int
    reading: "asyncio.Future[Reading]"
    context: Context
    """The context of the query, which has its deadline."""

    def is_compatible(self, other: "_PendingRead") -> bool:
        """Return whether two reads can share a call: they are for the same version of the board
        and of its hidden members, and valid until the same time."""
        own, others = self.opened, other.opened
        return (
            self.due_ms == other.due_ms
            and own.version_text == others.version_text
            and own.closings == others.closings
            and own.hidden == others.hidden
        )


class _ShardQueue:
    """The waiting queries of one shard, and the number of its calls in progress."""

    def __init__(self) -> None:
        self.waiting: deque[_PendingRead] = deque()
        self.in_progress = 0
        self.scheduled = False
        """Whether `_start_calls` will run at the end of the current iteration of the loop."""


class Read(Protocol):
    """The type of a function that makes one call and returns its results."""

    async def __call__(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading: ...


class Reads:
    """Sends many queries in few calls."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._queues: dict[tuple[int, int], _ShardQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def read(
        self, board: Opened, requests: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> "asyncio.Future[Reading]":
        """Return a future of the results of all requests, which come from one state. The future
        raises the errors of the index."""
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[Reading] = loop.create_future()
        place = board.number, board.shard
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = _ShardQueue()
        queue.waiting.append(_PendingRead(board, requests, now_ms, due_ms, reading, copy_context()))
        self._schedule(place, queue, loop)
        return reading

    def _schedule(
        self, place: tuple[int, int], queue: _ShardQueue, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Schedule `_start_calls` for the end of this iteration of the loop, unless the maximum
        number of calls is in progress."""
        if not queue.scheduled and queue.in_progress < MAX_CALLS:
            queue.scheduled = True
            loop.call_soon(self._start_calls, place, queue)

    def _start_calls(self, place: tuple[int, int], queue: _ShardQueue) -> None:
        """Divide the waiting queries over the calls that may be made."""
        queue.scheduled = False
        while queue.waiting and queue.in_progress < MAX_CALLS:
            share = ceil(len(queue.waiting) / (MAX_CALLS - queue.in_progress))
            group = _next_group(queue.waiting, max(MIN_READS, share))
            queue.in_progress += 1
            # The context of this function may be that of an earlier query, whose deadline has
            # passed.
            context = latest(each.context for each in group.reads)
            task = asyncio.create_task(self._run_call(place, queue, group), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not queue.in_progress:
            self._queues.pop(place, None)

    async def _run_call(self, place: tuple[int, int], queue: _ShardQueue, group: "_Group") -> None:
        try:
            read = await self._read_group(group)
        except BaseException as error:
            for each in group.reads:
                if not each.reading.done():
                    each.reading.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for each in group.reads:
                if not each.reading.done():
                    results = [read.results[group.requests[request]] for request in each.requests]
                    each.reading.set_result(Reading(results, read.offset, read.refresh_states))
        finally:
            queue.in_progress -= 1
            self._schedule(place, queue, asyncio.get_running_loop())

    async def _read_group(self, group: "_Group") -> Reading:
        first = group.reads[0]
        read = partial(
            self._read,
            first.opened,
            list(group.requests),
            now_ms=max(each.now_ms for each in group.reads),
            due_ms=first.due_ms,
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await read()
        except IndexUnavailable as error:
            if not error.may_have_applied or loop.time() - began > RETRY_SECONDS:
                raise
        await asyncio.sleep(PAUSE_SECONDS)
        return await read()


class _Group:
    """Queries that share a call, and their distinct requests with their indices in the call."""

    def __init__(self) -> None:
        self.reads: list[_PendingRead] = []
        self.requests: dict[ReadRequest, int] = {}

    def add(self, read: _PendingRead) -> None:
        self.reads.append(read)
        for request in read.requests:
            self.requests.setdefault(request, len(self.requests))


def _next_group(waiting: deque[_PendingRead], most: int) -> _Group:
    """Take the queries for the next call from the waiting queries."""
    group = _Group()
    group.add(waiting.popleft())
    first = group.reads[0]
    weight = sum(map(_weight, group.requests))
    while waiting and len(group.reads) < most and first.is_compatible(waiting[0]):
        more = sum(
            [_weight(request) for request in waiting[0].requests if request not in group.requests]
        )
        if more and weight + more > MAX_WEIGHT:
            break
        weight += more
        group.add(waiting.popleft())
    return group


def _weight(request: ReadRequest) -> int:
    listed = sum(each.limit for each in (request.scopes, request.walk) if each is not None)
    return (
        REQUEST_WEIGHT
        + listed
        + len(request.members)
        + sum([max(0, span.high - span.low) for span in request.spans])
    )
