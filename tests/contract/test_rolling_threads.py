"""Threads write to rolling windows while time passes: each event counts exactly once, in its
step."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import laurels
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.conftest import Scaled
from tests.contract.reading import scores
from tests.contract.test_threads import in_threads


def test_steps_end_while_others_write(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    rounds = scaled(25, 100)
    windows = ["r=rolling:60m/1m,grace=59m", "fast=rolling:3m/1m,grace=2m", "all"]
    lb.create(laurels.Board("b", windows=windows, tie="member"))
    counted: list[tuple[str, int, int]] = []
    in_time: list[tuple[str, int, int]] = []

    def work(i: int) -> None:
        rng = Random(i)
        for _ in range(rounds):
            if i == 0:
                clock.advance(rng.choice([1, 20_000, MINUTE]))
                lb.top("b", window="fast")
                continue
            events = [
                (f"m{rng.randrange(200)}", rng.randint(-3, 9), clock.now_ms() - ago * MINUTE)
                for ago in (0, 1, 2)
            ]
            receipts = lb.submit_many("b", events)
            assert receipts.refused == 0
            for event, receipt in zip(events, receipts, strict=True):
                counted.append(event)
                if receipt.refused_windows == ():
                    in_time.append(event)

    in_threads(work)
    running = clock.now_ms() // MINUTE
    for window, steps, events in (("r", 60, counted), ("fast", 3, in_time)):
        totals: Counter[str] = Counter()
        for member, value, at_ms in events:
            if running - steps < at_ms // MINUTE:
                totals[member] += value
        assert {entry.member: entry.score for entry in lb.export("b", window=window)} == totals
    assert len(counted) == 7 * rounds * 3
    lb.check()


@pytest.mark.one_shard
def test_no_answer_shows_a_partly_ended_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"]))
    lb.submit_many("b", [(f"m{i}", 1) for i in range(2_000)])

    def work(i: int) -> None:
        for j in range(40):
            if i == 0:
                clock.advance(HOUR // 4)
            elif i % 2:
                lb.submit_many("b", [("a", j), ("b", -j)])
            else:
                totals = scores(lb.top("b", limit=10_000))
                assert totals.get("a", 0) == -int(str(totals.get("b", 0)))
                assert len(totals) in {0, 2, 2_000, 2_002}

    in_threads(work)
    lb.check()
