"""Runs that alternate between contenders, so that other programs disturb all of them alike."""

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, Protocol, TypeAlias

import msgspec

Task: TypeAlias = Callable[[], object]
Unit: TypeAlias = Literal[
    "events/s",
    "members/s",
    "payouts/s",
    "requests/s",
    "frames/s",
    "s",
    "ms",
    "µs",
    "ns",
    "bytes",
    "x",
    "%",
]
TIMES: tuple[Unit, ...] = ("s", "ms", "µs", "ns")
Safety: TypeAlias = Literal["memory", "each second", "each commit"]


class Peer(Protocol):
    """What a figure was measured on: one way to use one store, with its settings. Each peer has a
    row of a table."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> str: ...

    @property
    def ours(self) -> bool: ...

    @property
    def safety(self) -> Safety: ...


class Trial(msgspec.Struct, frozen=True):
    """One prepared run: the task to time, and a check afterwards that raises an error if the task
    has failed."""

    run: Task
    check: Callable[[], None]


class Contender(msgspec.Struct, frozen=True):
    """A peer and its work. `prepare(n)` prepares run n, which is not timed."""

    peer: Peer
    prepare: Callable[[int], Trial]


class Question(msgspec.Struct, frozen=True):
    """The subject of a figure: a group of tables, the size of the board, and a column of the
    table.

    `members` is 0 if each column of the table is for another size of board.
    """

    group: str
    members: int
    case: str
    unit: Unit


class Sample(msgspec.Struct, frozen=True):
    """The figures of one contender for one question, one per run."""

    question: Question
    contender: str
    settings: str
    ours: bool
    safety: Safety
    figures: list[float]
    rival: str = ""
    """The contender's name in the rows of ratios, if ours are compared with it. It is empty for
    ours. It is also empty for a Redis server, because ours are compared only with the best Redis of
    the same safety."""

    @property
    def middle(self) -> float:
        return median(self.figures)


def unchecked(run: Task) -> Trial:
    """Return a trial without verification."""
    return Trial(run, lambda: None)


def seconds(task: Task) -> float:
    """Return the seconds of a task. The garbage of its preparation is collected before."""
    gc.collect()
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def alternate(
    question: Question,
    contenders: Sequence[Contender],
    runs: int,
    figure: Callable[[float], float],
) -> list[Sample]:
    """Run each contender once without recording, then do `runs` rounds over all contenders. Return
    their samples.

    `figure` turns the seconds of a run into the unit of the question.
    """
    figures: list[list[float]] = [[] for _ in contenders]
    for run in range(runs + 1):
        for contender, kept in zip(contenders, figures, strict=True):
            trial = contender.prepare(run)
            elapsed = seconds(trial.run)
            trial.check()
            if run:
                kept.append(figure(elapsed))
    return [
        _sample(question, contender.peer, kept)
        for contender, kept in zip(contenders, figures, strict=True)
    ]


def single(question: Question, peer: Peer, figure: float) -> Sample:
    """Return the sample of a figure that is measured once, such as a size or the time of a load."""
    return _sample(question, peer, [figure])


def _sample(question: Question, peer: Peer, figures: list[float]) -> Sample:
    return Sample(question, peer.name, peer.settings, peer.ours, peer.safety, figures)
