"""The thread that seals closed periods."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laurels.errors import Closed

RETRY_SECONDS = 10.0
"""How long after a failure sealing is tried again."""

_log = logging.getLogger("laurels")


class SealingThread:
    """Runs the sealing in a thread, one at a time. `stopwatch` returns seconds."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self._lock = threading.Lock()
        self._stopwatch = stopwatch
        self._failed_at: float | None = None

    def start(self, seal: Callable[[], object]) -> None:
        """Run `seal` in a new thread. Do nothing while another one runs, or shortly after one
        failed."""
        if self._failed_at is not None and self._stopwatch() - self._failed_at < RETRY_SECONDS:
            return
        if not self._lock.acquire(blocking=False):
            return

        def run() -> None:
            try:
                seal()
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

    def _failed(self, error: Exception) -> None:
        self._failed_at = self._stopwatch()
        _log.warning("closed periods could not be sealed, which is tried again: %s", error)
