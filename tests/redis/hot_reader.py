"""A program that reads and writes one board with `max_age` until its input ends, and prints what it
has seen as JSON: `python -m tests.redis.hot_reader URL [MEMBER]`.

The program writes the current time as the score of MEMBER; without MEMBER it only reads. A reading
consists of the time at which it began, the number of the board (the score of the member `epoch`),
the offset, and the scores of the members. Of several equal readings in a row, only the last one is
printed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import laurels
from laurels import errors


def now_us() -> int:
    """Return a time that all processes of this machine share."""
    return time.monotonic_ns() // 1_000


def main(url: str, own: str = "") -> None:
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    writes, readings, missed = list[int](), list[Any](), 0
    with laurels.open(url) as lb:
        print("ready", flush=True)
        while not ended.is_set():
            try:
                stamp = now_us()
                if own and lb.submit("b", own, stamp).status == "applied":
                    writes.append(stamp)
                for _ in range(5):
                    began = now_us()
                    page = lb.top("b")
                    scores = {entry.member: entry.score for entry in page}
                    epoch = scores.pop("epoch", None)
                    state = [epoch, page.as_of.offset, scores]
                    if readings and readings[-1][1:] == state:
                        readings[-1][0] = began
                    else:
                        readings.append([began, *state])
            except (errors.UnknownBoard, errors.Unavailable, errors.NotReady):
                missed += 1
    json.dump({"writes": writes, "readings": readings, "missed": missed}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
