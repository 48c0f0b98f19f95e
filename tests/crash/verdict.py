"""Check the content of a folder after an interrupted run.

The acknowledged steps are run again on a store in memory, and the folder must have the same content
as that store: all entries, ids, positions and data. The two stores may have refreshed a window at
different times, so both refresh it once more before it is compared. `Leaderboards.check` tests that
the content of that window in the folder follows from the log.

For each part of the run, the folder may also contain one step that was not acknowledged: the step
whose write was interrupted or failed. The folder has all of that step or nothing of it. If a later
write of the part was acknowledged, the folder must not have that step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import laurels
from laurels.timeline.clock import ManualClock
from tests.comparison import everything
from tests.crash.play import END_MS, PARTS, START_MS, STEPS, perform
from tests.internals import local

IN_DOUBT = {"storage_failed", "closed"}
TELLABLE = IN_DOUBT | {"unknown_board"}
"""The error codes that a step may get on a failing disk. `unknown_board` is possible because the
creation of the board may have failed."""


@dataclass
class StepReports:
    """The reports of a run: the answers (`done`) and the errors (`failed`) of its steps by their
    index. `ended` has the last index of each completed part."""

    done: dict[int, object] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> StepReports:
        """Read a file of reports, whose last line may be incomplete. Raise AssertionError if an
        error is not from laurels, is unexpected on a failing disk, or has no advice."""
        reports = cls()
        for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
            what = json.loads(line)
            assert "broken" not in what, what["broken"]
            if "end" in what:
                reports.ended.add(what["end"])
            elif "code" in what:
                assert what["code"] in TELLABLE, what
                assert what["advice"], what
                reports.failed[what["step"]] = what["code"]
            else:
                reports.done[what["step"]] = what["answer"]
        return reports

    def in_doubt(self, part: range, there: set[int]) -> set[int]:
        """Return the steps of a part that may be in the folder although no success was reported.
        `there` has the steps of earlier parts of which the caller assumes that the folder has
        them."""
        settled = max((n for n in self.done if n in part and self._wrote(n, there)), default=-1)
        failed = {n for n, code in self.failed.items() if n in part and code in IN_DOUBT}
        reported = [n for n in part if n in self.done or n in self.failed]
        if part[-1] not in self.ended:
            failed.add(reported[-1] + 1 if reported else part.start)
        return {n for n in failed if n > settled and n in part and STEPS[n].kept}

    def _wrote(self, done: int, there: set[int]) -> bool:
        """Return whether a successful step wrote to the log. Creating an existing board, repeating
        counted events and showing a member that is not hidden write nothing. A successful write
        proves that earlier failed steps are not in the log; a success without a write proves
        nothing."""
        step, answer = STEPS[done], self.done[done]
        made = any(n < done and STEPS[n].name == step.name for n in {*self.done, *there})
        counted = isinstance(answer, list) and answer[0] == "duplicate"
        was_shown = step.name.startswith("show ") and answer is False
        return step.kept and not made and not counted and not was_shown


def judge(folder: Path, reports: StepReports) -> set[int]:
    """Open the folder. Return the steps that are in the folder although no success was reported for
    them. Raise AssertionError if the content of the folder is wrong, or if it accepts no more
    writes."""
    clock = ManualClock(END_MS)
    with laurels.open(folder, clock=clock) as lb:
        lb.check()
        _refresh(lb)
        state = _state_of(lb)
        lb.check()
    kept = _matched(state, reports)
    _assert_goes_on(folder, clock)
    return kept


def _matched(actual: object, reports: StepReports) -> set[int]:
    done = {n for n in reports.done if STEPS[n].kept}
    for extra in _with_doubts(reports):
        answers, state = _replayed(tuple(sorted(done | extra)))
        if state == actual:
            assert {n: answers[n] for n in done} == {n: reports.done[n] for n in done}
            return extra
    raise AssertionError(f"the folder has other content than {reports} allows")


def _with_doubts(reports: StepReports) -> Iterator[set[int]]:
    """Yield each set of steps that may be in the folder although no success was reported, smallest
    first. A set has at most one step of each part."""
    extras: list[set[int]] = [set()]
    for part in PARTS.values():
        extras += [
            there | {doubt} for there in extras for doubt in sorted(reports.in_doubt(part, there))
        ]
    yield from sorted(extras, key=len)


@cache
def _replayed(numbers: Sequence[int]) -> tuple[dict[int, object], object]:
    """Run these steps on a store in memory. Return the answers to the steps, and the state of the
    store after them."""
    clock = ManualClock(START_MS)
    answers: dict[int, object] = {}
    with laurels.open("memory:", clock=clock) as lb:
        for number, step in enumerate(STEPS):
            clock.advance(step.wait_ms)
            if number in numbers:
                answer = perform(step, lb).get("answer")
                answers[number] = json.loads(json.dumps(answer))
        clock.set(END_MS)
        _refresh(lb)
        return answers, _state_of(lb)


def _assert_goes_on(folder: Path, clock: ManualClock) -> None:
    """Check that the folder accepts writes and snapshots, and still has them after it is opened
    again."""
    with laurels.open(folder, clock=clock) as lb:
        lb.create(laurels.Board("after", windows=["all", "3d=rolling:3d/1d"]))
        lb.submit_many("after", [(f"a{i}", i) for i in range(50)])
        lb.snapshot()
        lb.submit("after", "late", 1)
        before = _state_of(lb)
    with laurels.open(folder, clock=clock) as lb:
        assert _state_of(lb) == before
        lb.check()
    assert not list(folder.glob("*.unfinished"))


def _refresh(lb: laurels.Leaderboards) -> None:
    """Refresh the windows that are due. Any commit does that."""
    lb.create(laurels.Board("refreshes"))


def _state_of(lb: laurels.Leaderboards) -> object:
    """Return the state of a store: everything that a caller can see, the hidden members, and the
    event ids that it remembers."""
    fold = local(lb)._fold
    return (
        everything(lb),
        [(board, lb.position(board.name, "file")) for board in lb.boards()],
        [lb.hidden(board.name) for board in lb.boards()],
        {name: fold.index.ids(state.number) for name, state in fold.boards.items()},
    )
