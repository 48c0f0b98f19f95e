"""Pacing: a task of an event loop prepares rolling windows for their next step in the background.

A pass over a million members is done in shares of `SHARE` members. Each share runs in a thread, and
holds the lock for about two milliseconds. The shares are spread over half of the time to the next
boundary. Correctness does not depend on this: the first read or write after a boundary does the
rest of the pass. The rankings of refreshed windows are built in the same way, over half of their
refresh interval. A due refresh is written by the next commit or, if no commit comes, by this task.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress

from laurels.errors import Closed, Forked, LaurelsError
from laurels.stores.intake.shares import SHARE

IDLE_S = 0.25
MAX_PAUSE_S = 0.05


class Paced(ABC):
    """A store with work that falls due as time passes. After `start`, a task of an event loop does
    this work."""

    _pacing: "asyncio.Task[None] | None" = None

    paced: bool = False
    """Whether a background task does the due work. If not, the writers do it after their
    commits."""

    @abstractmethod
    def pace(self, limit: int) -> tuple[int, int]:
        """Do a share of the due work. Return the number of members left, and in how many
        milliseconds more work falls due. Blocks the thread."""

    @abstractmethod
    def close(self) -> None:
        """Carry out all queued writes, and close the store."""

    def start(self) -> None:
        """Start a task on the running loop that does the work that falls due as time passes."""
        self.paced = True
        self._pacing = asyncio.get_running_loop().create_task(pace(weakref.ref(self)))

    async def close_async(self) -> None:
        """Close the store without blocking the event loop."""
        if self._pacing is not None:
            self._pacing.cancel()
        await asyncio.to_thread(self.close)


async def pace(reference: "weakref.ref[Paced]") -> None:
    """Do the due work of a store until the store is closed or garbage-collected."""
    with suppress(LaurelsError):
        while (service := reference()) is not None:
            try:
                left, until_ms = await asyncio.to_thread(service.pace, SHARE)
            except (Closed, Forked):
                raise
            except LaurelsError:  # for instance, the index server cannot be reached
                left, until_ms = 0, 0
            del service
            await asyncio.sleep(pause_s(left, until_ms))


def pause_s(left: int, until_ms: int) -> float:
    """Return the number of seconds to wait before the next share, if `left` members are left and
    the next boundary is in `until_ms` milliseconds."""
    if not left:
        return IDLE_S
    shares = 1 + left // SHARE
    return min(MAX_PAUSE_S, until_ms / 2_000 / shares)
