"""Counts failed writes, and logs them once a minute until a write succeeds."""

import logging
from collections.abc import Callable

from laurels.errors import StorageFailed

LOG_EVERY_SECONDS = 60.0
_log = logging.getLogger("laurels")


class WriteFailures:
    """The failed writes of a log. `count` is the number of entries that could not be written since
    the store was opened. `reason` is the reason why the last write failed; it is None if that write
    succeeded. `seconds` is a monotonic clock.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self.reason: str | None = None
        self._next_line = 0.0
        self._in_a_row = 0
        self.count = 0

    def failed(self, error: StorageFailed) -> None:
        """Record that an entry could not be written."""
        now = self._seconds()
        if self.reason is None:
            self._in_a_row, self._next_line = 0, now
        self.count += 1
        self._in_a_row += 1
        self.reason = error.what
        if now >= self._next_line:
            self._next_line = now + LOG_EVERY_SECONDS
            _log.error("writes fail, %d in a row so far: %s", self._in_a_row, error)

    def succeeded(self) -> None:
        """Record that a write succeeded."""
        if self.reason is not None:
            self.reason = None
            _log.warning("writes succeed again, after %d that failed", self._in_a_row)

    def ensure_none(self) -> None:
        """Raise StorageFailed if the last write failed."""
        if self.reason is not None:
            raise StorageFailed(self.reason)
