"""A process that uses the same boards as other processes, but whose own clock is wrong.

`python -m tests.redis.child URL AHEAD_SECONDS tell INSTANT…` prints the deployment's time at these
instants of the machine's monotonic clock. `… write SEED BATCHES` writes a number of batches. `…
label SEED UNTIL` writes events with the label `room`. `… sweep NOW SHARE` advances the scopes of
all boards to NOW, SHARE members per call. Results are printed as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import laurels
from laurels import config
from laurels.stores.redis.index.index import RedisIndex
from tests.internals import remote


def set_wrong(ahead_seconds: float) -> None:
    """Make the clock of this process show a wrong time of day."""
    seconds, nanos = time.time, time.time_ns
    time.time = lambda: seconds() + ahead_seconds
    time.time_ns = lambda: nanos() + int(ahead_seconds * 1e9)


def clock_of(lb: laurels.Leaderboards) -> Callable[[], int]:
    """Return the clock that a deployment uses, as a function that returns milliseconds."""
    service: Any = lb._store
    now_ms: Callable[[], int] = service._clock.now_ms
    return now_ms


def tell(lb: laurels.Leaderboards, instants: list[float]) -> dict[str, Any]:
    service: Any = lb._store
    now_ms, instants_ms = clock_of(lb), []
    for instant in instants:
        time.sleep(max(0.0, instant - time.monotonic() - 0.005))
        while time.monotonic() < instant:
            pass
        before, now, after = time.monotonic(), now_ms(), time.monotonic()
        instants_ms.append(
            [now - (before - instant) * 1_000, (after - before) * 1_000, service._clock.doubt_ms]
        )
    return {"now_ms": instants_ms, "own_ms": time.time() * 1_000}


def write(lb: laurels.Leaderboards, seed: int, batches: int) -> dict[str, Any]:
    """Write batches; return the acknowledged events: member, value, `at`."""
    rng, now_ms, counted = Random(seed), clock_of(lb), []
    for _ in range(batches):
        events = [
            (f"m{rng.randrange(40)}", rng.randint(-5, 9), now_ms() - rng.choice([0, 0, 700, 1_500]))
            for _ in range(rng.choice([1, 5]))
        ]
        receipts = lb.submit_many("b", events, ranks=rng.random() < 0.3)
        for event, receipt in zip(events, receipts, strict=True):
            assert receipt.status in {"applied", "unchanged"}, receipt
            assert receipt.refused_windows == (), receipt
            counted.append(event)
        lb.top("b", window="r", limit=3)
        time.sleep(0.01)  # real time has to pass, because the test is about the ends of steps
    return {"counted": counted}


def label(lb: laurels.Leaderboards, seed: int, until: float) -> dict[str, Any]:
    """Write events with rooms until an instant. Return how many were acknowledged, and the total of
    each room."""
    rng, earned, number = Random(seed), dict.fromkeys("abc", 0), 0
    while not number or time.monotonic() < until:
        events = [
            (f"m{rng.randrange(60)}", rng.randint(-3, 9), None, None, {"room": rng.choice("abc")})
            for _ in range(rng.choice([1, 4, 30]))
        ]
        lb.submit_many("b", events)
        for _, value, _, _, labels in events:
            earned[labels["room"]] += value
        number += len(events)
        if rng.random() < 0.3:
            lb.top("b", by="room")
    return {"events": number, "earned": earned}


def sweep(url: str, now_ms: int, share: int) -> None:
    """Do the work that is due at `now_ms`, until none is left."""
    RedisIndex.share = share
    with config.direct(url, laurels.ManualClock(now_ms)) as lb:
        lb.boards()
        while remote(lb).work(share)[0]:
            pass


def main(url: str, ahead: str, what: str, *rest: str) -> None:
    set_wrong(float(ahead))
    if what == "sweep":
        sweep(url, *map(int, rest))
        return
    with config.direct(url) as lb:
        if what == "tell":
            result = tell(lb, [float(instant) for instant in rest])
        elif what == "label":
            result = label(lb, int(rest[0]), float(rest[1]))
        else:
            result = write(lb, int(rest[0]), int(rest[1]))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
