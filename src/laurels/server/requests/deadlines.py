"""Deadlines of tasks, checked together.

A timer for each request would cost more than reading a small body. So a deadline is an entry of a
dictionary. One task checks all deadlines periodically, and cancels each task whose deadline has
passed. The cancelled task calls `has_expired` to learn why it was cancelled.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

CHECK_SECONDS = 0.5

Task: TypeAlias = asyncio.Task[Any]


class Deadlines:
    """The deadlines of one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Task, float] = {}
        self._expired: set[Task] = set()

    def set(self, task: Task, seconds: float) -> None:
        """Set the deadline of a task to a number of seconds from now. This replaces an earlier
        deadline."""
        self._due[task] = self._clock() + seconds

    def extend(self, task: Task, seconds: float) -> None:
        """Extend a task's deadline by a number of seconds, unless it has passed."""
        if task in self._due:
            self._due[task] += seconds

    def remove(self, task: Task) -> None:
        """Remove a task's deadline."""
        self._due.pop(task, None)

    def cancel_expired(self) -> None:
        """Cancel the tasks whose deadlines have passed."""
        now = self._clock()
        for task in [task for task, due in self._due.items() if due <= now]:
            del self._due[task]
            if task.cancel():
                self._expired.add(task)

    def has_expired(self, task: Task) -> bool:
        """Return whether a task was cancelled because of its deadline. If so, take back the
        cancellation, so that the task can continue."""
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    async def watch(self) -> None:
        """Check the deadlines periodically, until the task is cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.cancel_expired()
