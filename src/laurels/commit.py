"""Gathering: concurrent writes become one commit.

Leader and followers: a writer that finds nobody committing takes the lead; one that finds a
leader puts its write in the queue and sleeps until it is done, or until the lead is handed to
it. The leader commits everything queued so far as one log entry, its own write with it, and then
hands the lead to whoever waits first. Nobody waits on a timer, so a lone write goes at once, and
under load each flush to the disk carries all that arrived during the one before. Writes of async
callers are led by a thread of their own, so that an event loop never waits for a disk.

Invariant: somebody leads, or has been told to, exactly while `_led` is true; `_led` is false only
while the queue is empty. Both change together, under `_mutex`.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

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
    """A write in the queue and, once `done`, its result or its error.

    A thread that waits for it sleeps on `_wake`; a task waits for `future` instead.
    """

    def __init__(self, write: Any, future: "asyncio.Future[Any] | None" = None) -> None:
        self.write = write
        self.future = future
        self.done = False
        self.appointed = False
        self.abandoned = False
        self._wake = threading.Lock()
        self._wake.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def succeed(self, result: Any) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def wake(self) -> None:
        self._wake.release()

    def sleep(self) -> None:
        self._wake.acquire()

    def result(self) -> Any:
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


class Committer:
    """The queue and the lead. `commit` settles every ticket it is given."""

    def __init__(self, commit: Callable[[list[Ticket]], None]) -> None:
        self._commit = commit
        self._queue: deque[Ticket] = deque()
        self._mutex = threading.Lock()
        self._led = False
        self._thread: threading.Thread | None = None
        self._closed = False
        self._calls: SimpleQueue[bool] = SimpleQueue()

    def submit(self, write: Write) -> Any:
        """Commits a write and answers its result; raises what refused it."""
        ticket = Ticket(write)
        if self._enter(ticket) or self._appointed(ticket):
            try:
                while not ticket.done:
                    self._lead_once(ticket)
            finally:
                self._pass_lead()
        return ticket.result()

    def submit_async(self, write: Write) -> "asyncio.Future[Any]":
        """The same for a caller on an event loop: a future of the result."""
        future = asyncio.get_running_loop().create_future()
        if self._enter(Ticket(write, future)):
            self._call_thread()
        return future

    def close(self) -> None:
        """Ends the thread. A write that comes later is led by whoever brings it, on the loop too:
        `commit` is to refuse it at once."""
        with self._mutex:
            self._closed = True
            self._calls.put(False)
        if self._thread is not None:
            self._thread.join()

    def _enter(self, ticket: Ticket) -> bool:
        """Queues a ticket; True when its caller has the lead now."""
        with self._mutex:
            self._queue.append(ticket)
            leads, self._led = not self._led, True
            return leads

    def _appointed(self, ticket: Ticket) -> bool:
        """Sleeps until the ticket is done or its thread is to lead; True for the latter."""
        try:
            ticket.sleep()
        except BaseException:
            with self._mutex:
                ticket.abandoned = True
                heir = ticket.appointed
            if heir:
                self._pass_lead()
            raise
        return not ticket.done

    def _pass_lead(self) -> None:
        """Hands the lead to whoever waits first; to nobody when the queue is empty."""
        with self._mutex:
            while self._queue and self._queue[0].abandoned:
                self._queue.popleft()
            if not self._queue:
                self._led = False
                return
            heir = self._queue[0]
            heir.appointed = True
        if heir.future is None:
            heir.wake()
        else:
            self._call_thread()

    def _call_thread(self) -> None:
        """Has the thread lead; the caller has the lead and gives it away."""
        with self._mutex:
            closed = self._closed
            if not closed:
                self._calls.put(True)
        if closed:
            self._lead_for_async()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._run, name="laurels-commit", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._calls.get():
            self._lead_for_async()

    def _lead_for_async(self) -> None:
        try:
            self._lead_once(None)
        finally:
            self._pass_lead()

    def _lead_once(self, own: Ticket | None) -> None:
        """Commits the next group and wakes who waits for it."""
        group = self._next_group()
        try:
            self._commit(group)
        except BaseException as error:
            for ticket in group:
                if not ticket.done:
                    ticket.fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            _deliver(group, own)

    def _next_group(self) -> list[Ticket]:
        with self._mutex:
            group = [self._queue.popleft()]
            weight = group[0].write.weight
            while self._queue and len(group) < MAX_WRITES and not group[0].write.alone:
                write = self._queue[0].write
                weight += write.weight
                if write.alone or weight > MAX_EVENTS:
                    break
                group.append(self._queue.popleft())
            return group


def _deliver(group: list[Ticket], own: Ticket | None) -> None:
    """Wakes the threads and, each once, the loops that wait for tickets of this group."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in group:
        if ticket.future is not None:
            by_loop.setdefault(ticket.future.get_loop(), []).append(ticket)
        elif ticket is not own:
            ticket.wake()
    for loop, tickets in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver_all, tickets)


def _deliver_all(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.deliver()
