"""Runs that alternate between contenders, so that a noisy minute costs all of them alike."""

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Literal, Protocol, TypeAlias

import msgspec

Task: TypeAlias = Callable[[], object]
Unit: TypeAlias = Literal[
    "events/s", "members/s", "requests/s", "frames/s", "s", "ms", "µs", "ns", "bytes", "x", "%"
]
TIMES: tuple[Unit, ...] = ("s", "ms", "µs", "ns")
Safety: TypeAlias = Literal["memory", "each second", "each commit"]


class Peer(Protocol):
    """Whoever a figure belongs to: one way of reaching one store, under some settings."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> str: ...

    @property
    def ours(self) -> bool: ...

    @property
    def safety(self) -> Safety: ...


class Trial(msgspec.Struct, frozen=True):
    """One run made ready: what is timed, and what must hold after it (raises if not)."""

    run: Task
    check: Callable[[], None]


class Contender(msgspec.Struct, frozen=True):
    """A peer and its work. `prepare(n)` makes run n ready, outside the clock."""

    peer: Peer
    prepare: Callable[[int], Trial]


class Question(msgspec.Struct, frozen=True):
    """What is measured: a group of tables, the board's size and one column of the table.

    `members` is 0 where the columns are sizes.
    """

    group: str
    members: int
    case: str
    unit: Unit


class Sample(msgspec.Struct, frozen=True):
    """The figures of one contender for one question, a figure per run."""

    question: Question
    contender: str
    settings: str
    ours: bool
    safety: Safety
    figures: list[float]
    rival: str = ""
    """Who it is in lines of ratios, where that is not the best Redis of its safety."""

    @property
    def middle(self) -> float:
        return median(self.figures)


def unchecked(run: Task) -> Trial:
    """A trial with nothing to verify afterwards."""
    return Trial(run, lambda: None)


def seconds(task: Task) -> float:
    """How long a task takes, with the garbage of its preparation collected beforehand."""
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
    """One unrecorded run of each contender, then `runs` rounds over all of them.

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
    """A figure that is taken once: a size, or the time of a load."""
    return _sample(question, peer, [figure])


def _sample(question: Question, peer: Peer, figures: list[float]) -> Sample:
    return Sample(question, peer.name, peer.settings, peer.ours, peer.safety, figures)
