"""Four processes read a board with `max_age`, and two of them also write to it. Meanwhile the board
is deleted and recreated, and the server loses all data, as in a failover to an empty replica."""

from __future__ import annotations

import json
import subprocess
import sys
from bisect import bisect_right
from typing import Any

import laurels

from .hot_reader import now_us
from .servers import Server

MAX_AGE_US = 200_000
MEMBERS = ["p1", "p2"]
"""The members whose scores are written, each by a process of its own."""
WRITES = 60
"""How many writes the test waits for in each phase."""


def make(lb: laurels.Leaderboards, epoch: int) -> None:
    """Create the board `b` for the `epoch`-th time, and store `epoch` in it as the score of a
    member named `epoch`."""
    column = laurels.Column("score", op="last")
    lb.create(laurels.Board("b", columns=[column], max_age="200ms"))
    lb.submit("b", "epoch", epoch)


def let_run(lb: laurels.Leaderboards) -> None:
    """Wait until the processes have written some more. The queries of this function are never
    answered from memory."""
    began = now_us()
    for member in MEMBERS:
        seen = set[object]()
        while len(seen) < WRITES // len(MEMBERS):
            page = lb.standings("b", [member])
            seen |= {entry.score for entry in page if entry.score > began}  # type: ignore[operator]


def test_answers_are_never_too_old_and_never_go_back(server: Server) -> None:
    server.call("FLUSHALL")
    epoch = 1
    with laurels.open(server.url) as lb:
        make(lb, epoch)
        children = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.redis.hot_reader", server.url, own],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for own in (*MEMBERS, "", "")
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        let_run(lb)
        lb.delete("b")
        make(lb, epoch := epoch + 1)
        let_run(lb)
        lb.change("b", ends="2999-01-01")
        let_run(lb)
    server.call("FLUSHALL")
    with laurels.open(server.url) as lb:
        make(lb, epoch := epoch + 1)
        let_run(lb)
    results = [json.loads(child.communicate("")[0]) for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    writes = {own: result["writes"] for own, result in zip(MEMBERS, results, strict=False)}
    for own, result in zip(MEMBERS, results, strict=False):
        ensure_own_writes(own, result)
    for result in results:
        assert len(result["readings"]) > len(MEMBERS)
        ensure_never_back(result["readings"])
        for reading in result["readings"]:
            ensure_young(reading, writes)


def ensure_never_back(readings: list[Any]) -> None:
    """Assert that no reading shows an earlier board, or an earlier state of the same board, than
    the reading before it."""
    states = [(epoch, offset) for _, epoch, offset, _ in readings if epoch is not None]
    assert states == sorted(states)


def ensure_own_writes(own: str, result: Any) -> None:
    """Assert that each reading includes the last write of its own process, unless the board was
    recreated after that write."""
    writes = result["writes"]
    for began, _, _, scores in result["readings"]:
        if own in scores:
            assert scores[own] >= writes[bisect_right(writes, began) - 1]


def ensure_young(reading: Any, writes: dict[str, list[int]]) -> None:
    """Assert that a reading is not older than `max_age`. A write is certainly acknowledged when the
    same process begins its next write. So if the next write began more than `max_age` before the
    reading, the reading must show the first of the two writes or a later one."""
    began, _, _, scores = reading
    for member, score in scores.items():
        later = writes[member][bisect_right(writes[member], score) :]
        assert len(later) < 2 or later[1] > began - MAX_AGE_US, (member, reading)
