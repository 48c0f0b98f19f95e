"""Tickets: writes in the inbox of a committer, with the writers that wait and the results."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from laurels.errors import Closed

MAX_WRITES = 1_000


class Ticket:
    """A write in the inbox and, once it is settled, its result or its error.

    A waiting thread sleeps on `_wakeup_lock`; a waiting task awaits `future`. Once the ticket is
    taken, `writers` is the number of its waiting writers, and `weight` the number of its events. An
    `exclusive` ticket needs a commit of its own. A `background` ticket is not urgent: nobody waits
    for its writer, who does not count as one.
    """

    done = False
    _wakeup_lock: "threading.Lock | None" = None
    _result: Any = None
    _error: BaseException | None = None

    def __init__(
        self,
        write: Any,
        future: "asyncio.Future[Any] | None" = None,
        *,
        background: bool = False,
    ) -> None:
        self.write = write
        self.background = background
        self.writers = 0 if background else 1
        self.weight: int = 1 if write is None else write.weight
        self.exclusive: bool = write is not None and write.exclusive
        self.future = future
        if future is None:
            self._wakeup_lock = threading.Lock()
            self._wakeup_lock.acquire()

    def seal(self) -> None:
        """Mark the ticket as taken, so that no event can join it any more."""

    def split(self) -> "Sequence[Ticket]":
        """Divide this ticket into tickets that can succeed or fail separately, and return them."""
        return [self]

    def succeed(self, result: Any) -> None:
        self._result, self.done = result, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def wake(self) -> None:
        if self._wakeup_lock is not None:
            self._wakeup_lock.release()

    def result(self) -> Any:
        """Wait until the ticket is settled. Return its result or raise its error."""
        assert self._wakeup_lock is not None, "a task awaits its future"
        self._wakeup_lock.acquire()
        if self._error is not None:
            raise self._error
        return self._result

    def deliver(self) -> None:
        """Pass the result to the awaiting task. Must be called on the task's loop."""
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
"""A function that turns the events of several writers into one write."""


class SharedEvent:
    """An event and the future of its writer. It is compared by identity."""

    __slots__ = ("event", "future")

    def __init__(self, event: Any, future: "asyncio.Future[Any]") -> None:
        self.event = event
        self.future = future


class SharedTicket(Ticket):
    """Events that several tasks of one loop have submitted one by one, and that become one write.
    Events may join until the ticket is taken. Each task gets the result of the write, and the
    index of its own event in the write."""

    def __init__(self, kind: object, accept: Accept, entries: Iterable[SharedEvent]) -> None:
        self._kind = kind
        self._accept = accept
        self._joining: deque[SharedEvent] = deque()
        self._entries = list(entries)
        self._sealed = False
        self._parts: list[SharedTicket] = []
        super().__init__(None, self._entries[0].future)

    def add(self, kind: object, entry: SharedEvent) -> bool:
        """Add an event if it has the kind of this ticket. Return whether it was added. This needs
        no lock, although another thread may take the ticket at the same time."""
        if self._is_sealed() or kind != self._kind:
            return False
        if len(self._entries) + len(self._joining) >= MAX_WRITES:
            return False
        self._joining.append(entry)
        if not self._is_sealed():
            return True
        try:
            self._joining.remove(entry)
        except ValueError:  # the ticket was taken after the event had joined
            return True
        return False

    def _is_sealed(self) -> bool:
        return self._sealed

    def seal(self) -> None:
        self._sealed = True
        with suppress(IndexError):
            while True:
                self._entries.append(self._joining.popleft())
        self.writers = self.weight = len(self._entries)

    def build_write(self) -> None:
        """Turn the events into a write. Raises the errors of the function that accepts them."""
        self.write = self._accept([entry.event for entry in self._entries])

    def split(self) -> Sequence[Ticket]:
        if len(self._entries) == 1:
            return [self]
        self._parts = [SharedTicket(self._kind, self._accept, [entry]) for entry in self._entries]
        return self._parts

    def deliver(self) -> None:
        for ticket in self._parts:
            if not ticket.done:
                ticket.fail(self._error or Closed("the commit was aborted"))
            ticket.deliver()
        for place, entry in enumerate(self._entries):
            self._settle(entry.future, (self._result, place))


def build_writes(tickets: Iterable[Ticket]) -> list[Ticket]:
    """Build the write of each ticket, and return the tickets whose writes were built. If an error
    is raised, the ticket is split, and the writes of its parts are built; a ticket that cannot be
    split fails with the error."""
    built: list[Ticket] = []
    for ticket in tickets:
        try:
            if isinstance(ticket, SharedTicket):
                ticket.build_write()
        except Exception as error:
            parts = ticket.split()
            if len(parts) == 1:
                ticket.fail(error)
            else:
                built += build_writes(parts)
        else:
            built.append(ticket)
    return built
