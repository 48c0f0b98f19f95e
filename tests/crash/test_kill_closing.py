"""A process that is killed while it closes and seals periods: each period is closed and sealed
exactly once, with all its entries, and the archive agrees with the digest."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from pathlib import Path

import laurels
from laurels.core.changes.answers import Change
from laurels.stores.local.archive.segment import PeriodKey
from tests.conftest import Scaled
from tests.forked import Forked
from tests.internals import local

from .closing_writer import HOUR_MS

IN_A_ROW = 10
SEED = 20_261_128
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC


def _killed_run(folder: Path, first: int, now_ms: int, lines: int) -> list[tuple[str, int]]:
    """Run the writer until it has printed this many lines, then kill it. Return what it printed:
    members, and the times of their events."""
    arguments = [str(folder), str(first), str(now_ms)]
    with Forked("tests.crash.closing_writer", arguments, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        printed = [writer.stdout.readline() for _ in range(lines)]
        writer.kill()
        printed += [line for line in writer.stdout if line.endswith("\n")]
    assert all(printed), "the writer has ended"
    return [(member, int(at)) for member, at in map(str.split, printed)]


def _changes(lb: laurels.Leaderboards) -> list[Change]:
    return [each for each in lb.changes("hours", limit=10_000) if each.kind in ("close", "seal")]


def _judge(lb: laurels.Leaderboards, acknowledged: list[tuple[str, int]]) -> None:
    """Check the closes and seals of all periods that are final."""
    for window, hours in (("hour", 1), ("last", 4)):
        _judge_window(lb, acknowledged, window, hours)
    there = {entry.member for entry in lb.export("hours")}
    assert there >= {member for member, _ in acknowledged}


def _judge_window(
    lb: laurels.Leaderboards, acknowledged: list[tuple[str, int]], name: str, hours: int
) -> None:
    """Check the closes and seals of a window whose periods each have the events of `hours`
    hours."""
    changes = [each for each in _changes(lb) if each.data["window"] == name]
    closes = [each.data["period"] for each in changes if each.kind == "close"]
    seals = {each.data["period"]: each.data for each in changes if each.kind == "seal"}
    assert closes == sorted(set(closes))
    assert sorted(seals) == closes
    store = local(lb)
    window = store.named("hours").rules.windows[name]
    counted = Counter(
        window.period_at(at_ms + hour * HOUR_MS).label
        for _, at_ms in acknowledged
        for hour in range(hours)
    )
    for label, data in seals.items():
        # each event adds two entries: one to the scope of all events, one to a room; each hour may
        # have one more event, which was counted but not acknowledged
        assert 2 * counted[label] <= data["entries"] <= 2 * (counted[label] + hours)
        key = PeriodKey(store.named("hours").uid, name, window.instance_of(window.period(label)))
        archived = store.archive.open(key)
        assert archived is not None
        assert archived.computed_digest().hex() == data["digest"]


def _kill_in_a_row(folder: Path, kills: int, moments: random.Random) -> None:
    """Start and kill several writers of one folder one after another, and check the folder after
    each kill."""
    acknowledged: list[tuple[str, int]] = []
    now_ms = NOW_MS
    for kill in range(kills):
        acknowledged += _killed_run(folder, kill * 30_000, now_ms, moments.randint(1, 60))
        now_ms = acknowledged[-1][1] + 2 * HOUR_MS
        with laurels.open(str(folder), clock=laurels.ManualClock(now_ms)) as lb:
            lb.check()
            lb.seal()
            lb.check()
            _judge(lb, acknowledged)


def test_each_period_is_closed_and_sealed_once_after_each_kill(
    tmp_path: Path, scaled: Scaled
) -> None:
    moments = random.Random(SEED)
    kills = scaled(8, 200)
    for first in range(0, kills, IN_A_ROW):
        _kill_in_a_row(tmp_path / str(first), min(IN_A_ROW, kills - first), moments)
