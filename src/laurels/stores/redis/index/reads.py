"""Batching of reads: queries of one shard that arrive together are sent in few calls, since the
call itself costs more than most queries.

There is no timer. The queries of one iteration of the event loop are sent at its end, divided
evenly over the calls that may be made, so that some are on their way while the server answers
others. When all calls are in progress, later queries wait for one of them to be answered. A request
that several queries have in common is sent once and its result is shared, since results are never
changed. All requests of a call are answered from one state, newer than the arrival of each query.

A call whose connection was lost at once is made once more; a read changes nothing, so the caller
does not need to know.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from math import ceil
from typing import Protocol

from msgspec import Struct

from laurels.core.requests import ReadRequest
from laurels.errors.index_server import IndexUnavailable
from laurels.stores.redis.remote import Opened, Reading

UNDER_WAY = 4
"""The most calls in progress for one shard."""
LEAST = 8
"""The least number of queries in a call before further ones are sent in another call."""
WEIGHT_MOST = 1_000
"""About the most entries that one call reads: that blocks the server for half a millisecond. A
query for more is sent alone."""
ASK_WEIGHT = 20
"""The fixed cost of a read request, in entries."""
AGAIN_SECONDS = 0.5
"""A call that failed within this time is repeated once."""
PAUSE_SECONDS = 0.05


class _Wanted(Struct, frozen=True, gc=False):
    opened: Opened
    asks: Sequence[ReadRequest]
    now_ms: int
    due_ms: int
    reading: "asyncio.Future[Reading]"

    def goes_with(self, other: "_Wanted") -> bool:
        """Return whether both are for the same version of the board, and valid until the same
        time."""
        return self.due_ms == other.due_ms and self.opened.version == other.opened.version


class _Line:
    """The waiting queries of one shard, and the number of its calls in progress."""

    def __init__(self) -> None:
        self.waiting: deque[_Wanted] = deque()
        self.under_way = 0
        self.called = False
        """Whether `_look_at` is scheduled for the end of the current iteration of the loop."""


class Read(Protocol):
    """A function that makes one call."""

    async def __call__(
        self, board: Opened, asks: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> Reading: ...


class Reads:
    """Sends many queries in few calls."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lines: dict[tuple[int, int], _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def read(
        self, board: Opened, asks: Sequence[ReadRequest], *, now_ms: int, due_ms: int
    ) -> "asyncio.Future[Reading]":
        """Answer all requests from one state. Raises the errors of the index."""
        loop = asyncio.get_running_loop()
        reading: asyncio.Future[Reading] = loop.create_future()
        place = board.number, board.shard
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = _Line()
        line.waiting.append(_Wanted(board, asks, now_ms, due_ms, reading))
        self._look_at(place, line, loop)
        return reading

    def _look_at(
        self, place: tuple[int, int], line: _Line, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Make calls at the end of this iteration of the loop, if any can be made."""
        if not line.called and line.under_way < UNDER_WAY:
            line.called = True
            loop.call_soon(self._call, place, line)

    def _call(self, place: tuple[int, int], line: _Line) -> None:
        """Divide the waiting queries over the calls that may be made."""
        line.called = False
        while line.waiting and line.under_way < UNDER_WAY:
            share = ceil(len(line.waiting) / (UNDER_WAY - line.under_way))
            group = _taken(line.waiting, max(LEAST, share))
            line.under_way += 1
            task = asyncio.create_task(self._ask(place, line, group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not line.under_way:
            self._lines.pop(place, None)

    async def _ask(self, place: tuple[int, int], line: _Line, group: "_Group") -> None:
        try:
            read = await self._answer(group)
        except BaseException as error:
            for each in group.wanted:
                if not each.reading.done():
                    each.reading.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for each in group.wanted:
                if not each.reading.done():
                    found = [read.found[group.asks[ask]] for ask in each.asks]
                    each.reading.set_result(Reading(found, read.offset, read.refresh_states))
        finally:
            line.under_way -= 1
            self._look_at(place, line, asyncio.get_running_loop())

    async def _answer(self, group: "_Group") -> Reading:
        first = group.wanted[0]
        read = partial(
            self._read,
            first.opened,
            list(group.asks),
            now_ms=max(each.now_ms for each in group.wanted),
            due_ms=first.due_ms,
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            return await read()
        except IndexUnavailable as error:
            if not error.may_have_applied or loop.time() - began > AGAIN_SECONDS:
                raise
        await asyncio.sleep(PAUSE_SECONDS)
        return await read()


class _Group:
    """Queries that share a call, and their distinct requests, each with its place in the call."""

    def __init__(self) -> None:
        self.wanted: list[_Wanted] = []
        self.asks: dict[ReadRequest, int] = {}

    def take(self, wanted: _Wanted) -> None:
        self.wanted.append(wanted)
        for ask in wanted.asks:
            self.asks.setdefault(ask, len(self.asks))


def _taken(waiting: deque[_Wanted], most: int) -> _Group:
    """Take the queries for the next call from those that wait."""
    group = _Group()
    group.take(waiting.popleft())
    first = group.wanted[0]
    weight = sum(map(_weight, group.asks))
    while waiting and len(group.wanted) < most and first.goes_with(waiting[0]):
        more = sum([_weight(ask) for ask in waiting[0].asks if ask not in group.asks])
        if more and weight + more > WEIGHT_MOST:
            break
        weight += more
        group.take(waiting.popleft())
    return group


def _weight(ask: ReadRequest) -> int:
    listed = 0 if ask.scopes is None else ask.scopes.limit
    return (
        ASK_WEIGHT
        + listed
        + len(ask.members)
        + sum([max(0, span.high - span.low) for span in ask.spans])
    )
