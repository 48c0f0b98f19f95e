"""The clock of a deployment: all processes follow the time of one node.

The time of the node is sampled periodically. The time in a sample was exact at some unknown instant
between the request and the response. It is taken to be the time of the instant half-way between the
two, so its error is at most half the round trip. Of several samples the one with the shortest round
trip is used. Between samples the monotonic clock of the process is used, which drifts by at most
`DRIFT`. So every reading has a known error bound. A new sample replaces the current one if its
error bound is smaller, so that one slow answer does no harm, or if the two contradict each other:
then the clock of the node was set, or another node has taken over.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from laurels.errors import LaurelsError
from laurels.timeline.clock_guard import HOLD_MS, ClockGuard, Leap
from laurels.timeline.instants import MIN_MS

EVERY_SECONDS = 2.0
SAMPLES = 5
DRIFT = 2e-4
"""The maximum drift of a monotonic clock, as a ratio. The clocks of today's hosts stay within
1e-4."""

_ACCEPTED = "clock_accepted"
"""The key of a note: the node's time, in milliseconds, at which a leap was last accepted."""
_ACCEPT_SLACK_MS = 10_000
"""The tolerance, in milliseconds, for processes that detect the same leap some seconds apart."""
_MS = 1_000_000


class CommandConnection(Protocol):
    """The methods of a connection that the clock uses."""

    async def command(self, *parts: bytes, key: bytes | None) -> Any: ...


class SharedNotes(Protocol):
    """Small texts, stored under keys, that all processes share."""

    async def note(self, key: str) -> str | None: ...

    async def set_note(self, key: str, value: str) -> None: ...


class Sample(Struct, frozen=True):
    """The node's time at an instant of the local clock, in nanoseconds."""

    local: int
    node: int
    doubt: int
    """The error bound when the sample was taken, in nanoseconds: half the round trip."""

    def node_at(self, local: int) -> int:
        return self.node + local - self.local

    def doubt_at(self, local: int) -> int:
        """Return the error bound of `node_at` at an instant of the local clock."""
        return self.doubt + int(DRIFT * abs(local - self.local))

    def contradicts(self, earlier: "Sample") -> bool:
        """Return whether two samples differ by more than their error bounds allow."""
        apart = abs(self.node - earlier.node_at(self.local))
        return apart > self.doubt + earlier.doubt_at(self.local)


def _offset_ms(sample: Sample) -> int:
    """Return the number of milliseconds by which the node's time is ahead of the local clock."""
    return (sample.node - sample.local) // _MS


class NodeClock:
    """The time of the node that owns `key`, as a clock that never goes back.

    If the node's time goes back, the clock stands still until the node reaches its time again. If
    the node's time leaps further than `guard` allows, the clock follows only the local clock until
    the guard accepts the leap. `monotonic_ns` reads the local clock, which also counts while the
    machine is suspended. `rest` waits for a number of seconds.
    """

    def __init__(
        self,
        connection: CommandConnection,
        key: bytes | None,
        monotonic_ns: Callable[[], int],
        guard: ClockGuard | None = None,
        rest: Callable[[float], Awaitable[object]] = asyncio.sleep,
        notes: SharedNotes | None = None,
    ) -> None:
        self._connection = connection
        self._key = key
        self._monotonic_ns = monotonic_ns
        self._rest = rest
        self._guard = guard or ClockGuard()
        self._notes = notes
        self._newest: Sample | None = None
        self._sample: Sample | None = None
        self._latest_ms = MIN_MS
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None

    def now_ms(self) -> int:
        """Return the time in milliseconds since 1970 UTC. Any thread may call this after
        `start`."""
        sample = self._sample
        if sample is None:
            raise RuntimeError("the clock has not been started")
        with self._lock:
            now_ms = sample.node_at(self._monotonic_ns()) // _MS
            self._latest_ms = max(self._latest_ms, now_ms)
            return self._latest_ms

    @property
    def doubt_ms(self) -> float:
        """The error bound of `now_ms`: the greatest possible difference from the node's time, in
        milliseconds."""
        sample = self._sample
        return float("inf") if sample is None else sample.doubt_at(self._monotonic_ns()) / _MS

    async def start(self) -> None:
        """Take a first sample, and start a task that takes further samples. Raises the errors of
        the connection."""
        await self.sample()
        if self._task is None:
            self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop sampling. The clock then follows the local clock."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def sample(self) -> None:
        """Read the node's time a few times and use the best sample."""
        best = await self._read_sample()
        for _ in range(SAMPLES - 1):
            best = min(best, await self._read_sample(), key=lambda sample: sample.doubt)
        self._newest, sample = best, self._sample
        offset_ms = _offset_ms(best)
        if self._guard.follow(offset_ms, best.local // _MS) != offset_ms:
            if await self._was_accepted(best):
                self.accept()
            return
        if sample is None or best.contradicts(sample) or best.doubt <= sample.doubt_at(best.local):
            self._sample = best

    # The state of the guard against leaps

    @property
    def leaps(self) -> int:
        """The number of leaps since the start that the clock did not follow at once."""
        return self._guard.leaps

    def source_ms(self) -> int:
        """Return the node's time according to the newest sample, even if the clock does not follow
        it."""
        newest = self._newest
        return MIN_MS if newest is None else newest.node_at(self._monotonic_ns()) // _MS

    def leap(self) -> Leap | None:
        """Return the leap of the node's time that the clock does not follow, or None."""
        return self._guard.leap()

    def accept(self) -> None:
        """Follow the node's time from now on, even if it has leapt far."""
        if (newest := self._newest) is not None:
            self._guard.accept(_offset_ms(newest), newest.local // _MS)
            self._sample = newest

    async def announce_acceptance(self) -> None:
        """Tell the other processes to accept the same leap."""
        if self._notes is not None and (newest := self._newest) is not None:
            await self._notes.set_note(_ACCEPTED, str(newest.node // _MS))

    async def _was_accepted(self, best: Sample) -> bool:
        """Return whether any process has accepted the current leap. A note has the time at which a
        leap was last accepted. If that was the current leap, this time is between the beginning of
        the leap and now, give or take some seconds."""
        leap = self._guard.leap()
        accepted = None if self._notes is None else await self._notes.note(_ACCEPTED)
        if leap is None or accepted is None or not accepted.isdigit():
            return False
        node_ms = best.node // _MS
        began_ms = node_ms - (HOLD_MS - leap.follow_in_ms)
        return began_ms - _ACCEPT_SLACK_MS <= int(accepted) <= node_ms + _ACCEPT_SLACK_MS

    async def _read_sample(self) -> Sample:
        sent = self._monotonic_ns()
        seconds, micros = await self._connection.command(b"TIME", key=self._key)
        answered = self._monotonic_ns()
        node = int(seconds) * 1_000_000_000 + int(micros) * 1_000
        return Sample((sent + answered) // 2, node, (answered - sent + 1) // 2)

    async def _follow(self) -> None:
        """Take samples until cancelled. While the node does not answer, the clock follows the local
        clock."""
        while True:
            await self._rest(EVERY_SECONDS)
            try:
                await self.sample()
            except LaurelsError:
                continue
