"""Many boards whose day ends at the same midnight are closed and sealed, while one more board is
read and written.

    python -m bench.midnight [BOARDS] [--memory]

Prints, in milliseconds, how long the store's lock was held at a time, in processor time, and how
long appends to the log, reads and writes of the other board took, before and while the boards were
closed. The same is printed of a control: the same reads and writes at the same time, in a process
and a folder of its own, where no boards are closed.
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.internals import local

import laurels
from bench.traffic import Control, Samples, Traffic, compare, start_work
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.store import Service

HOUR_MS = 3_600_000
START_MS = 1_795_188_600_000  # 20 November 2026, 15:30 UTC
QUIET = 2_000


@contextmanager
def unsynced(store: Service) -> Iterator[None]:
    """Write to the log without syncing the disk in this context, so that many boards are created
    soon."""
    log = store._log
    if isinstance(log, SqliteLog):
        log._writer.execute("PRAGMA synchronous=OFF")
    yield
    if isinstance(log, SqliteLog):
        log._writer.execute("PRAGMA synchronous=FULL")


def main(boards: int, place: Path | None) -> None:
    clock = laurels.ManualClock(START_MS)
    with closing(laurels.open("memory:" if place is None else place / "boards", clock=clock)) as lb:
        store = local(lb)
        store.paced = True
        with unsynced(store):
            for i in range(boards):
                lb.create(laurels.Board(f"b{i}", windows=["day:archive=forever"]))
                lb.submit(f"b{i}", "ann", 1)
        traffic = Traffic(lb)
        closings = store._fold.closings

        def is_busy(_: Samples) -> bool:
            return bool(closings.unsealed) or closings.may_be_due(clock.now_ms())

        with Control(None if place is None else place / "control") as control:
            compare("quiet", traffic, control, lambda samples: len(samples.writes) < QUIET)
            clock.advance(9 * HOUR_MS)
            start_work(store)
            compare(f"{boards:,} boards closed and sealed", traffic, control, is_busy)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("boards", type=int, nargs="?", default=100_000)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="laurels-midnight-"))
    try:
        main(arguments.boards, None if arguments.memory else place)
    finally:
        shutil.rmtree(place)
