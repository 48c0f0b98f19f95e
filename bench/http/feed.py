"""The live feed while events arrive at a steady pace. Such events can also be sent while other
queries are measured."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import msgspec

from bench.http.crowd import CrowdTask, Heard
from bench.http.effort import HttpEffort
from bench.http.peers import HttpPeer, Laurels
from bench.http.process import cpu_seconds, on_core
from bench.http.rounds import Beside, Figure, samples_of
from bench.peers import BOARD
from bench.timing import Sample

BESIDE_EVENTS_A_SECOND = 1_000
BESIDE_BATCH = 10
_BESIDE_WRITERS = 8
_BESIDE_SPARE_SECONDS = 10.0
_LEAST_REACHED = 0.5
_GRACE_SECONDS = 60
_LIMIT = 10


class Pace(msgspec.Struct, frozen=True):
    """The number of streams, the interval of their updates, and the rate of events."""

    streams: int
    interval_ms: int
    events_a_second: int
    batch: int

    @property
    def text(self) -> str:
        return (
            f"interval {self.interval_ms} ms, {self.events_a_second:,} events/s "
            f"in batches of {self.batch}"
        )


def paces(effort: HttpEffort) -> list[Pace]:
    """Return the two cases: fast updates with few streams, and slow ones with many."""
    return [
        Pace(effort.streams, 20, 5_000, 50),
        Pace(effort.many_streams, 100, 500, 50),
    ]


class Assembled:
    """A process of `bench.http.crowd` that is ready to begin."""

    def __init__(self, task: CrowdTask, core: int) -> None:
        with on_core(core):
            self._child = subprocess.Popen(
                [sys.executable, "-m", "bench.http.crowd"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        try:
            self._say(msgspec.json.encode(task).decode())
            assert self._child.stdout is not None
            if self._child.stdout.readline() != "ready\n":
                raise RuntimeError("the crowd could not open its connections")
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Make the crowd begin to write."""
        self._say("begin")

    def heard(self, *, at_once: bool = False) -> Heard:
        """Return the crowd's result when its time is over; with `at_once`, end it now."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        if at_once:
            self._child.stdin.close()
        line = self._child.stdout.readline()
        self._child.wait(_GRACE_SECONDS)
        if not line:
            raise RuntimeError("the process of the crowd has failed")
        return msgspec.json.decode(line, type=Heard)

    def close(self) -> None:
        """End the process of the crowd."""
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()

    def _say(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def writing_beside(effort: HttpEffort, core: int, say: Callable[[str], None]) -> Beside:
    """Return a function from a peer to a context manager, during which the peer receives events at
    a steady pace."""

    @contextmanager
    def beside(peer: HttpPeer) -> Iterator[None]:
        task = CrowdTask(
            peer.port,
            peer.paths.batch,
            effort.members,
            BESIDE_EVENTS_A_SECOND,
            BESIDE_BATCH,
            2 * effort.seconds + _BESIDE_SPARE_SECONDS,
            writers=_BESIDE_WRITERS,
        )
        with Assembled(task, core) as crowd:
            crowd.begin()
            yield
            heard = crowd.heard(at_once=True)
        reached = heard.batches * BESIDE_BATCH / heard.seconds
        say(f"  {peer.name} took {reached:,.0f} events/s meanwhile")
        if reached < _LEAST_REACHED * BESIDE_EVENTS_A_SECOND:
            raise RuntimeError(f"{peer.name} took only {reached:,.0f} events/s meanwhile")

    return beside


def measure_feed(
    laurels: Laurels, effort: HttpEffort, core: int, say: Callable[[str], None]
) -> list[Sample]:
    """Measure the delay of changes at the streams, and the processor time that the streams cost."""
    samples: list[Sample] = []
    for pace in paces(effort):
        group = f"Live feed, {pace.streams:,} streams, {pace.text}"
        say(group)
        rounds = [_round(laurels, effort, pace, core) for _ in range(effort.rounds)]
        samples += samples_of(group, effort.members, laurels, rounds)
    return samples


def _round(laurels: Laurels, effort: HttpEffort, pace: Pace, core: int) -> list[Figure]:
    task = CrowdTask(
        laurels.port,
        laurels.paths.batch,
        effort.members,
        pace.events_a_second,
        pace.batch,
        effort.feed_seconds,
        pace.streams,
        f"/v1/boards/{BOARD}/live?limit={_LIMIT}&interval={pace.interval_ms}",
    )
    with Assembled(task, core) as crowd:
        before = sum(map(cpu_seconds, laurels.pids))
        crowd.begin()
        heard = crowd.heard()
        spent = sum(map(cpu_seconds, laurels.pids)) - before
    return [
        ("events/s", "events/s", heard.batches * pace.batch / heard.seconds),
        ("frames/s", "frames/s", heard.frames / heard.seconds),
        ("p50, ms", "ms", heard.p50_ms),
        ("p99, ms", "ms", heard.p99_ms),
        ("CPU of the server", "%", 100 * spent / heard.seconds),
    ]
