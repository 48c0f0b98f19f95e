"""Gathering: concurrent writes become one commit.

Writers put their writes into a queue and wait; one thread takes everything that is queued,
commits it as one log entry and wakes whoever waited. Nobody waits on a timer, so a lone write
goes at once, and under load each flush to the disk carries all that arrived during the one
before. Tasks of an event loop wait for a future instead, so a loop never waits for a disk.

Commits have a thread of their own because signal handlers and Ctrl-C run in the main thread:
there they may find a writer waiting, never a commit half done. A writer that is interrupted
while it waits has its write committed all the same.
"""

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from .errors import Closed, LaurelsError

MAX_EVENTS = 100_000
MAX_WRITES = 1_000


class Write(Protocol):
    """What a caller wants committed."""

    @property
    def weight(self) -> int:
        """How many events it carries."""

    @property
    def alone(self) -> bool:
        """Whether it needs a commit of its own, because later writes are judged by it."""


class Ticket:
    """A write in the queue and, once it is settled, its result or its error.

    A thread that waits for it sleeps on `_settled`; a task waits for `future` instead.
    """

    done = False
    _settled: "threading.Lock | None" = None
    _result: Any = None
    _error: BaseException | None = None

    def __init__(self, write: Any, future: "asyncio.Future[Any] | None" = None) -> None:
        self.write = write
        self.future = future
        if future is None:
            self._settled = threading.Lock()
            self._settled.acquire()

    def succeed(self, result: Any) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def wake(self) -> None:
        if self._settled is not None:
            self._settled.release()

    def result(self) -> Any:
        """Waits until the ticket is settled; its result, or its error raised."""
        assert self._settled is not None, "a task awaits its future"
        self._settled.acquire()
        if self._error is not None:
            raise self._error
        return self._result

    def deliver(self) -> None:
        """Hands the outcome to the awaiting task; called on its loop."""
        if self.future is None or self.future.done():
            return
        if self._error is not None:
            self.future.set_exception(self._error)
        else:
            self.future.set_result(self._result)


Commit = Callable[[list[Ticket]], None]
Afterwards = Callable[[int], None]


class Committer:
    """The queue and its thread. `commit` is a method that settles every ticket it is given;
    `afterwards` one that is called with the weight of each group once its writers are awake.

    The thread holds its owner weakly: a store that nobody holds any more ends with its thread.
    """

    def __init__(self, commit: Commit, afterwards: Afterwards) -> None:
        self._queue: SimpleQueue[Ticket | None] = SimpleQueue()
        # Reentrant, and what it guards may be done within itself: signal handlers write, too.
        self._gate = threading.RLock()
        self._closed = False
        self._thread = threading.Thread(
            target=_run,
            args=(self._queue, weakref.WeakMethod(commit), weakref.WeakMethod(afterwards)),
            name="laurels-commit",
            daemon=True,
        )
        self._thread.start()
        weakref.finalize(self, self._queue.put, None)

    def submit(self, write: Write) -> Any:
        """Commits a write and answers its result; raises what refused it."""
        ticket = Ticket(write)
        self._put(ticket)
        return ticket.result()

    def submit_async(self, write: Write) -> "asyncio.Future[Any]":
        """The same for a caller on an event loop: a future of the result."""
        future = asyncio.get_running_loop().create_future()
        self._put(Ticket(write, future))
        return future

    def close(self) -> None:
        """Commits what is queued and ends the thread; later writes are refused as Closed."""
        with self._gate:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _put(self, ticket: Ticket) -> None:
        with self._gate:
            if self._closed:
                raise Closed("the store is closed")
            self._queue.put(ticket)


def _run(
    queue: "SimpleQueue[Ticket | None]",
    commit: "weakref.WeakMethod[Commit]",
    afterwards: "weakref.WeakMethod[Afterwards]",
) -> None:
    """The thread: commits group after group until it is told to end."""
    following: Ticket | None = None
    ended = False
    while not ended:
        first = following or queue.get()
        if first is None or (now := commit()) is None:
            return
        group, weight, following, ended = _gathered(first, queue)
        try:
            now(group)
        except Exception as error:
            for ticket in group:
                if not ticket.done:
                    ticket.fail(error)
        del now
        _wake(group)
        if (finish := afterwards()) is not None:
            with suppress(LaurelsError):  # it ended the store: the next commit tells its writers
                finish(weight)
        del finish


def _gathered(
    first: Ticket, queue: "SimpleQueue[Ticket | None]"
) -> tuple[list[Ticket], int, Ticket | None, bool]:
    """A group that may be committed at once, its weight, the ticket after it that may not join it,
    and whether the queue has come to its end."""
    group, weight = [first], first.write.weight
    while len(group) < MAX_WRITES and not first.write.alone:
        try:
            ticket = queue.get_nowait()
        except Empty:
            break
        if ticket is None:
            return group, weight, None, True
        more = ticket.write.weight
        if ticket.write.alone or weight + more > MAX_EVENTS:
            return group, weight, ticket, False
        weight += more
        group.append(ticket)
    return group, weight, None, False


def _wake(group: list[Ticket]) -> None:
    """Wakes the threads and, each once, the loops that wait for tickets of this group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in group:
        if ticket.future is None:
            ticket.wake()
        else:
            by_loop.setdefault(ticket.future.get_loop(), []).append(ticket)
    for loop, tickets in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver, tickets)


def _deliver(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.deliver()
