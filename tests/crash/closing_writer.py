"""A process to be killed: it submits events while hours pass, and prints what was acknowledged.

    python -m tests.crash.closing_writer FOLDER FIRST NOW_MS

Each event has a member of its own, and counts in the hour that the clock shows. After a few events
the clock moves on by an hour, and the next event closes the hour before it and the ranking that the
window of the last four hours showed at the end of that hour. The store seals closed periods in a
thread, and another thread takes snapshots. Each printed line has a member and the time of its
event.
"""

import sys
import threading
from itertools import count

import laurels

HOUR_MS = 3_600_000
LAST = "last=rolling:4h/1h,archive=forever,archive_every=1h"
BOARD = laurels.Board(
    "hours",
    windows=["all", "hour:archive=forever,keep=1", LAST],
    grace="1m",
    scopes=[[], ["room"]],
    changes="3650d",
)
EVENTS = 3
"""The number of events in an hour."""


def _snapshots(lb: laurels.Leaderboards) -> None:
    while True:
        lb.snapshot()


def main(folder: str, first: int, now_ms: int) -> None:
    clock = laurels.ManualClock(now_ms)
    lb = laurels.open(folder, clock=clock)
    lb.create(BOARD, exist_ok=True)
    threading.Thread(target=_snapshots, args=(lb,), daemon=True).start()
    for number in count(first):
        lb.submit("hours", f"m{number}", 1, labels={"room": str(number % 2)})
        sys.stdout.write(f"m{number} {clock.now_ms()}\n")
        sys.stdout.flush()
        if number % EVENTS == EVENTS - 1:
            clock.advance(HOUR_MS)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
