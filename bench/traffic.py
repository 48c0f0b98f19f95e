"""Traffic on one board while something else is measured: a thread reads the board, and another one
writes to it. A read or write that takes more than `LONG_MS` is a stall, and the causes of its time
are counted.

The control is a process of its own with the same traffic on a store in which nothing else happens,
at the same time and on the same disk. What it shows as often as the measured store is due to the
machine.
"""

import asyncio
import multiprocessing
import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, sleep, thread_time
from types import TracebackType
from typing import Self

from msgspec import Struct
from tests.internals import local

import laurels
from laurels.server.process.process_memory import settle_collector
from laurels.stores.intake.pacing import Paced, pace
from laurels.stores.local.store import Service

LONG_MS = 10
PAUSE_SECONDS = 0.001
OTHER = "other"


class TimedLock:
    """A lock that keeps the times for which it was held, in seconds of processor time, and how long
    each thread has waited for it, in seconds."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._own = threading.local()
        self.times: list[float] = []

    @property
    def waited(self) -> float:
        """How long the current thread has waited for the lock so far."""
        waited: float = getattr(self._own, "waited", 0.0)
        return waited

    def acquire(self, blocking: bool = True) -> bool:
        if not self._lock.acquire(blocking=False):
            if not blocking:
                return False
            start = perf_counter()
            self._lock.acquire()
            self._own.waited = self.waited + perf_counter() - start
        depth = getattr(self._own, "depth", 0)
        self._own.depth = depth + 1
        if not depth:
            self._own.since = thread_time()
        return True

    def release(self) -> None:
        self._own.depth -= 1
        if not self._own.depth:
            self.times.append(thread_time() - self._own.since)
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Samples(Struct):
    """The times of reads and writes, of appends to the log and of holding the lock, in seconds.
    `causes` has the seconds of each cause of the stalls, by `reads` and `writes`."""

    reads: list[float] = []
    writes: list[float] = []
    appends: list[float] = []
    held: list[float] = []
    causes: dict[str, dict[str, float]] = {}


class Traffic:
    """The traffic on the board `other` of a store, which is created here. `samples` has what was
    measured in the last `running` context."""

    def __init__(self, lb: laurels.Leaderboards) -> None:
        self._lb = lb
        lb.create(laurels.Board(OTHER))
        settle_collector()
        store = local(lb)
        self._lock = TimedLock(store._lock)
        store._lock = self._lock  # type: ignore[assignment]
        committing = store._committer._thread.native_id
        self._committing = os.open(f"/proc/self/task/{committing}/schedstat", os.O_RDONLY)
        self._append = store._log.append
        store._log.append = self._timed_append  # type: ignore[method-assign]
        self._appended: list[tuple[float, float]] = []
        self.samples = Samples()

    @contextmanager
    def running(self) -> Iterator[Samples]:
        """Read and write in this context, and measure."""
        self._lock.times.clear()
        self._appended.clear()
        self.samples = samples = Samples(causes={"reads": {}, "writes": {}})
        with repeating(lambda: self._read(samples)), repeating(lambda: self._write(samples)):
            yield samples
        samples.held = [*self._lock.times]
        samples.appends = [end - start for start, end in self._appended]

    def _read(self, samples: Samples) -> None:
        queued, waited, start = _queued(), self._lock.waited, perf_counter()
        self._lb.top(OTHER, limit=10)
        took = perf_counter() - start
        samples.reads.append(took)
        if took > LONG_MS / 1e3:
            of_lock = self._lock.waited - waited
            of_machine = _queued() - queued
            _add(samples.causes["reads"], "the lock", of_lock)
            _add(samples.causes["reads"], "a processor", of_machine)
            _add(samples.causes["reads"], "the interpreter lock", took - of_lock - of_machine)
        sleep(PAUSE_SECONDS)

    def _write(self, samples: Samples) -> None:
        queued, start = _queued() + _queued(self._committing), perf_counter()
        self._lb.submit(OTHER, f"m{len(samples.writes) % 100}", 1)
        end = perf_counter()
        samples.writes.append(end - start)
        if end - start > LONG_MS / 1e3:
            own, others = self._of_appends(start, end)
            of_machine = _queued() + _queued(self._committing) - queued
            _add(samples.causes["writes"], "the append to the log", own)
            _add(samples.causes["writes"], "appends before it", others)
            _add(samples.causes["writes"], "anything else", end - start - own - others)
            _add(samples.causes["writes"], "a processor, as part of these", of_machine)
        sleep(PAUSE_SECONDS)

    def _of_appends(self, start: float, end: float) -> tuple[float, float]:
        """Return the parts of a write that were its own append, which is the last one, and other
        appends."""
        appended = self._appended
        parts = [
            min(each[1], end) - max(each[0], start)
            for each in appended[bisect_left(appended, start, key=lambda each: each[1]) :]
            if each[0] < end
        ]
        return (parts[-1], sum(parts[:-1])) if parts else (0.0, 0.0)

    def _timed_append(self, body: bytes) -> int:
        start = perf_counter()
        offset = self._append(body)
        self._appended.append((start, perf_counter()))
        return offset


class Control:
    """The traffic in another process, on a store in the folder `place`, or in memory if it is
    None."""

    def __init__(self, place: Path | None) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._connection, connection = spawning.Pipe()
        self._process = spawning.Process(target=_control, args=(connection, place), daemon=True)
        self._process.start()
        self._connection.recv()

    def begin(self) -> None:
        """Let the process read and write."""
        self._connection.send("begin")

    def end(self) -> Samples:
        """Let the process stop, and return what it measured since `begin`."""
        self._connection.send("end")
        samples: Samples = self._connection.recv()
        return samples

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()
        self._process.join()


def _control(connection: Connection, place: Path | None) -> None:
    with closing(laurels.open("memory:" if place is None else place)) as lb:
        local(lb).paced = True
        traffic = Traffic(lb)
        connection.send("ready")
        try:
            while connection.recv() == "begin":
                with traffic.running() as samples:
                    connection.recv()
                connection.send(samples)
        except EOFError:
            return


def start_work(store: Service) -> None:
    """Start a thread that does the due work of a store until it is closed, as the task of a service
    does."""
    store.paced = True
    reference: weakref.ref[Paced] = weakref.ref(store)
    threading.Thread(target=lambda: asyncio.run(pace(reference)), daemon=True).start()


def compare(
    name: str, traffic: Traffic, control: Control, is_going_on: Callable[[Samples], bool]
) -> None:
    """Read and write as long as `is_going_on` is true, and print a table of the store and the
    control."""
    start = perf_counter()
    control.begin()
    with traffic.running() as own:
        while is_going_on(own):
            sleep(0.01)
    other = control.end()
    print(f"{name}: {perf_counter() - start:.1f} s")
    for of, samples in (("", own), ("control, ", other)):
        print(" ", line(f"{of}lock, of the processor", samples.held))
        print(" ", line(f"{of}appends to the log", samples.appends))
        for what, times in (("reads", samples.reads), ("writes", samples.writes)):
            stalls = sum(time > LONG_MS / 1e3 for time in times)
            print(" ", line(f"{of}{what}", times) + f"; {stalls} of {len(times):,} are stalls")
            for cause, seconds in samples.causes[what].items():
                print(f"      waited for {cause}: {1e3 * seconds:.0f} ms")
    print(flush=True)


@contextmanager
def repeating(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` again and again in a thread while the context lasts."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def line(name: str, times: Sequence[float]) -> str:
    """Return a line with the median, the 99th and 99.9th percentile and the longest time."""
    ordered = sorted(times)
    shares = [1e3 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99, 0.999, 1)]
    return f"{name}, ms: " + ", ".join(f"{share:.2f}" for share in shares)


_thread = threading.local()


def _queued(file: int | None = None) -> float:
    """Return for how many seconds a thread was ready to run and had no processor. `file` is its
    file of scheduler statistics, by default that of the current thread."""
    if file is None:
        file = getattr(_thread, "schedstat", None)
    if file is None:
        file = _thread.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    return int(os.pread(file, 100, 0).split()[1]) / 1e9


def _add(causes: dict[str, float], cause: str, seconds: float) -> None:
    causes[cause] = causes.get(cause, 0.0) + seconds
