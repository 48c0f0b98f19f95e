"""Seals a large period in the background while another board is read and written.

    python -m bench.large_period [MEMBERS] [--prizes]

With `--prizes` each member wins a prize, so there is a payout for each member. The program prints
figures from before, during and after the sealing: those of `bench.midnight`, beside a control; for
how long the sealing thread worked between two rests, in milliseconds of processor time; and the
greatest memory of the process.
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
from bench.traffic import Control, Traffic, compare, line, start_work
from bench.workload import Population
from laurels.model.event import MAX_BATCH

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
    """A store that has a board with a large period, and traffic on another board."""

    def __init__(self, lb: laurels.Leaderboards, control: Control) -> None:
        self.traffic, self.control = Traffic(lb), control
        self.store = store = local(lb)
        store.paced = True
        self.pieces: list[float] = []
        self.memory = Memory()
        pauses = store._sealing._pauses

        def timed_pauses() -> Callable[[], None]:
            pause, since = pauses(), thread_time()

            def timed_pause() -> None:
                nonlocal since
                self.pieces.append(thread_time() - since)
                pause()
                since = thread_time()

            return timed_pause

        store._sealing._pauses = timed_pauses  # type: ignore[method-assign]

    def measure(self, name: str, is_going_on: Callable[[], bool]) -> None:
        """Read and write the other board as long as `is_going_on()` is true, and print the
        times."""
        self.pieces.clear()
        before = self.memory.begin()
        compare(name, self.traffic, self.control, lambda _: is_going_on())
        grown = 100 * (self.memory.most / before - 1)
        print(f"  memory {before:.0f} MB, {grown:+.1f} %")
        if self.pieces:
            print(" ", line("work between two rests, of the processor", self.pieces))
        print(f"  of the processor in pieces: {sum(self.pieces):.1f} s\n", flush=True)


def main(members: int, prizes: bool, place: Path) -> None:
    clock, folder = laurels.ManualClock(NOW_MS), place / "boards"
    with closing(laurels.open(folder, clock=clock)) as lb, Control(place / "control") as control:
        window: dict[str, object] = {"type": "year", "keep": 2, "archive": "forever"}
        if prizes:
            window["prizes"] = {**PRIZES, "pay_after": "1h"}
        lb.create(laurels.Board("large", windows=[window], grace="0s", tie="member"))
        for batch in Population(members, NOW_MS).batches(MAX_BATCH):
            lb.submit_many("large", batch)
        bench = Bench(lb, control)
        closings = bench.store._fold.closings

        def is_quiet(until: float) -> Callable[[], bool]:
            return lambda: perf_counter() < until

        bench.measure("quiet", is_quiet(perf_counter() + QUIET_SECONDS))
        clock.advance(YEAR_MS)
        start_work(bench.store)
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
        main(arguments.members, arguments.prizes, place)
    finally:
        shutil.rmtree(place)
