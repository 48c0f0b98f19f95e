"""The thread that seals closed periods."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laurels.errors import Closed

RETRY_SECONDS = 10.0
"""How long after a failure sealing is tried again."""
WORK_SECONDS = 0.0005
"""How long the thread works between two rests."""

_log = logging.getLogger("laurels")


class SealingThread:
    """Seals closed periods in a thread. Only one thread seals at a time. `stopwatch` returns
    seconds, and `rest` lets other threads run by sleeping for a moment."""

    def __init__(self, stopwatch: Callable[[], float], rest: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._stopwatch = stopwatch
        self._rest = rest
        self._failed_at: float | None = None

    def start(self, seal: Callable[[Callable[[], None]], object]) -> None:
        """Run `seal` in a new thread. Do nothing while such a thread runs, or shortly after a
        failure. The argument of `seal` is a function that `seal` has to call between pieces of its
        work; it sleeps for a moment whenever the thread has worked for WORK_SECONDS. Otherwise
        readers and writers would wait up to 5 ms each time that they need the interpreter lock."""
        if self._failed_at is not None and self._stopwatch() - self._failed_at < RETRY_SECONDS:
            return
        if not self._lock.acquire(blocking=False):
            return

        def run() -> None:
            try:
                seal(self._pauses())
                self._failed_at = None
            except Closed:
                pass
            except Exception as error:
                self._failed(error)
            finally:
                self._lock.release()

        try:
            threading.Thread(target=run, name="laurels-seal", daemon=True).start()
        except RuntimeError as error:
            self._failed(error)
            self._lock.release()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait until nothing is being sealed, and let nothing start in this context."""
        with self._lock:
            yield

    def wait(self) -> None:
        """Wait until nothing is being sealed."""
        with self._lock:
            pass

    def _pauses(self) -> Callable[[], None]:
        """Return a function that rests if the last rest was WORK_SECONDS ago."""
        rested = self._stopwatch()

        def pause() -> None:
            nonlocal rested
            if self._stopwatch() - rested >= WORK_SECONDS:
                self._rest()
                rested = self._stopwatch()

        return pause

    def _failed(self, error: Exception) -> None:
        self._failed_at = self._stopwatch()
        _log.warning("closed periods could not be sealed and will be tried again: %s", error)
