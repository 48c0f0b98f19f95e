"""Several processes use one server. Although their own clocks differ, they agree on the time, and
every acknowledged event counts in its step."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import laurels
from laurels import config
from tests.comparison import assert_entries, board_of
from tests.definitions import Definition, Report, WindowDef
from tests.oracle import Oracle

from .child import clock_of
from .servers import Server

BOUND_MS = 5
APART_SECONDS = 3
FAR_APART_SECONDS = 120
"""How far the clocks of the processes differ: much more than the time between two readings of the
clocks, even on a busy machine."""
START_SECONDS = 4
BATCHES = 200

BOARD = Definition(
    name="b",
    windows=(
        WindowDef(name="r", unit="rolling", span="6s", step="1s", grace="5s"),
        WindowDef(),
        WindowDef("day"),
    ),
)


class Child:
    """A process that runs `tests.redis.child`."""

    def __init__(self, url: str, ahead: float, what: str, *rest: object) -> None:
        program = [sys.executable, "-m", "tests.redis.child", url, str(ahead), what]
        self._process = subprocess.Popen(
            [*program, *map(str, rest)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def result(self) -> Any:
        out, errors = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, errors[-3_000:]
        return json.loads(out)


def test_processes_whose_clocks_differ_agree_on_the_time() -> None:
    with Server() as server:
        first = time.monotonic() + START_SECONDS
        instants = [first + 0.097 * i for i in range(15)]
        children = [Child(server.url, ahead, "tell", *instants) for ahead in (FAR_APART_SECONDS, 0)]
        one, other = [child.result() for child in children]
    assert abs(one["own_ms"] - other["own_ms"]) > 1_000 * FAR_APART_SECONDS / 2
    compared = 0
    for (own, took, doubt), (others, other_took, other_doubt) in zip(
        one["now_ms"], other["now_ms"], strict=True
    ):
        if max(took, other_took) > 1:
            continue  # the process was suspended between two readings of the clock
        assert abs(own - others) <= max(BOUND_MS, doubt + other_doubt + 1)
        compared += 1
    assert compared > 3


def test_events_of_two_processes_agree_with_the_oracle() -> None:
    with Server() as server, config.direct(server.url) as lb, config.direct(server.url) as beside:
        lb.create(board_of(BOARD))
        children = [
            Child(server.url, ahead, "write", seed, BATCHES)
            for seed, ahead in enumerate((APART_SECONDS, -APART_SECONDS))
        ]
        counted = [event for child in children for event in child.result()["counted"]]
        now_ms = max(at for _, _, at in counted)
        oracle = Oracle(lambda: now_ms)
        oracle.create(BOARD)
        oracle.submit_many("b", [Report(*event) for event in counted])
        agreed, until = 0, time.monotonic() + 60
        while agreed < 8:
            assert time.monotonic() < until
            for reading in (lb, beside):
                now_ms = clock_of(reading)()
                page = reading.top("b", window="r", limit=1_000)
                if clock_of(reading)() // 1_000 != now_ms // 1_000:
                    continue  # a step ended between the query and the reading of the clock
                assert_entries(page.entries, oracle.places("b", "r"), BOARD)
                agreed += 1
            for window in ("all", "day"):
                whole = lb.top("b", window=window, limit=1_000).entries
                assert_entries(whole, oracle.places("b", window), BOARD)
            time.sleep(0.2)  # steps end while events arrive, and old events leave the window
        assert len(counted) >= 2 * BATCHES
        assert lb.standing("b", "m1", window="all") == beside.standing("b", "m1", window="all")
        lb.check()


def test_a_board_made_by_one_process_is_known_to_the_others() -> None:
    with Server() as server, config.direct(server.url) as lb, config.direct(server.url) as beside:
        lb.create(laurels.Board("x"))
        assert beside.submit("x", "a", 1).rank == 1
        lb.change("x", title="new")
        beside.submit("x", "a", 1)
        assert beside.get("x").title == "new"
