"""Processes that are killed while they close and seal periods on an index server, two at a time:
each period is closed and sealed once, and every acknowledged event is in exactly one of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import laurels
from laurels.core.changes.answers import Change
from tests.conftest import Scaled
from tests.crash.closing_writer import HOUR_MS
from tests.redis.servers import Server

SEED = 20_261_128
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
WRITERS = 2


def _killed_run(url: str, first: int, now_ms: int, lines: int) -> list[tuple[str, int]]:
    """Run writers beside each other until the first one has printed this many lines, then kill
    them. Return what they printed: members, and the times of their events."""
    command = [sys.executable, "-m", "tests.redis.closing_writer", url]
    writers = [
        subprocess.Popen(
            [*command, str(first + 10_000 * i), str(now_ms)], stdout=subprocess.PIPE, text=True
        )
        for i in range(WRITERS)
    ]
    printed: list[str] = []
    try:
        for writer in writers:  # wait until each writer has begun
            assert writer.stdout is not None
            printed.append(writer.stdout.readline())
        assert writers[0].stdout is not None
        printed += [writers[0].stdout.readline() for _ in range(lines)]
    finally:
        for writer in writers:
            writer.kill()
        for writer in writers:
            assert writer.stdout is not None
            printed += [line for line in writer.stdout if line.endswith("\n")]
            writer.wait()
            writer.stdout.close()
    assert all(printed), "a writer has ended"
    return [(member, int(at)) for member, at in map(str.split, printed)]


def _changes(lb: laurels.Leaderboards, kind: str) -> list[Change]:
    found, cursor = [], None
    while page := lb.changes("hours", after=cursor, limit=10_000):
        found += [each for each in page if each.kind == kind]
        cursor = page.cursor
    return found


def _judge(lb: laurels.Leaderboards, acknowledged: list[tuple[str, int]]) -> None:
    """Check the closes and seals of all periods that are final."""
    closes = [each.data["period"] for each in _changes(lb, "close")]
    seals = [each.data for each in _changes(lb, "seal")]
    assert closes == sorted(set(closes))
    assert sorted(each["period"] for each in seals) == closes
    there = {entry.member for entry in lb.export("hours")}
    assert there >= {member for member, _ in acknowledged}
    archived: Counter[str] = Counter()
    for sealed in seals:
        of_period = {"window": "hour", "period": sealed["period"]}
        members = [entry.member for entry in lb.export("hours", **of_period)]
        # each member is in two rankings: that of all events, and that of one of two rooms
        assert sealed["entries"] == 2 * len(members)
        assert lb.verify("hours", **of_period).verified
        archived.update(members)
    assert set(archived.values()) == {1}
    assert set(archived) == there


def test_each_period_is_closed_and_sealed_once_after_each_kill(
    tmp_path: Path, scaled: Scaled
) -> None:
    moments, acknowledged, now_ms = random.Random(SEED), list[tuple[str, int]](), NOW_MS
    server = Server()
    os.environ["LAURELS_LEDGER_MAIN"] = f"sqlite:////{tmp_path / 'ledger.db'}"
    try:
        for kill in range(scaled(2, 100)):
            acknowledged += _killed_run(server.url, kill * 30_000, now_ms, moments.randint(1, 40))
            now_ms = max(at for _, at in acknowledged) + 2 * HOUR_MS
            with laurels.open(server.url, clock=laurels.ManualClock(now_ms)) as lb:
                lb.submit("hours", f"judge{kill}", 1, labels={"room": "0"})
                now_ms += 2 * HOUR_MS
            with laurels.open(server.url, clock=laurels.ManualClock(now_ms)) as lb:
                lb.seal()
                _judge(lb, acknowledged)
                lb.check()
    finally:
        del os.environ["LAURELS_LEDGER_MAIN"]
        server.stop()
