"""End a run on request: waiting is interrupted, a commit in progress is not."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from laurels.flows.retries import Sleep

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 (no error)
    """The end of the run was requested."""


class StopSignal:
    """A signal by which the end of a run is requested."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def is_requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        """Request the end of the run."""
        self._event.set()

    async def interruptible(self, call: Coroutine[Any, Any, T]) -> T:
        """Return the result of a call. If the end of the run is requested first, cancel the call
        and raise Stopped."""
        task = asyncio.ensure_future(call)
        stopping = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Stopped
            return task.result()
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    def interruptible_sleep(self, sleep: Sleep) -> Sleep:
        """Return a sleep that raises Stopped as soon as the end of the run is requested."""

        async def pause(seconds: float) -> None:
            await self.interruptible(_awaited(sleep(seconds)))

        return pause


async def _awaited(call: Awaitable[T]) -> T:
    return await call
