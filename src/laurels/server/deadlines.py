"""Deadlines of tasks, looked at together.

A timer for each request would cost more than reading a small body does. Here a deadline is an entry
of a dictionary, and one task looks at all of them now and then: it cancels a task whose deadline
has passed. A task that was cancelled so finds out by `has_expired` and answers for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

LOOK_SECONDS = 0.5

Task: TypeAlias = asyncio.Task[Any]


class Deadlines:
    """The deadlines of one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: dict[Task, float] = {}
        self._expired: set[Task] = set()

    def set(self, task: Task, seconds: float) -> None:
        """Give a task so many seconds from now, whatever it had before."""
        self._due[task] = self._clock() + seconds

    def extend(self, task: Task, seconds: float) -> None:
        """Give a task so many seconds more, unless its deadline has passed."""
        if task in self._due:
            self._due[task] += seconds

    def remove(self, task: Task) -> None:
        """Take a task's deadline away."""
        self._due.pop(task, None)

    def look(self) -> None:
        """Cancel the tasks whose deadlines have passed."""
        now = self._clock()
        for task in [task for task, due in self._due.items() if due <= now]:
            del self._due[task]
            if task.cancel():
                self._expired.add(task)

    def has_expired(self, task: Task) -> bool:
        """Return whether a task that was cancelled was so by its deadline; it may then go on."""
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    async def watch(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()
