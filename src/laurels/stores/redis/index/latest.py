"""Which boards have changes after a sequence, stored in the slot of the definitions.

A script that changes a board reaches only the slot of its shard, which on a cluster may be on
another node. So the process that called it notes the board afterwards: all boards whose calls ended
while the previous note was sent go into the next one. A process that is lost in between leaves out
a board; readers find its changes in their next round.
"""

import asyncio
from contextvars import Context

import msgspec

from laurels.errors import LaurelsError
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.sources import script_of

MOST_BOARDS = 10_000
"""How many boards are kept: those that have changed last."""
_PART = 1_000
_NOTE = script_of("latest_note")
_READ = script_of("latest_read")


class LatestOnServer:
    """The boards whose changes have been recorded, on the server; used on one event loop."""

    def __init__(self, connection: Connection, prefix: str, most: int = MOST_BOARDS) -> None:
        self._connection = connection
        self._key = f"{prefix}{{boards}}:c".encode()
        self._most = most
        self._boards: dict[int, None] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, board: int) -> None:
        """Note that a board has a new change; return before that is sent."""
        self._boards[board] = None
        if self._task is None:
            # A context of its own, without the time limit of the write.
            self._task = asyncio.create_task(self._send(), context=Context())

    async def finish(self) -> None:
        """Wait until everything is sent."""
        if self._task is not None:
            await self._task

    async def _send(self) -> None:
        try:
            while self._boards:
                boards = list(self._boards)[:_PART]
                for board in boards:
                    del self._boards[board]
                argument = msgspec.msgpack.encode([boards, self._most])
                try:
                    await self._connection.script(_NOTE, self._key, argument)
                except LaurelsError:  # readers find the changes in their next round
                    continue
        finally:
            self._task = None

    async def since(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the newest sequence, and the numbers of the boards with changes after one; None if
        that is not known."""
        argument = b"" if after is None else b"%d" % after
        newest, *found = await self._connection.script(_READ, self._key, argument)
        if found == [None]:
            return int(newest), None
        return int(newest), [int(board) for board in found]
