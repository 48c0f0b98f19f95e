"""Read the next batch of a stream while the current one is being counted."""

import asyncio
from collections.abc import Sequence

from .reader import Message, StreamPosition, StreamReader


class ReadAhead:
    """A reader that reads one batch in advance; for use by a single task."""

    def __init__(self, reader: StreamReader, limit: int) -> None:
        self._reader = reader
        self._limit = limit
        self._ahead: tuple[StreamPosition, asyncio.Task[Sequence[Message]]] | None = None

    def begin(self, after: StreamPosition) -> None:
        """Begin to read the batch after a position, without waiting for new messages."""
        read = self._reader.read(after, self._limit, wait=False)
        self._ahead = after, asyncio.ensure_future(read)

    async def read(self, after: StreamPosition, *, wait: bool) -> Sequence[Message]:
        """Return the next messages after a position, as `StreamReader.read` does."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == after:
            if messages := await ahead[1]:
                return messages
            # The read that was begun in advance found no messages, but some may have arrived since.
        elif ahead is not None:
            await _cancel(ahead[1])
        return await self._reader.read(after, self._limit, wait=wait)

    async def drop(self) -> None:
        """Cancel the read that was begun in advance, if any."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await _cancel(ahead[1])


async def _cancel(task: "asyncio.Task[Sequence[Message]]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
