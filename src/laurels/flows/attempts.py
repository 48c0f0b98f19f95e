"""A record of the failed attempts of a sink or a source."""

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.wire.flow_wait import FlowWait


class FlowAttempts(Struct, kw_only=True):
    """The attempts that have failed since the last success."""

    wait: FlowWait | None = None
    """The last error and the number of failed attempts, None after a success."""

    @property
    def error(self) -> str | None:
        """The error of the last attempt, None after a success."""
        return None if self.wait is None else self.wait.error

    def fail(self, error: Exception, now_ms: int, seconds: float | None = None) -> None:
        """Record a failed attempt. The next attempt follows after `seconds`; None means that there
        is no next attempt until an operator has acted."""
        next_ms = None if seconds is None else now_ms + int(seconds * 1_000)
        code, text = "internal", repr(error)
        if isinstance(error, LaurelsError):
            code, text = error.code, str(error)
        before = self.wait or FlowWait(code, text, now_ms, 0)
        self.wait = FlowWait(code, text, before.since_ms, before.attempts + 1, next_ms)

    def succeed(self) -> None:
        """Record an attempt that succeeded."""
        self.wait = None


def seconds_failing(wait: FlowWait | None, now_ms: int) -> float:
    """Return for how many seconds all attempts have failed, 0 if the last one succeeded."""
    return 0.0 if wait is None else max(0, now_ms - wait.since_ms) / 1_000
