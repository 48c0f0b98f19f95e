"""Check that a cost grows no faster than the logarithm of the size plus the cost of reading larger
memory.

The allowed cost of an operation has two parts. The first is its cost on the smallest board, which
may grow with the logarithm of the number of members. The second is the cost of random reads in a
block of the board's size: one read for each binary digit of the number of members, as in a search
that never finds anything in the cache. The measured cost divided by the allowed one must not exceed
1 at any size.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import log, log2

from bench.growth.points import RANK, READ, TABLE, UPDATE
from bench.outcome import Outcome
from bench.report import short
from bench.sizes import size_name, size_of
from bench.timing import Sample

Costs = Mapping[int, float]


def lines_of(samples: Sequence[Sample]) -> dict[str, dict[int, float]]:
    """Return for each line of the picture its median costs, by the number of members in ascending
    order."""
    lines: dict[str, dict[int, float]] = {}
    for sample in samples:
        if sample.question.group == TABLE:
            line = lines.setdefault(sample.contender, {})
            line[size_of(sample.question.case)] = sample.middle
    return {name: dict(sorted(line.items())) for name, line in lines.items()}


def growth_outcomes(samples: Sequence[Sample]) -> list[Outcome]:
    """Return the outcomes for a rank and an update, if at least two sizes were measured."""
    lines = lines_of(samples)
    reads = lines.get(READ, {})
    return [
        outcome for name in (RANK, UPDATE) for outcome in _judged(name, lines.get(name, {}), reads)
    ]


def shares(costs: Costs, reads: Costs) -> dict[int, float]:
    """Return the measured cost divided by the allowed one, for each size except the smallest."""
    work = _work(costs)
    return {size: costs[size] / (work[size] + log2(size) * reads[size]) for size in list(costs)[1:]}


def _work(costs: Costs) -> dict[int, float]:
    """Return for each size the first part of the allowed cost: the cost on the smallest board,
    times the ratio of the logarithms of the two sizes."""
    smallest = next(iter(costs), 0)
    return {size: costs[smallest] * log(size) / log(smallest) for size in costs}


def _judged(name: str, costs: Costs, reads: Costs) -> Iterator[Outcome]:
    ratios = shares(costs, reads)
    if not ratios:
        return
    largest = max(costs)
    cold = (costs[largest] - _work(costs)[largest]) / reads[largest]
    smallest = min(costs)
    yield Outcome(
        target=f"growth of {name}, as a share of what logarithm and memory allow, worst size",
        measured=max(ratios.values()),
        measure="of it",
        most=1.0,
        basis=f"{short(costs[smallest])} ns at {size_name(smallest)} members, "
        f"{short(costs[largest])} at {size_name(largest)}: {cold:.1f} random reads of "
        f"{short(reads[largest])} ns besides the logarithm",
    )
