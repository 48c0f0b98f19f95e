"""Limits on request rates, waiting writes and open streams, so that one caller cannot use up the
resources of all callers."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from laurels.errors.service import Overloaded, Stopping, TooManyRequests, TooManyStreams
from laurels.model.validation import quoted

_MOST_BUCKETS = 65_536
"""The maximum number of buckets. When there are more, the least recently used bucket is dropped,
and its caller starts again with a full burst."""


class _Bucket(Struct):
    tokens: float
    at: float


class Rates:
    """A token bucket for each caller. It allows `rate` requests a second, and `burst` requests at
    once; a `burst` of 0 stands for twice the rate."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    @property
    def count(self) -> int:
        """The number of callers that have a bucket."""
        return len(self._buckets)

    def take(self, caller: str, rate: float | None) -> None:
        """Count a request. Raise TooManyRequests, with the number of seconds to wait, if the caller
        exceeds its rate."""
        rate = self._rate if rate is None else rate
        if not rate:
            return
        most = max(1.0, float(self._burst or 2 * rate))
        now = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None:
            if len(self._buckets) >= _MOST_BUCKETS:
                self._buckets.popitem(last=False)
            bucket = self._buckets[caller] = _Bucket(most, now)
        else:
            self._buckets.move_to_end(caller)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.tokens < 1:
            refused = TooManyRequests(
                f"expected at most {rate:g} requests a second from {quoted(caller)}, got more"
            )
            refused.retry_after = max(1, round((1 - bucket.tokens) / rate + 0.5))
            raise refused
        bucket.tokens -= 1


class _Writing:
    """A context manager that counts a write as waiting. All writes share one such object, since the
    object only changes a counter."""

    def __init__(self, admission: "AdmissionControl") -> None:
        self._admission = admission

    def __enter__(self) -> None:
        self._admission.writes += 1

    def __exit__(self, *_: object) -> None:
        self._admission.writes -= 1


class AdmissionControl:
    """Limits on waiting writes and on open streams."""

    def __init__(
        self, writes: int, streams: int, streams_per_key: int, streams_per_token: int
    ) -> None:
        self._most_writes = writes
        self._most_streams = streams
        self._most_per_key = streams_per_key
        self._most_per_token = streams_per_token
        self._each: dict[str, int] = {}
        self._writing = _Writing(self)
        self.writes = 0
        self.streams = 0
        self.stopping = False

    def writing(self) -> _Writing:
        """Return a context manager that counts a write as waiting. Raise Overloaded if too many
        writes are waiting, and Stopping at shutdown."""
        if self.stopping:
            raise Stopping("the server is shutting down")
        if self.writes >= self._most_writes:
            raise Overloaded(f"{self.writes} writes are waiting already")
        return self._writing

    @contextmanager
    def streaming(self, key: str, token: str | None = None) -> Iterator[None]:
        """Count a stream as open within the block. It is charged to a key and, if it was opened
        with a token, also to the token's subject. Raises TooManyStreams if the key, the subject or
        the server has too many streams already."""
        charged = {key: self._most_per_key}
        if token is not None:
            charged[token] = self._most_per_token
        for name, most in charged.items():
            own = self._each.get(name, 0)
            if self.streams >= self._most_streams or own >= most:
                raise TooManyStreams(
                    f"{own} streams of {quoted(name)} are open, {self.streams} in all"
                )
        self.streams += 1
        for name in charged:
            self._each[name] = self._each.get(name, 0) + 1
        try:
            yield
        finally:
            self.streams -= 1
            for name in charged:
                self._each[name] -= 1
                if not self._each[name]:
                    del self._each[name]
