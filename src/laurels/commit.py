"""Gathering: concurrent writes become one commit.

Writers put their writes into an inbox and wait; one thread takes everything that is there,
commits it as one log entry and wakes whoever waited. A lone write goes at once. Behind a group,
the next waits until it is as large, or for twice as long as the group took: those who were answered
just now are about to write again, and a commit costs about the same whether it carries one write or
thirty. Tasks of an event loop wait for a future instead, so a loop never waits for a disk.

Commits have a thread of their own because signal handlers and Ctrl-C run in the main thread:
there they may find a writer waiting, never a commit half done. A writer that is interrupted
while it waits has its write committed all the same.
"""

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, perf_counter
from typing import Any, Protocol

from .errors import Closed, LaurelsError

MAX_EVENTS = 100_000
MAX_WRITES = 1_000
PATIENCE = 2
MOST_SECONDS = 0.005
"""A group waits for as many as the last had: up to so many times as long as that took, and never
longer than this, which is what a writer loses at most whose company has left."""


class Write(Protocol):
    """What a caller wants committed."""

    @property
    def weight(self) -> int:
        """How many events it carries."""

    @property
    def alone(self) -> bool:
        """Whether it needs a commit of its own, because later writes are judged by it."""


class Ticket:
    """A write in the inbox and, once it is settled, its result or its error.

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


class Inbox:
    """Tickets in the order they came, for the one thread that takes them.

    It is woken by a bell, and only when there are as many as it waits for.
    """

    def __init__(self) -> None:
        self._tickets: deque[Ticket] = deque()
        self._ended = False
        self._wanted = 1
        self._bell = threading.Lock()
        self._bell.acquire()

    def __len__(self) -> int:
        return len(self._tickets)

    def put(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)
        if len(self._tickets) >= self._wanted:
            self._ring()

    def end(self) -> None:
        """Says that no more will come."""
        self._ended = True
        self._ring()

    def wait(self, wanted: int, seconds: float) -> bool:
        """Returns when so many tickets are there or, after so many seconds, any; False when there
        are none and no more will come."""
        deadline = monotonic() + seconds
        self._wanted = wanted
        while len(self._tickets) < wanted and not self._ended:
            if (left := deadline - monotonic()) <= 0:
                break
            self._bell.acquire(timeout=left)
        self._wanted = 1
        while not self._tickets and not self._ended:
            self._bell.acquire()
        return bool(self._tickets)

    def take(self) -> tuple[list[Ticket], int]:
        """The tickets that may be committed at once, and their weight."""
        tickets = self._tickets
        first = tickets.popleft()
        group, weight = [first], first.write.weight
        while tickets and len(group) < MAX_WRITES and not first.write.alone:
            more = tickets[0].write.weight
            if tickets[0].write.alone or weight + more > MAX_EVENTS:
                break
            weight += more
            group.append(tickets.popleft())
        return group, weight

    def _ring(self) -> None:
        if self._bell.locked():
            with suppress(RuntimeError):  # somebody else just did
                self._bell.release()


class Committer:
    """The inbox and its thread. `commit` is a method that settles every ticket it is given;
    `afterwards` one that is called with the weight of each group once its writers are awake. How
    long a commit took is told by `clock`, in seconds.

    The thread holds its owner weakly: a store that nobody holds any more ends with its thread.
    """

    def __init__(
        self,
        commit: Commit,
        afterwards: Afterwards,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._inbox = Inbox()
        # Reentrant, and what it guards may be done within itself: signal handlers write, too.
        self._gate = threading.RLock()
        self._closed = False
        self._thread = threading.Thread(
            target=_run,
            args=(
                self._inbox,
                weakref.WeakMethod(commit),
                weakref.WeakMethod(afterwards),
                clock,
            ),
            name="laurels-commit",
            daemon=True,
        )
        self._thread.start()
        weakref.finalize(self, self._inbox.end)

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
        """Commits what is there and ends the thread; later writes are refused as Closed."""
        with self._gate:
            self._closed = True
            self._inbox.end()
        self._thread.join()

    def _put(self, ticket: Ticket) -> None:
        with self._gate:
            if self._closed:
                raise Closed("the store is closed")
            self._inbox.put(ticket)


def _run(
    inbox: Inbox,
    commit: "weakref.WeakMethod[Commit]",
    afterwards: "weakref.WeakMethod[Afterwards]",
    clock: Callable[[], float],
) -> None:
    """The thread: commits group after group until it is told to end."""
    wanted, seconds = 1, 0.0
    while inbox.wait(wanted, seconds) and (now := commit()) is not None:
        group, weight = inbox.take()
        began = clock()
        try:
            now(group)
        except Exception as error:
            for ticket in group:
                if not ticket.done:
                    ticket.fail(error)
        del now
        _wake(group)
        wanted, seconds = len(group), min(PATIENCE * (clock() - began), MOST_SECONDS)
        if (finish := afterwards()) is not None:
            with suppress(LaurelsError):  # it ended the store: the next commit tells its writers
                finish(weight)
        del finish


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
