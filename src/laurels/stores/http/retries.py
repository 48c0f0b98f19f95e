"""The rule by which requests are repeated: which requests, and after which delay."""

from collections.abc import Mapping
from typing import Any

from laurels.errors import LaurelsError
from laurels.errors.index_server import IndexUnavailable
from laurels.errors.service import Overloaded, ServerUnreachable, Stopping, TooManyRequests
from laurels.wire.problems import error_of

from .call import Call

MAX_ATTEMPTS = 3
MAX_RETRY_AFTER = 5.0
"""The maximum Retry-After, in seconds, for which a request is repeated."""
_FIRST_SECONDS = 0.1
_RETRY_STATUSES = (429, 503)
_NOT_BEGUN = {TooManyRequests.code, Overloaded.code, Stopping.code}
"""The codes of errors that are raised before a request has any effect."""


class RetryPolicy:
    """Counts the attempts of one call, and decides whether to repeat it.

    A repeatable call is sent again after a broken connection, and after an answer that asks for a
    retry. Any other call is sent again only if it certainly had no effect.
    """

    def __init__(self, call: Call[Any], address: str) -> None:
        self._call = call
        self._address = address
        self._attempts = 0

    def after_break(self, error: Exception, *, was_sent: bool) -> float:
        """Return how many seconds to wait after a connection failed. Raises ServerUnreachable if
        the call must not be sent again."""
        self._attempts += 1
        if self._attempts >= MAX_ATTEMPTS or (was_sent and not self._call.is_repeatable):
            raise unreachable(self._address, error) from error
        return _FIRST_SECONDS * self._attempts

    def after_answer(self, status: int, headers: Mapping[str, str], content: bytes) -> float | None:
        """Return how many seconds to wait before the call is repeated; None if the response is
        final."""
        self._attempts += 1
        seconds = _seconds(headers.get("retry-after", ""))
        if status not in _RETRY_STATUSES or self._attempts >= MAX_ATTEMPTS or seconds is None:
            return None
        if seconds > MAX_RETRY_AFTER or not (
            self._call.is_repeatable or _was_not_begun(status, content)
        ):
            return None
        return seconds


def unreachable(address: str, error: Exception) -> LaurelsError:
    """Return the error for a failed connection."""
    reason = str(error) or type(error).__name__
    return ServerUnreachable(f"{address} does not answer ({reason})")


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _was_not_begun(status: int, content: bytes) -> bool:
    error = error_of(status, content)
    if isinstance(error, IndexUnavailable):
        return not error.may_have_applied
    return error.code in _NOT_BEGUN
