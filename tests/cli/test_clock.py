"""`laurels clock`: its output, and the rewinding of a folder whose time is ahead of the clock."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors import StorageFailed
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.timeline.clock import ManualClock
from tests.cli.running import Shell
from tests.comparison import everything

HOUR, DAY = 3_600_000, 86_400_000
NOON = 1_795_176_000_000
BOARD = laurels.Board(
    "b",
    windows=[
        "all",
        "day:keep=2",
        "3h=rolling:3h/1h",
        "hot=decay:6h",
        "5h=rolling:5h/1h,refresh=1h",
    ],
    scopes=[[], ["room"]],
)


def _play(lb: laurels.Leaderboards, clock: ManualClock, glitch_ms: int) -> None:
    """Submit events for some hours; before the last events the clock leaps ahead."""
    lb.create(BOARD)
    for hour in range(6):
        room = {"room": f"{hour % 2}"}
        lb.submit_many("b", [(f"m{hour % 3}", 5, f"id{hour}", None, room), (f"n{hour}", 1)])
        clock.advance(HOUR)
    clock.advance(glitch_ms)
    lb.submit("b", "late", 7, id="late")
    lb.submit("b", "m0", 7, at=clock.now_ms() - HOUR - glitch_ms)
    lb.set_data("b", "m0", {"name": "Zero"})
    lb.remove("b", "n0")


def _iso(at_ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1_000))


def test_a_folder_with_a_correct_clock_needs_no_rewind(shell: Shell) -> None:
    laurels.open(shell.directory / "boards").close()
    ran = shell("clock", "show")
    assert ran.code == 0
    assert ran.out.startswith("the time of the boards is 2")
    assert shell("clock", "accept").code == 0
    assert shell("clock", "rewind").out.startswith("nothing is later than")


def test_a_folder_ahead_of_the_clock_is_reported_and_recovered(shell: Shell) -> None:
    now_ms = time.time_ns() // 1_000_000
    with laurels.open(shell.directory / "boards", clock=ManualClock(now_ms + 3 * DAY)) as lb:
        lb.create(laurels.Board("b", windows=["day"]))
        lb.submit("b", "a", 1)
    ran = shell("clock", "show")
    assert ran.code == 1
    assert "laurels clock rewind" in ran.out
    would = shell("clock", "rewind")
    assert (would.code, "--yes" in would.out) == (1, True)
    assert shell("clock", "show").code == 1, "the folder must be unchanged"
    assert shell("clock", "rewind", "--yes").code == 0
    assert shell("clock", "show").code == 0
    with laurels.open(shell.directory / "boards") as lb:
        assert lb.top("b").total == 1, "the event counts today"
        assert lb.submit("b", "b", 2).rank == 1
        lb.check()


@pytest.mark.parametrize("snapshots", ["none", "before", "both sides"])
def test_a_rewound_folder_equals_one_whose_clock_never_leapt(shell: Shell, snapshots: str) -> None:
    folder = shell.directory / "boards"
    clock = ManualClock(NOON)
    with laurels.open(folder, clock=clock) as lb:
        lb.create(laurels.Board("first"))
        if snapshots != "none":
            lb.snapshot()
        _play(lb, clock, 3 * DAY)
        if snapshots == "both sides":
            lb.snapshot()
    until_ms = NOON + 6 * HOUR
    assert shell("clock", "rewind", "--to", _iso(until_ms), "--yes").code == 0
    expected_clock = ManualClock(NOON)
    with laurels.open("memory:", clock=expected_clock) as expected:
        expected.create(laurels.Board("first"))
        _play(expected, expected_clock, 0)
        with laurels.open(folder, clock=ManualClock(until_ms)) as lb:
            assert everything(lb) == everything(expected)
            lb.check()
            assert lb.submit("b", "late", 7, id="late").status == "duplicate"
    again = shell("clock", "rewind", "--to", _iso(until_ms))
    assert again.code == 0


def test_an_interrupted_recovery_can_be_repeated(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, clock = shell.directory / "boards", ManualClock(NOON)
    with laurels.open(folder, clock=clock) as lb:
        _play(lb, clock, 3 * DAY)
        lb.snapshot()
    rewrite = SqliteLog.rewrite

    def killed(log: SqliteLog, change: Any, *, dry_run: bool) -> int:
        if not dry_run:
            raise StorageFailed("killed")
        return rewrite(log, change, dry_run=dry_run)

    until = _iso(NOON + 6 * HOUR)
    with monkeypatch.context() as patched:
        patched.setattr(SqliteLog, "rewrite", killed)
        assert shell("clock", "rewind", "--to", until, "--yes").code == 2
    assert shell("clock", "rewind", "--to", until, "--yes").code == 0
    with laurels.open(folder, clock=ManualClock(NOON + 6 * HOUR)) as lb:
        status = lb.clock_status()
        assert (status.ahead_ms, status.problem) == (0, None)
        lb.check()


def test_a_log_trimmed_after_the_leap_is_refused_and_left_unchanged(shell: Shell) -> None:
    folder = shell.directory / "boards"
    with laurels.open(folder, clock=ManualClock(NOON)) as lb:
        lb.create(laurels.Board("b"))
        for member in ("a", "b"):
            lb.submit("b", member, 1)
            lb.snapshot()
    shutil.copytree(folder, shell.directory / "copy")
    refused = shell("clock", "rewind", "--to", _iso(NOON - DAY), "--yes")
    assert refused.code == 2
    assert "[cannot_rewind]" in refused.err
    with laurels.open(folder, clock=ManualClock(NOON)) as lb:
        assert lb.top("b").total == 2


def test_a_folder_in_event_time_is_refused(shell: Shell) -> None:
    with laurels.open(shell.directory / "boards", clock="event") as lb:
        lb.create(laurels.Board("b"))
        lb.submit("b", "a", 1, at=NOON)
    assert "[cannot_rewind]" in shell("clock", "rewind", "--yes").err


def test_a_folder_that_is_served_is_refused(shell: Shell) -> None:
    with laurels.open(Path(shell.directory / "boards")):
        assert "[locked]" in shell("clock", "rewind", "--yes").err
