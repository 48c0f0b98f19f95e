"""A process to be killed: it submits events without end, and prints which were acknowledged.

    python -m tests.crash.writer FOLDER FIRST

Two threads submit single events, and a third thread submits batches of ten. Each printed line names
a member or a batch that has been acknowledged. A fourth thread takes snapshots, which trims the
log. The board keeps its changes. While the process runs, steps of a short rolling window end, and a
window of days is refreshed every second.
"""

import sys
import threading
from itertools import count

import laurels

BATCH = 10
BOARD = laurels.Board(
    "kills",
    windows=["all", "day", "4s=rolling:4s/1s", "9d=rolling:9d/1d,refresh=1s"],
    grace="3s",
    dedupe="7d",
    dedupe_max=10_000_000,
    scopes=[[], ["room"]],
    rank_by="room",
    changes="7d",
)


def room_of(member: str) -> dict[str, str]:
    """Return the labels of a member's events. All members together have a few hundred rooms."""
    return {"room": f"{member[:1]},{member[-2:]}"}


def batch_members(number: int) -> list[str]:
    """Return the members of one batch. Either all of its events count or none."""
    return [f"b{number}-{i}" for i in range(BATCH)]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _singles(lb: laurels.Leaderboards, first: int, step: int) -> None:
    for number in count(first, step):
        lb.submit("kills", f"s{number}", 1, id=f"s{number}", labels=room_of(f"s{number}"))
        _say(f"s{number}")


def _batches(lb: laurels.Leaderboards, first: int) -> None:
    for number in count(first):
        batch = [(member, 1, None, None, room_of(member)) for member in batch_members(number)]
        lb.submit_many("kills", batch, key=f"b{number}")
        _say(f"b{number}")


def _snapshots(lb: laurels.Leaderboards) -> None:
    while True:
        lb.snapshot()


def main(folder: str, first: int) -> None:
    lb = laurels.open(folder)
    lb.create(BOARD, exist_ok=True)
    threads = [
        threading.Thread(target=_singles, args=(lb, first, 2)),
        threading.Thread(target=_singles, args=(lb, first + 1, 2)),
        threading.Thread(target=_batches, args=(lb, first)),
        threading.Thread(target=_snapshots, args=(lb,)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
