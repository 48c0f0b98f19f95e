"""Many boards whose day ends at the same midnight are closed and sealed, while one more board is
read and written.

    python -m bench.midnight [BOARDS]

Prints how long the store's lock was held at a time, in milliseconds of processor time, and how long
reads and writes of the other board took, before and while the boards were closed.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, sleep, thread_time

from tests.internals import local

import laurels
from laurels.server.process.process_memory import settle_collector

HOUR_MS = 3_600_000
START_MS = 1_795_188_600_000  # 20 November 2026, 15:30 UTC
QUIET = 2_000
SHARE = 4_096
PAUSE_SECONDS = 0.001


class TimedLock:
    """A lock that keeps the longest times for which it was held, in seconds of processor time."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._held = threading.local()
        self.times: list[float] = []

    def acquire(self, blocking: bool = True) -> bool:
        if not self._lock.acquire(blocking):
            return False
        depth = getattr(self._held, "depth", 0)
        self._held.depth = depth + 1
        if not depth:
            self._held.since = thread_time()
        return True

    def release(self) -> None:
        self._held.depth -= 1
        if not self._held.depth:
            self.times.append(thread_time() - self._held.since)
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def timed(times: list[float], act: Callable[[], object]) -> None:
    start = perf_counter()
    act()
    times.append(perf_counter() - start)
    sleep(PAUSE_SECONDS)


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


def main(boards: int) -> None:
    clock = laurels.ManualClock(START_MS)
    with laurels.open("memory:", clock=clock) as lb:
        store = local(lb)
        store.paced = True
        for i in range(boards):
            lb.create(laurels.Board(f"b{i}", windows=["day:archive=forever"]))
            lb.submit(f"b{i}", "ann", 1)
        lb.create(laurels.Board("other"))
        settle_collector()
        lock = TimedLock(store._lock)
        store._lock = lock  # type: ignore[assignment]
        closings = store._fold.closings

        def busy() -> bool:
            return bool(closings.unsealed) or closings.may_be_due(clock.now_ms())

        def pace() -> None:
            """Do a share of the due work, as the task of a service does."""
            store.pace(SHARE)
            sleep(PAUSE_SECONDS)

        def measure(name: str, is_going_on: Callable[[int], bool]) -> None:
            reads: list[float] = []
            writes: list[float] = []
            lock.times.clear()
            start = perf_counter()
            with repeating(lambda: timed(reads, lambda: lb.top("other", limit=10))):
                while is_going_on(len(writes)):
                    timed(writes, lambda: lb.submit("other", f"m{len(writes) % 100}", 1))
            print(f"{name}: {perf_counter() - start:.1f} s")
            for what, times in (
                ("lock, of the processor", lock.times),
                ("reads", reads),
                ("writes", writes),
            ):
                print(" ", line(what, times))

        measure("quiet", lambda count: count < QUIET)
        clock.advance(9 * HOUR_MS)
        with repeating(pace):
            measure(f"{boards:,} boards closed and sealed", lambda _: busy())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
