"""A process to be killed: it submits events to a board on an index server while hours pass, and
prints what was acknowledged.

    python -m tests.redis.closing_writer URL FIRST NOW_MS

Each event has a member of its own, and counts in the hour that the clock shows. After a few events
the clock moves on by an hour, so the next event closes the hour before it, which is then sealed in
the background. Each printed line has a member and the time of its event.
"""

import sys
from itertools import count

import laurels
from laurels.stores.redis import sealing
from tests.crash.closing_writer import EVENTS, HOUR_MS

BOARD = laurels.Board(
    "hours",
    windows=["all", "hour:archive=forever,keep=1"],
    grace="1m",
    scopes=[[], ["room"]],
    changes="3650d",
    shards=2,
    ledger="main",
)


def main(url: str, first: int, now_ms: int) -> None:
    # a short lease, so that the next process need not wait for long after a kill
    sealing.LEASE_MS = 500
    clock = laurels.ManualClock(now_ms)
    lb = laurels.open(url, clock=clock)
    lb.create(BOARD, exist_ok=True)
    for number in count(first):
        lb.submit("hours", f"m{number}", 1, labels={"room": str(number % 2)})
        sys.stdout.write(f"m{number} {clock.now_ms()}\n")
        sys.stdout.flush()
        if number % EVENTS == EVENTS - 1:
            clock.advance(HOUR_MS)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
