"""The open streams, which end when their key or token becomes invalid.

A stream is authorized once and may last for days. So each stream is registered here with its key or
token. A stream is cut when its key is revoked, when the key's previous secret expires after a
rotation, when the key or token expires, or when the key that issued the token is gone. All streams
are checked when the keys have changed, and when the next key or token expires.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from laurels.errors.service import Denied
from laurels.server.auth.access import Keys

CHECK_SECONDS = 0.25
Task = asyncio.Task[None]


class OpenStreams:
    """The open streams of a server process."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._tasks: dict[str | None, set[Task]] = {}
        self._cut: set[Task] = set()
        self._version = keys.version
        self._expires_ms: int | None = None
        self._checking: asyncio.Task[None] | None = None

    @contextmanager
    def opened(self, secret: str | None) -> Iterator[None]:
        """Register the current task as a stream of a key or token. When the key or token becomes
        invalid, the task is cancelled, and the context manager exits without an error. Raise
        Unauthorized if the key or token is invalid already."""
        self._expires_ms = _earlier(self._expires_ms, self._keys.caller(secret).until_ms)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.setdefault(secret, set()).add(task)
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_often())
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._cut:
                raise
            task.uncancel()
        finally:
            self._cut.discard(task)
            tasks = self._tasks[secret]
            tasks.discard(task)
            if not tasks:
                del self._tasks[secret]

    async def _check_often(self) -> None:
        while self._tasks:
            await asyncio.sleep(CHECK_SECONDS)
            self.cut_refused()

    def cut_refused(self) -> None:
        """Cut the streams whose key or token has become invalid. Does nothing if the keys have not
        changed and no key or token has expired."""
        expired = self._expires_ms is not None and self._expires_ms <= self._keys.now_ms()
        if not expired and self._version == self._keys.version:
            return
        self._version = self._keys.version
        self._expires_ms = None
        for secret, tasks in self._tasks.items():
            try:
                until_ms = self._keys.caller(secret, is_use=False).until_ms
            except Denied:
                self._end(tasks)
            else:
                self._expires_ms = _earlier(self._expires_ms, until_ms)

    def _end(self, tasks: set[Task]) -> None:
        for task in tasks - self._cut:
            self._cut.add(task)
            task.cancel()


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((ms for ms in (one, other) if ms is not None), default=None)
