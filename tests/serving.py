"""A laurels server in this process, on a free port, for the duration of a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import laurels
from laurels.server.auth import opening
from laurels.server.process import serving
from laurels.server.process.settings import Settings

WITHIN_SECONDS = 60
JSON = {"Content-Type": "application/json"}
"""The headers of every write, including those without a body."""
ADMIN_KEY = "admin-key-of-the-tests"


class Served:
    """A server of a folder, in a thread with an event loop of its own and the given clock. Without
    an admin key it is an open server."""

    def __init__(
        self,
        folder: Path | str,
        clock: laurels.Clock | str | None = None,
        *,
        admin_key: str | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("open", admin_key is None)
        self._settings = Settings(data=str(folder), **{"port": 0, **settings})
        self._clock = clock
        self._admin_key = admin_key
        self._taking = threading.Event()
        self._failed: BaseException | None = None
        self._end: Callable[[], object] = self._taking.clear
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""
        self.first_key: str | None = None
        self._thread.start()
        started = self._taking.wait(WITHIN_SECONDS)
        if self._failed is not None:
            raise self._failed
        assert started, "the server did not start"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
            self._taking.set()

    async def _serve(self) -> None:
        ending, loop = asyncio.Event(), asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ending.set)
        opening.ensure_possible(self._settings, self._admin_key)
        backing = await serving.opened(self._settings, self._clock)
        await serving.run(self._settings, backing, self._admin_key, ending, self._note_address)

    def _note_address(self, address: serving.ServingAddress) -> None:
        self.url, self.first_key = address.url, address.first_key
        self._taking.set()

    def close(self) -> None:
        """Stop the server in the same way as SIGTERM does."""
        if self._thread.is_alive():
            self._end()
            self._thread.join(WITHIN_SECONDS)
        assert not self._thread.is_alive(), "the server did not end"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
