"""The check of what a folder must hold after a run that was broken.

The steps that were acknowledged are played again on a store in memory; the folder must hold what
that store holds, down to the last entry, id, position and datum. Only the log determines what a
refreshed window shows, and `check` tests this; here such windows are compared after both stores
have refreshed them once more.

Of each part of the run one step more may be there, whole: the last one that was being written to
the disk, when nothing was acknowledged after it.
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
"""What a failing disk may make of a step; the board may be unknown since it could not be made."""


@dataclass
class StepReports:
    """What a run reported of its steps: `done` and `failed` by number, and in `ended` the parts
    that reached their end."""

    done: dict[int, object] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)

    @classmethod
    def read(cls, said: Path) -> StepReports:
        """Read a file of reports, whose last line may be cut off. Raise AssertionError where an
        error was not from laurels, was not one of a failing disk, or had no advice."""
        told = cls()
        for line in said.read_bytes().split(b"\n")[:-1] if said.exists() else ():
            what = json.loads(line)
            assert "broken" not in what, what["broken"]
            if "end" in what:
                told.ended.add(what["end"])
            elif "code" in what:
                assert what["code"] in TELLABLE, what
                assert what["advice"], what
                told.failed[what["step"]] = what["code"]
            else:
                told.done[what["step"]] = what["answer"]
        return told

    def in_doubt(self, part: range, there: set[int]) -> set[int]:
        """Return the steps of a part of which one may be there without an acknowledgment, if those
        in `there` of the earlier parts are there."""
        settled = max((n for n in self.done if n in part and self._wrote(n, there)), default=-1)
        failed = {n for n, code in self.failed.items() if n in part and code in IN_DOUBT}
        said = [n for n in part if n in self.done or n in self.failed]
        if part[-1] not in self.ended:
            failed.add(said[-1] + 1 if said else part.start)
        return {n for n in failed if n > settled and n in part and STEPS[n].kept}

    def _wrote(self, done: int, there: set[int]) -> bool:
        """Return whether a step that is done wrote to the log. To create what exists, or to count
        what was counted, writes nothing, so it does not settle whether earlier failed steps were
        kept."""
        step, answer = STEPS[done], self.done[done]
        made = any(n < done and STEPS[n].name == step.name for n in {*self.done, *there})
        counted = isinstance(answer, list) and answer[0] == "duplicate"
        return step.kept and not made and not counted


def judge(folder: Path, told: StepReports) -> set[int]:
    """Open the folder and return which steps in doubt it holds; raise AssertionError where it holds
    anything else than it must, or does not continue to work."""
    clock = ManualClock(END_MS)
    with laurels.open(folder, clock=clock) as lb:
        lb.check()
        _refresh(lb)
        held = _state_of(lb)
        lb.check()
    kept = _matched(held, told)
    _assert_goes_on(folder, clock)
    return kept


def _matched(held: object, told: StepReports) -> set[int]:
    done = {n for n in told.done if STEPS[n].kept}
    for extra in _with_doubts(told):
        answers, state = _replayed(tuple(sorted(done | extra)))
        if state == held:
            assert {n: answers[n] for n in done} == {n: told.done[n] for n in done}
            return extra
    raise AssertionError(f"the folder holds something else than {told} and what is in doubt")


def _with_doubts(told: StepReports) -> Iterator[set[int]]:
    """Yield each set of steps without a report of success that the folder may hold besides those
    with one: at most one step of each part. The smallest sets come first."""
    extras: list[set[int]] = [set()]
    for part in PARTS.values():
        extras += [
            there | {doubt} for there in extras for doubt in sorted(told.in_doubt(part, there))
        ]
    yield from sorted(extras, key=len)


@cache
def _replayed(numbers: Sequence[int]) -> tuple[dict[int, object], object]:
    """Return the answers to these steps, and the state after them."""
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
    """Check that the folder takes writes and snapshots, and is opened again with all of them."""
    with laurels.open(folder, clock=clock) as lb:
        lb.create(laurels.Board("after", windows=["all", "3d=rolling:3d/1d"]))
        lb.submit_many("after", [(f"a{i}", i) for i in range(50)])
        lb.snapshot()
        lb.submit("after", "late", 1)
        held = _state_of(lb)
    with laurels.open(folder, clock=clock) as lb:
        assert _state_of(lb) == held
        lb.check()
    assert not list(folder.glob("*.unfinished"))


def _refresh(lb: laurels.Leaderboards) -> None:
    """Refresh the windows that are due, which any commit does."""
    lb.create(laurels.Board("refreshes"))


def _state_of(lb: laurels.Leaderboards) -> object:
    """Return everything in a store that a caller can see, and the ids it remembers."""
    fold = local(lb)._fold
    return (
        everything(lb),
        [(board, lb.position(board.name, "file")) for board in lb.boards()],
        {name: fold.index.ids(state.number) for name, state in fold.boards.items()},
    )
