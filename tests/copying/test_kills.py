"""If a copy is killed at any moment, the target has the whole board with its archive and payouts,
or no board. The next copy completes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from threading import Timer

import laurels
from laurels.errors import UnknownBoard
from laurels.flows.copying.copying import copy_board
from tests.conftest import Scaled
from tests.internals import copies_of

from .seasons import SEASONS, START_MS, play_seasons, seasons


def copy_until_killed(
    source: Path | str, target: Path | str, now_ms: int, lines: int, seconds: float
) -> bool:
    """Copy the board in a process. Kill the process `seconds` after it has printed this many lines
    or, if it prints fewer, after its last line. Return whether the copy was complete before the
    kill."""
    arguments = [sys.executable, "-m", "tests.copying.killed_copy", str(source), str(target)]
    with subprocess.Popen(
        [*arguments, str(now_ms), SEASONS.name],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed: list[str] = []
        for line in process.stdout:
            printed.append(line.strip())
            if len(printed) == lines or (printed[-1] == "copied" and len(printed) < lines):
                Timer(seconds, process.kill).start()
        process.wait()
    assert process.returncode == -9
    return "copied" in printed


def test_a_killed_copy_is_absent_or_whole_and_the_next_one_is_whole(
    tmp_path: Path, scaled: Scaled
) -> None:
    random, clock = Random("killed copies"), laurels.ManualClock(START_MS)
    source = tmp_path / "source"
    with laurels.open(source, clock=clock) as lb:
        play_seasons(lb, clock)
        expected = seasons(lb, SEASONS.name)
    whole = 0
    for run in range(scaled(5, 150)):
        target = tmp_path / f"target{run}"
        for _ in range(random.randint(1, 3)):
            lines, seconds = random.choice([1, 2, 3, 4, 99]), random.random() / 10
            done = copy_until_killed(source, target, clock.now_ms(), lines, seconds)
            with laurels.open(target, clock=clock) as lb:
                lb.check()
                try:
                    found = seasons(lb, SEASONS.name)
                except UnknownBoard:
                    assert not done
                    assert lb.due_payouts().payouts == []
                else:
                    assert found == expected
                    whole += done
        with laurels.open(source, clock=clock) as own, laurels.open(target, clock=clock) as lb:
            done_again = copy_board(copies_of(own), copies_of(lb), SEASONS.name)
            assert done_again.compared.differences == []
            assert seasons(lb, SEASONS.name) == expected
            lb.check()
    assert whole
