"""Gathering: concurrent writes become one commit.

Leader and followers: a writer puts its write in the queue and then takes the lead, or waits for
whoever has it. The leader commits everything queued so far as one log entry; a follower wakes
up to find its write done. Nobody waits on a timer, so a lone write goes at once, and under load
each flush to disk carries all that arrived during the one before. Writes of async callers are
led by a thread of their own, so that an event loop never waits for a disk.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
    """A write in the queue and, once `done`, its result or its error."""

    def __init__(self, write: Any, future: "asyncio.Future[Any] | None" = None) -> None:
        self.write = write
        self.done = False
        self._future = future
        self._result: Any = None
        self._error: BaseException | None = None

    def succeed(self, result: Any) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        return None if self._future is None else self._future.get_loop()

    def deliver(self) -> None:
        """Hands the outcome to the awaiting task; called on its loop."""
        if self._future is None or self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class Committer:
    """The queue and the lead. `commit` settles every ticket it is given."""

    def __init__(self, commit: Callable[[list[Ticket]], None]) -> None:
        self._commit = commit
        self._queue: deque[Ticket] = deque()
        self._lead = threading.Lock()
        self._wake = threading.Semaphore(0)
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False

    def submit(self, write: Write) -> Any:
        """Commits a write and answers its result; raises what refused it."""
        ticket = Ticket(write)
        self._queue.append(ticket)
        with self._lead:
            while not ticket.done:
                self._lead_once()
        return ticket.result()

    def submit_async(self, write: Write) -> "asyncio.Future[Any]":
        """The same for a caller on an event loop: a future of the result."""
        future = asyncio.get_running_loop().create_future()
        self._queue.append(Ticket(write, future))
        self._start_thread()
        self._wake.release()
        return future

    def exclusively(self) -> threading.Lock:
        """The lead itself, for whoever must keep every write out for a while."""
        return self._lead

    def close(self) -> None:
        """Ends the thread after what is queued is committed."""
        with self._starting:
            self._closing = True
            thread = self._thread
        if thread is not None:
            self._wake.release()
            thread.join()
        with self._lead:
            while self._queue:
                self._lead_once()

    def _start_thread(self) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="laurels-commit", daemon=True
                    )
                    self._thread.start()

    def _run(self) -> None:
        while not self._closing:
            self._wake.acquire()
            with self._lead:
                while self._queue:
                    self._lead_once()

    def _lead_once(self) -> None:
        """Commits the next group; the caller holds the lead."""
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
            _deliver(group)

    def _next_group(self) -> list[Ticket]:
        group = [self._queue.popleft()]
        weight = group[0].write.weight
        while self._queue and len(group) < MAX_WRITES and not group[0].write.alone:
            write = self._queue[0].write
            weight += write.weight
            if write.alone or weight > MAX_EVENTS:
                break
            group.append(self._queue.popleft())
        return group


def _deliver(group: list[Ticket]) -> None:
    """Wakes the loops that wait for tickets of this group, each once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in group:
        if (loop := ticket.loop) is not None:
            by_loop.setdefault(loop, []).append(ticket)
    for loop, tickets in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_deliver_all, tickets)


def _deliver_all(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.deliver()
