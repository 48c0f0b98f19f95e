"""An event loop in a separate thread, for callers without an event loop.

The loop runs the coroutines of all callers. Each caller blocks its thread until its coroutine has
finished. Interrupting a caller cancels only its own coroutine.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from laurels.errors import Closed, Forked
from laurels.stores.intake import forks

CLOSE_SECONDS = 5.0

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for any number of threads until it is closed."""

    def __init__(self, name: str = "laurels-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self._forks = forks.count
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result; the caller waits.

        An interruption (Ctrl-C) of the caller cancels the coroutine. Raises Closed, Forked, and
        RuntimeError in the loop's own thread, where waiting would never end.
        """
        try:
            self._ensure_usable()
            with self._lock:
                self._ensure_open()
                future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except CancelledError as error:
            raise Closed("the loop was closed during the call") from error
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel all coroutines and end the thread. Has no effect when repeated, or in a forked
        child."""
        if forks.count != self._forks:
            return
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a loop cannot be closed from its own thread: close it from another one"
            )
        with self._lock:
            already, self._closed = self._closed, True
            if not already:
                self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _ensure_usable(self) -> None:
        if forks.count != self._forks:
            raise Forked("the loop runs in the parent of this process")
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "expected a call from outside the loop's own thread: await the coroutine"
            )

    def _ensure_open(self) -> None:
        if self._closed:
            raise Closed("the loop is closed")

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._end()

    def _end(self) -> None:
        """Cancel the remaining tasks, and wait until they have ended."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=CLOSE_SECONDS / 2))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
