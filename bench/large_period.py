"""Seals a large period in the background while another board is read and written.

    python -m bench.large_period [MEMBERS] [--prizes]

With `--prizes` each member wins a prize, so there is a payout for each member. The program prints
figures from before the sealing, and from during it. Two are in milliseconds of processor time: for
how long the lock of the store was held at a time, and for how long the sealing thread worked
between two rests. The others are the times of an append to the log, of a read and of a write of the
other board, and the greatest memory of the process.
"""

import argparse
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import perf_counter, sleep, thread_time

from tests.internals import local

import laurels
from bench.midnight import SHARE, TimedLock, line, repeating, timed
from bench.workload import Population
from laurels.model.event import MAX_BATCH
from laurels.server.process.process_memory import settle_collector

NOW_MS = 1_795_188_600_000  # 20 November 2026, 15:30 UTC
YEAR_MS = 365 * 24 * 3_600_000
QUIET_SECONDS = 10.0
PRIZES = {"list": [{"name": "all", "percent": 100, "amount": "1.00", "scale": 2}]}


class Memory:
    """The greatest resident memory of this process since `begin`, in MB. A thread samples it."""

    def __init__(self) -> None:
        self.most = 0.0
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self) -> float:
        """Forget the samples so far, and return the current memory."""
        self.most = _resident_mb()
        return self.most

    def _look(self) -> None:
        while True:
            self.most = max(self.most, _resident_mb())
            sleep(0.05)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096 / 1e6


class Bench:
    """A store that has a board with a large period, and another board."""

    def __init__(self, lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
        self.lb, self.clock = lb, clock
        self.store = store = local(lb)
        store.paced = True
        self.lock = TimedLock(store._lock)
        store._lock = self.lock  # type: ignore[assignment]
        self.appends: list[float] = []
        self.pieces: list[float] = []
        self.memory = Memory()
        append, pauses = store._log.append, store._sealing._pauses

        def timed_append(body: bytes) -> int:
            start = perf_counter()
            offset = append(body)
            self.appends.append(perf_counter() - start)
            return offset

        def timed_pauses() -> Callable[[], None]:
            pause, since = pauses(), thread_time()

            def timed_pause() -> None:
                nonlocal since
                self.pieces.append(thread_time() - since)
                pause()
                since = thread_time()

            return timed_pause

        store._log.append = timed_append  # type: ignore[method-assign]
        store._sealing._pauses = timed_pauses  # type: ignore[method-assign]

    def pace(self) -> None:
        """Do a share of the due work, as the task of a service does."""
        self.store.pace(SHARE)
        sleep(0.001)

    def measure(self, name: str, is_going_on: Callable[[], bool]) -> None:
        """Read and write the other board as long as `is_going_on()` is true, and print the
        times."""
        reads: list[float] = []
        writes: list[float] = []
        for times in (self.lock.times, self.appends, self.pieces):
            times.clear()
        before, start = self.memory.begin(), perf_counter()
        lb = self.lb
        with repeating(lambda: timed(reads, lambda: lb.top("other", limit=10))):
            while is_going_on():
                timed(writes, lambda: lb.submit("other", f"m{len(writes) % 100}", 1))
        grown = 100 * (self.memory.most / before - 1)
        seconds = perf_counter() - start
        print(f"{name}: {seconds:.1f} s, memory {before:.0f} MB, {grown:+.1f} %", flush=True)
        for what, times in (
            ("lock, of the processor", self.lock.times),
            ("work between two rests, of the processor", self.pieces),
            ("appends to the log", self.appends),
            ("reads", reads),
            ("writes", writes),
        ):
            if times:
                print(f"  {line(what, times)}, {len(times):,} times", flush=True)
        print(f"  of the processor in pieces: {sum(self.pieces):.1f} s", flush=True)


def main(members: int, prizes: bool, folder: Path) -> None:
    clock = laurels.ManualClock(NOW_MS)
    with closing(laurels.open(folder, clock=clock)) as lb:
        window: dict[str, object] = {"type": "year", "keep": 2, "archive": "forever"}
        if prizes:
            window["prizes"] = {**PRIZES, "pay_after": "1h"}
        lb.create(laurels.Board("large", windows=[window], grace="0s", tie="member"))
        for batch in Population(members, NOW_MS).batches(MAX_BATCH):
            lb.submit_many("large", batch)
        lb.create(laurels.Board("other"))
        settle_collector()
        bench = Bench(lb, clock)
        closings = bench.store._fold.closings

        def is_quiet(until: float) -> Callable[[], bool]:
            return lambda: perf_counter() < until

        bench.measure("quiet", is_quiet(perf_counter() + QUIET_SECONDS))
        clock.advance(YEAR_MS)
        with repeating(bench.pace):
            bench.measure(
                f"{members:,} members closed and sealed",
                lambda: bool(closings.unsealed) or closings.may_be_due(clock.now_ms()),
            )
        nbytes = sum(path.stat().st_size for path in (folder / "archive").iterdir())
        print(f"archive: {nbytes / members:.1f} bytes a member")
        bench.measure("quiet again", is_quiet(perf_counter() + QUIET_SECONDS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("members", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--prizes", action="store_true")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="laurels-large-period-"))
    try:
        main(arguments.members, arguments.prizes, place / "boards")
    finally:
        shutil.rmtree(place)
