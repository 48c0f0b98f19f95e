"""Group commit: concurrent writes become one log entry.

Writers put their writes into an inbox and wait; one thread takes all of them, commits them as one
log entry and wakes the writers. A single writer never waits for others. After a group of several
writers, the thread waits until as many writers are waiting again, but at most for twice the time
that the group took. The wait pays off: the writers that were just answered are about to write
again, and a commit of thirty writes costs hardly more than a commit of one. Tasks of an event loop
await a future, so a loop never waits for a disk.

A background write waits a moment for a write of somebody else, and is then committed with it. So
the others do not wait for commits of background work, each of which takes a sync of the disk.

Commits have a thread of their own because signal handlers and Ctrl-C run in the main thread. So
they can interrupt a waiting writer, but never a commit. The write of an interrupted writer is still
committed.
"""

import asyncio
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from msgspec import Struct

from laurels.errors import Closed, LaurelsError
from laurels.model.validation import notation

from .tickets import MAX_WRITES, Accept, SharedEvent, SharedTicket, Ticket

MAX_EVENTS = 100_000
WAIT_FACTOR = 2
MAX_WAIT_SECONDS = 0.005
"""The maximum number of seconds to wait for a group as large as the last one. This delays a writer
if the other writers have stopped."""
COMPANY_SECONDS = 0.01
"""How long a background write waits for other writes to be committed with."""

_NEVER = sys.maxsize


class Write(Protocol):
    """A write to be committed."""

    @property
    def weight(self) -> int:
        """The number of events in the write."""

    @property
    def exclusive(self) -> bool:
        """Whether the write needs a commit of its own, because later writes are validated against
        its result."""


class Group(Struct):
    """Tickets that are committed together. `weight` is the number of their events, `writers` the
    number of their writers. `is_last` is true if the inbox has ended."""

    tickets: list[Ticket]
    weight: int
    writers: int
    is_last: bool = False


Commit = Callable[[list[Ticket]], None]
AfterCommit = Callable[[int], None]


class Inbox:
    """The queue of tickets, in order of arrival. Only the committing thread takes tickets out.

    The committing thread takes no lock that a writer holds. If it did, a signal handler could
    interrupt the writer that holds the lock, write something itself, and wait forever for the
    commit. Putting a ticket wakes the committing thread. If the thread waits for more writers, it
    is woken when there are enough. If it misses that notification, its wait times out.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Ticket | None] = SimpleQueue()
        # The lock is reentrant, like the code that it guards, because signal handlers may write,
        # too.
        self._lock = threading.RLock()
        self._closed = self._ended = False
        self._last: SharedTicket | None = None
        self._next: Ticket | None = None
        self._numbers = count(1)
        self._arrived = self._taken_count = 0
        self._target = _NEVER
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    @property
    def waiting(self) -> int:
        """The approximate number of waiting writers. It is not exact, since the count may be
        interrupted by a signal handler that also writes."""
        return self._arrived - self._taken_count

    # Methods called by writers

    def put(self, ticket: Ticket) -> None:
        """Add a ticket. Raises Closed if the inbox is closed."""
        with self._lock:
            if self._closed:
                raise Closed("the store is closed")
            self._last = ticket if isinstance(ticket, SharedTicket) else None
            self._queue.put(ticket)
            self._count_one()

    def join(self, kind: object, entry: SharedEvent) -> bool:
        """Add an event to the newest ticket if the ticket has the same kind. Return whether the
        event was added."""
        with self._lock:
            if self._closed:
                raise Closed("the store is closed")
            if self._last is None or not self._last.add(kind, entry):
                return False
            self._count_one()
            return True

    def close(self) -> None:
        """Refuse further tickets."""
        with self._lock:
            self._closed = True
        self.end()

    def end(self) -> None:
        """End the thread once it has taken all tickets. Takes no lock, since this may be called in
        a forked child: a thread that held the lock at the fork does not exist there, and would
        never release it."""
        self._ended = True
        self._queue.put(None)
        self._notify()

    def _count_one(self) -> None:
        self._arrived = next(self._numbers)
        if self._arrived - self._taken_count >= self._target:
            self._notify()

    def _notify(self) -> None:
        with suppress(RuntimeError):  # the thread was notified already
            if self._wakeup.locked():
                self._wakeup.release()

    # Methods called by the committing thread

    def wait(self, wanted: int, seconds: float) -> None:
        """Block until about `wanted` writers are waiting, but not longer than `seconds`."""
        self._wakeup.acquire(blocking=False)  # clears an earlier notification
        self._target = wanted
        if self.waiting < wanted and not self._ended:
            self._wakeup.acquire(timeout=seconds)
        self._target = _NEVER

    def take(self) -> "Group":
        """Wait for tickets, and return those that may be committed together. Background tickets
        wait for another ticket, but not longer than COMPANY_SECONDS each."""
        first = self._next or self._queue.get()
        self._next = None
        if first is None:
            return Group([], 0, 0, is_last=True)
        first.seal()
        group = Group([first], first.weight, first.writers)
        waits = first.background
        while not first.exclusive and group.writers < MAX_WRITES:
            try:
                ticket = self._queue.get(block=waits, timeout=COMPANY_SECONDS)
            except Empty:
                self._taken_count = self._arrived
                break
            if ticket is None:
                group.is_last = True
                break
            ticket.seal()
            waits = waits and ticket.background
            weight, writers = group.weight + ticket.weight, group.writers + ticket.writers
            if ticket.exclusive or weight > MAX_EVENTS or writers > MAX_WRITES:
                self._next = ticket
                break
            group.tickets.append(ticket)
            group.weight, group.writers = weight, writers
        return group


class Committer:
    """The inbox and its thread. `commit` is a method that settles every ticket of a group.
    `after_commit` is called with the weight of the group once the group's writers are awake.
    `clock` returns seconds and measures commits.

    The thread has only a weak reference to the store, so it ends when the store is
    garbage-collected.
    """

    def __init__(
        self,
        commit: Commit,
        after_commit: AfterCommit,
        clock: Callable[[], float],
    ) -> None:
        self._inbox = Inbox()
        # Messages from this thread use the notation that was set when the store was opened. The
        # thread needs nothing else of that context, such as the progress report.
        context = Context()
        context.run(notation.set, notation.get())
        self._thread = threading.Thread(
            target=context.run,
            args=(
                _run,
                self._inbox,
                weakref.WeakMethod(commit),
                weakref.WeakMethod(after_commit),
                clock,
            ),
            name="laurels-commit",
            daemon=True,
        )
        self._thread.start()
        weakref.finalize(self, self._inbox.end)

    def submit(self, write: Write, *, background: bool = False) -> Any:
        """Commit a write. Return its result, or raise its error. A `background` write waits for
        other writes to be committed with."""
        ticket = Ticket(write, background=background)
        self._inbox.put(ticket)
        return ticket.result()

    def submit_async(self, write: Write) -> "asyncio.Future[Any]":
        """Commit a write for a caller on an event loop. Return a future of its result."""
        future = asyncio.get_running_loop().create_future()
        self._inbox.put(Ticket(write, future))
        return future

    def submit_shared_async(
        self, kind: object, accept: Accept, event: Any
    ) -> "asyncio.Future[tuple[Any, int]]":
        """Commit one event together with events of the same kind that tasks of this loop have just
        submitted. `accept` makes one write of these events. Return a future of the write's result
        and the event's position in the write."""
        loop = asyncio.get_running_loop()
        entry = SharedEvent(event, loop.create_future())
        kind = loop, kind
        if not self._inbox.join(kind, entry):
            self._inbox.put(SharedTicket(kind, accept, [entry]))
        return entry.future

    def close(self) -> None:
        """Commit all queued writes and end the thread; later writes raise Closed."""
        self._inbox.close()
        self._thread.join()


def _run(
    inbox: Inbox,
    commit: "weakref.WeakMethod[Commit]",
    after_commit: "weakref.WeakMethod[AfterCommit]",
    clock: Callable[[], float],
) -> None:
    """Commit group after group, until the inbox ends. Runs in the thread."""
    wanted, seconds = 1, 0.0
    reported_later = suppress(LaurelsError)  # the next commit raises the error for its writers
    ended = False
    while not ended:
        if wanted > 1:
            inbox.wait(wanted, seconds)
        group = inbox.take()
        ended = group.is_last
        if not group.tickets or (now := commit()) is None:
            return
        began = clock()
        try:
            now(group.tickets)
        except Exception as error:
            for ticket in group.tickets:
                if not ticket.done:
                    ticket.fail(error)
        del now
        _wake(group.tickets)
        wanted, seconds = group.writers, min(WAIT_FACTOR * (clock() - began), MAX_WAIT_SECONDS)
        if (finish := after_commit()) is not None:
            with reported_later:
                finish(group.weight)
        del finish


def _wake(group: list[Ticket]) -> None:
    """Wake every thread that waits for tickets of this group. Wake each event loop with waiting
    tasks once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in group:
        if ticket.future is None:
            ticket.wake()
        else:
            by_loop.setdefault(ticket.future.get_loop(), []).append(ticket)
    for loop, tickets in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed, so no task waits any more
            loop.call_soon_threadsafe(_deliver, tickets)


def _deliver(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.deliver()
