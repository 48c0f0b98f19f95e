"""The cost of an event by the number of steps: two windows of the same span, one with few steps and
one with many."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial

from bench.effort import Effort
from bench.history import HOUR_MS, History, Steps
from bench.peers.rolling_api import RollingApi
from bench.peers.rolling_engine import EngineRolling
from bench.rolling.table import Owner
from bench.timing import Contender, Question, Sample, Trial, alternate, unchecked
from bench.workload import Batch, Population, Traffic, in_batches

FEW, MANY = Steps(7, 100), Steps(700, 1)
_BATCH = 1_000
_MORE_RUNS = 3

Peer = EngineRolling | RollingApi


def measure_steps(
    population: Population, now_ms: int, effort: Effort, kinds: Iterable[Traffic]
) -> list[Sample]:
    """Measure the ns per event in batches of 1,000, alternately with 7 and with 700 steps."""
    now_ms = late_in_both(now_ms)
    history = History(population, FEW.begins_ms(now_ms), now_ms)
    runs, count = effort.runs * _MORE_RUNS, max(effort.events.values())
    samples: list[Sample] = []
    with ExitStack() as stack:
        engines = [EngineRolling(steps, now_ms) for steps in (FEW, MANY)]
        apis = [
            stack.enter_context(closing(RollingApi(None, now_ms, steps, ["rolling"])))
            for steps in (FEW, MANY)
        ]
        pairs: list[list[Peer]] = [[*engines], [*apis]]
        for peers in pairs:
            for peer in peers:
                peer.load(history.batches())
        for api in apis:
            api.settings = f"{api.steps.many} steps of {api.steps.hours} h"
        for kind in kinds:
            events = population.traffic(kind, (runs + 1) * count)
            rounds = in_batches(events, count)
            question = Question(
                "An event in a window of 700 h", population.count, f"{kind}, ns", "ns"
            )
            for peers in pairs:
                contenders = [Contender(peer, _trial(peer, rounds)) for peer in peers]
                few, many = alternate(question, contenders, runs, partial(_nanoseconds, count))
                samples += [few, many, _against(few, many, kind)]
    return samples


def late_in_both(now_ms: int) -> int:
    """Return an instant half an hour before a boundary of both windows, so that both begin at the
    same instant."""
    long_ms = FEW.hours * HOUR_MS
    return (now_ms // long_ms + 1) * long_ms - HOUR_MS // 2


def _trial(peer: Peer, rounds: Sequence[Batch]) -> Callable[[int], Trial]:
    return lambda run: unchecked(peer.writes(in_batches(rounds[run], _BATCH)))


def _nanoseconds(events: int, seconds: float) -> float:
    return seconds / events * 1e9


def _against(few: Sample, many: Sample, kind: Traffic) -> Sample:
    """Return the ratio of the cost with many steps to that with few, for each run."""
    question = Question(few.question.group, few.question.members, f"{kind}, ns", "x")
    owner = Owner(few.contender, f"{MANY.many} steps against {FEW.many}")
    ratios = [m / f for f, m in zip(few.figures, many.figures, strict=True)]
    return Sample(question, owner.name, owner.settings, owner.ours, owner.safety, ratios)
