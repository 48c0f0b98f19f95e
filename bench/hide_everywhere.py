"""`python -m bench.hide_everywhere [BOARDS]`: how long `hide(None, …)` delays other calls, on many
boards that keep changes.

One thread reads lists, another one submits events, and a third one only sleeps, which shows how
long the machine itself delays a thread. The work of `hide` is done in shares; the length of a share
is the processor time of the thread that does it.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import laurels

CALLS = 5


def longest_ms(calls: dict[str, Callable[[int], object]], work: Callable[[], None]) -> list[str]:
    """Repeat each call in a thread of its own while `work` runs. Return the longest time of each
    call."""
    worst = dict.fromkeys(calls, 0.0)
    ended = threading.Event()

    def repeat(name: str) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            began = time.perf_counter()
            calls[name](number)
            worst[name] = max(worst[name], time.perf_counter() - began)
            time.sleep(0.001)

    threads = [threading.Thread(target=repeat, args=(name,)) for name in calls]
    for thread in threads:
        thread.start()
    work()
    ended.set()
    for thread in threads:
        thread.join()
    return [f"{name} {1_000 * seconds:.1f} ms" for name, seconds in worst.items()]


def main() -> None:
    boards = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with laurels.open("memory:") as lb:
        for number in range(boards):
            lb.create(laurels.Board(f"b{number}", changes="1h"))
        gc.collect()
        gc.freeze()  # otherwise the time would include a garbage collection of all boards
        shares = _watched(lb._store)
        calls: dict[str, Callable[[int], object]] = {
            "a list": lambda i: lb.top(f"b{37 * i % boards}"),
            "an event": lambda i: lb.submit(f"b{91 * i % boards}", "bob", 1),
            "a sleep of 1 ms": lambda _: time.sleep(0.001),
        }
        print("nothing else:", *longest_ms(calls, lambda: time.sleep(5)), sep="  ", flush=True)
        for number in range(CALLS):
            shares.clear()
            began = time.perf_counter()
            worst = longest_ms(calls, lambda name=f"m{number}": lb.hide(None, name, "bench"))  # type: ignore[misc]
            print(
                f"hide: {time.perf_counter() - began:.1f} s",
                f"longest of {len(shares):,} shares {1_000 * max(shares):.1f} ms",
                *worst,
                sep="  ",
                flush=True,
            )


def _watched(store: Any) -> list[float]:
    """Make a store record the processor time of each share of due work. Return the list to which
    the times are appended, in seconds."""
    seconds: list[float] = []
    work_share = store.work_share

    def measured(limit: int) -> int:
        began = time.thread_time()
        left: int = work_share(limit)
        seconds.append(time.thread_time() - began)
        return left

    store.work_share = measured
    return seconds


if __name__ == "__main__":
    main()
