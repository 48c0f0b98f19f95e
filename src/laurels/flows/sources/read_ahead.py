"""Reads the next batch of a stream while the one before it is counted."""

import asyncio
from collections.abc import Sequence

from .reader import Message, StreamPosition, StreamReader


class ReadAhead:
    """A reader of which one batch is read in advance; a single task may use it."""

    def __init__(self, reader: StreamReader, limit: int) -> None:
        self._reader = reader
        self._limit = limit
        self._ahead: tuple[StreamPosition, asyncio.Task[Sequence[Message]]] | None = None

    def begin(self, after: StreamPosition) -> None:
        """Begin to read the batch after a position, as far as it is there already."""
        read = self._reader.read(after, self._limit, wait=False)
        self._ahead = after, asyncio.ensure_future(read)

    async def read(self, after: StreamPosition, *, wait: bool) -> Sequence[Message]:
        """Return the next messages after a position, as `StreamReader.read` does."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == after:
            if messages := await ahead[1]:
                return messages
            # Others may have come since: that nothing is pending is true of the time of this call.
        elif ahead is not None:
            await _cancelled(ahead[1])
        return await self._reader.read(after, self._limit, wait=wait)

    async def drop(self) -> None:
        """Give up what is being read in advance."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await _cancelled(ahead[1])


async def _cancelled(task: "asyncio.Task[Sequence[Message]]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
