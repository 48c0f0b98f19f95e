"""The failed attempts of a sink or a source."""

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.wire.flow_wait import FlowWait


class FlowAttempts(Struct, kw_only=True):
    """The failed attempts since the last one that succeeded."""

    wait: FlowWait | None = None
    """Why the attempts fail, None after a success."""

    @property
    def error(self) -> str | None:
        """The error of the last attempt, None after a success."""
        return None if self.wait is None else self.wait.error

    def fail(self, error: Exception, now_ms: int, seconds: float | None = None) -> None:
        """Record a failed attempt; the next attempt follows after `seconds`, or not by itself if
        None."""
        next_ms = None if seconds is None else now_ms + int(seconds * 1_000)
        code, text = "internal", repr(error)
        if isinstance(error, LaurelsError):
            code, text = error.code, str(error)
        before = self.wait or FlowWait(code, text, now_ms, 0)
        self.wait = FlowWait(code, text, before.since_ms, before.attempts + 1, next_ms)

    def succeed(self) -> None:
        """Record an attempt that succeeded."""
        self.wait = None


def seconds_of(wait: FlowWait | None, now_ms: int) -> float:
    """Return for how long all attempts have failed; 0 if the last one has not."""
    return 0.0 if wait is None else max(0, now_ms - wait.since_ms) / 1_000
