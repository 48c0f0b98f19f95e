"""Finds the boards with changes after a sequence number, by a list in the slot of the definitions.

A script that changes a board reaches only the slot of its shard, which on a cluster may be on
another node. So the process that called the script adds the board to the list by another call, a
*note*. Boards that change while a note is being sent are collected for the next note. If a process
ends between the script and the note, the board is missing in the list. Readers then find its
changes when they next visit all boards.
"""

import asyncio
from contextvars import Context

import msgspec

from laurels.errors import LaurelsError
from laurels.stores.redis.connection.connection import Connection
from laurels.stores.redis.sources import script_of

MAX_BOARDS = 10_000
"""The maximum number of boards in the list: those with the latest changes."""
_PART = 1_000
_NOTE = script_of("latest_note")
_READ = script_of("latest_read")


class LatestOnServer:
    """The list of boards with recorded changes on the server. Its methods must be called on one
    event loop."""

    def __init__(self, connection: Connection, prefix: str, most: int = MAX_BOARDS) -> None:
        self._connection = connection
        self._key = f"{prefix}{{boards}}:c".encode()
        self._most = most
        self._boards: dict[int, None] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, board: int) -> None:
        """Record that a board has a new change. The note to the server is sent later."""
        self._boards[board] = None
        if self._task is None:
            # The task gets a context of its own, so that the time limit of the write does not apply
            # to it.
            self._task = asyncio.create_task(self._send(), context=Context())

    async def finish(self) -> None:
        """Wait until all notes are sent."""
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
                except LaurelsError:  # readers find these changes when they look at all boards
                    continue
        finally:
            self._task = None

    async def since(self, after: int | None) -> tuple[int, list[int] | None]:
        """Return the newest sequence number, and the numbers of the boards that have changes after
        the sequence number `after`. None in place of the numbers means that they cannot be
        determined: `after` is None or too old, or the server has lost its list."""
        argument = b"" if after is None else b"%d" % after
        newest, *numbers = await self._connection.script(_READ, self._key, argument)
        if numbers == [None]:
            return int(newest), None
        return int(newest), [int(board) for board in numbers]
