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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from .errors import Closed, LaurelsError

MAX_EVENTS = 100_000
MAX_WRITES = 1_000
PATIENCE = 2
MOST_SECONDS = 0.005
"""A group waits for as many as the last had: up to so many times as long as that took, and never
longer than this, which is what a writer loses at most whose company has left."""

_FOR_EVER = -1


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

    @property
    def writers(self) -> int:
        """How many wait for it."""
        return 1

    @property
    def weight(self) -> int:
        """How many events it carries."""
        weight: int = self.write.weight
        return weight

    @property
    def alone(self) -> bool:
        """Whether it needs a commit of its own."""
        alone: bool = self.write.alone
        return alone

    def make(self) -> None:
        """Makes the write, where that was left to the commit; raises what that raises."""

    def apart(self) -> "Sequence[Ticket]":
        """The same in tickets that do not share their fate."""
        return [self]

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
        if self.future is not None:
            self._settle(self.future, self._result)

    def _settle(self, future: "asyncio.Future[Any]", result: Any) -> None:
        if future.done():
            return
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(result)


Accept = Callable[[list[Any]], Any]
"""Makes a write of the events of several writers."""


class Shared(Ticket):
    """Single events of several tasks of a loop that become one write; more may join until it is
    taken. Each gets the result of the write and its own place in it."""

    def __init__(
        self, kind: object, accept: Accept, events: list[Any], futures: "list[asyncio.Future[Any]]"
    ) -> None:
        super().__init__(None, futures[0])
        self._kind = kind
        self._accept = accept
        self._events = events
        self._futures = futures
        self._apart: list[Shared] = []

    @property
    def writers(self) -> int:
        return len(self._events)

    @property
    def weight(self) -> int:
        return len(self._events)

    @property
    def alone(self) -> bool:
        return False

    def add(self, kind: object, event: Any, future: "asyncio.Future[Any]") -> bool:
        """Has an event join where it is of this kind; whether it did."""
        if kind != self._kind or len(self._events) >= MAX_WRITES:
            return False
        self._events.append(event)
        self._futures.append(future)
        return True

    def make(self) -> None:
        self.write = self._accept(self._events)

    def apart(self) -> Sequence[Ticket]:
        if len(self._events) == 1:
            return [self]
        self._apart = [
            Shared(self._kind, self._accept, [event], [future])
            for event, future in zip(self._events, self._futures, strict=True)
        ]
        return self._apart

    def deliver(self) -> None:
        for ticket in self._apart:
            if not ticket.done:
                ticket.fail(self._error or Closed("the commit was broken off"))
            ticket.deliver()
        for place, future in enumerate(self._futures):
            self._settle(future, (self._result, place))


Commit = Callable[[list[Ticket]], None]
Afterwards = Callable[[int], None]


class Inbox:
    """Tickets in the order they came, for the one thread that takes them.

    It is woken by a bell, and only when there are as many writers as it waits for.
    """

    def __init__(self) -> None:
        # Reentrant, and what it guards may be done within itself: signal handlers write, too.
        self._lock = threading.RLock()
        self._tickets: deque[Ticket] = deque()
        self._writers = 0
        self._wanted = 1
        self._ended = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def __len__(self) -> int:
        return self._writers

    def put(self, ticket: Ticket) -> None:
        """Raises Closed after the end."""
        with self._lock:
            self._ensure_open()
            self._tickets.append(ticket)
            self._count_one()

    def join(self, kind: object, event: Any, future: "asyncio.Future[Any]") -> bool:
        """Has an event join those of its kind that came last; whether there are such."""
        with self._lock:
            self._ensure_open()
            last = self._tickets[-1] if self._tickets else None
            if not isinstance(last, Shared) or not last.add(kind, event, future):
                return False
            self._count_one()
            return True

    def end(self) -> None:
        """Says that no more will come."""
        with self._lock:
            self._ended = True
            self._ring()

    def wait(self, wanted: int, seconds: float) -> bool:
        """Returns when so many writers are there or, after so many seconds, any; False when there
        are none and no more will come."""
        if wanted > 1:
            self._wait(wanted, seconds)
        self._wait(1, _FOR_EVER)
        return bool(self._tickets)

    def _wait(self, wanted: int, seconds: float) -> None:
        with self._lock:
            if self._writers >= wanted or self._ended:
                return
            self._wanted = wanted
            self._bell.acquire(blocking=False)  # it may have been rung for others
        self._bell.acquire(timeout=seconds)

    def take(self) -> list[Ticket]:
        """The tickets that may be committed at once."""
        with self._lock:
            tickets = self._tickets
            group = [tickets.popleft()]
            weight, writers = group[0].weight, group[0].writers
            while tickets and not group[0].alone and not tickets[0].alone:
                weight, writers = weight + tickets[0].weight, writers + tickets[0].writers
                if writers > MAX_WRITES or weight > MAX_EVENTS:
                    break
                group.append(tickets.popleft())
            self._writers = sum([ticket.writers for ticket in tickets])
            return group

    def _ensure_open(self) -> None:
        if self._ended:
            raise Closed("the store is closed")

    def _count_one(self) -> None:
        self._writers += 1
        if self._writers >= self._wanted:
            self._ring()

    def _ring(self) -> None:
        if self._bell.locked():
            with suppress(RuntimeError):  # a signal handler came between, and rang
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
        clock: Callable[[], float],
    ) -> None:
        self._inbox = Inbox()
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
        self._inbox.put(ticket)
        return ticket.result()

    def submit_async(self, write: Write) -> "asyncio.Future[Any]":
        """The same for a caller on an event loop: a future of the result."""
        future = asyncio.get_running_loop().create_future()
        self._inbox.put(Ticket(write, future))
        return future

    def share_async(
        self, kind: object, accept: Accept, event: Any
    ) -> "asyncio.Future[tuple[Any, int]]":
        """The same of one event: in one write, which `accept` makes, with those of its kind from
        this loop that wait just before it. A future of the write's result, and of its place."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        kind = loop, kind
        if not self._inbox.join(kind, event, future):
            self._inbox.put(Shared(kind, accept, [event], [future]))
        return future

    def close(self) -> None:
        """Commits what is there and ends the thread; later writes are refused as Closed."""
        self._inbox.end()
        self._thread.join()


def made(tickets: Iterable[Ticket]) -> Iterator[Ticket]:
    """The tickets whose writes could be made; the others fail, each alone."""
    for ticket in tickets:
        try:
            ticket.make()
        except Exception as error:
            apart = ticket.apart()
            if len(apart) == 1:
                ticket.fail(error)
            else:
                yield from made(apart)
        else:
            yield ticket


def _run(
    inbox: Inbox,
    commit: "weakref.WeakMethod[Commit]",
    afterwards: "weakref.WeakMethod[Afterwards]",
    clock: Callable[[], float],
) -> None:
    """The thread: commits group after group until it is told to end."""
    wanted, seconds = 1, 0.0
    while inbox.wait(wanted, seconds) and (now := commit()) is not None:
        group = inbox.take()
        began = clock()
        try:
            now(group)
        except Exception as error:
            for ticket in group:
                if not ticket.done:
                    ticket.fail(error)
        del now
        _wake(group)
        wanted = sum([ticket.writers for ticket in group])
        seconds = min(PATIENCE * (clock() - began), MOST_SECONDS)
        if (finish := afterwards()) is not None:
            with suppress(LaurelsError):  # it ended the store: the next commit tells its writers
                finish(sum([ticket.weight for ticket in group]))
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
