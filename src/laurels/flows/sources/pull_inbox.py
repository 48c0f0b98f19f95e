"""Messages from a NATS server that have arrived and have not been read yet."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nats.aio.msg import Msg


class PullInbox:
    """Messages from the server that have not been read yet, in order.

    It replaces the library's own queue, which creates a task for each awaited message: that takes
    longer than all other work on the message.
    """

    def __init__(self) -> None:
        self._messages: deque[Msg] = deque()
        self._arrived = asyncio.Event()

    async def put(self, message: "Msg") -> None:
        self._messages.append(message)
        self._arrived.set()

    def take(self) -> "Msg | None":
        """Return the next message, None if none has arrived."""
        return self._messages.popleft() if self._messages else None

    async def next(self, seconds: float) -> "Msg":
        """Wait up to some seconds for the next message, and return it. Raises TimeoutError."""
        while not self._messages:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), seconds)
        return self._messages.popleft()
