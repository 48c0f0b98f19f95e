"""Four processes read a board with `max_age`, and two of them write it. Meanwhile it is deleted and
made again, and its server is emptied, as by a failover to an empty replica."""

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
"""Those of the processes that write."""
WRITES = 60
"""How many writes the test waits for in each phase."""


def make(lb: laurels.Leaderboards, epoch: int) -> None:
    """Make the board, with a member whose score tells which one it is."""
    column = laurels.Column("score", op="last")
    lb.create(laurels.Board("b", columns=[column], max_age="200ms"))
    lb.submit("b", "epoch", epoch)


def let_run(lb: laurels.Leaderboards) -> None:
    """Wait until the processes have written some more. The waiting itself uses no answers from
    memory."""
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
    """Each reading is of the same board and as new as the one before, or of a later board."""
    states = [(epoch, offset) for _, epoch, offset, _ in readings if epoch is not None]
    assert states == sorted(states)


def ensure_own_writes(own: str, result: Any) -> None:
    """Each reading has the last write of its own process, unless the board was made anew since."""
    writes = result["writes"]
    for began, _, _, scores in result["readings"]:
        if own in scores:
            assert scores[own] >= writes[bisect_right(writes, began) - 1]


def ensure_young(reading: Any, writes: dict[str, list[int]]) -> None:
    """A write that was followed by another one before `max_age` began was acknowledged before, so
    the reading shows it or a later one."""
    began, _, _, scores = reading
    for member, score in scores.items():
        later = writes[member][bisect_right(writes[member], score) :]
        assert len(later) < 2 or later[1] > began - MAX_AGE_US, (member, reading)
