"""Ratios of our best figure to the best figure of the other contenders."""

from collections.abc import Sequence

from bench.outcome import Outcome
from bench.report import short
from bench.timing import TIMES, Sample


def against_best(
    target: str, rows: Sequence[Sample], ours: Sequence[Sample], least: float
) -> list[Outcome]:
    """Return an outcome with the ratio of our best figure to the best figure of the others. Return
    no outcome if one of the two figures is missing."""
    theirs = [s for s in rows if not s.ours]
    if not ours or not theirs:
        return []
    mine, other = best(ours), best(theirs)
    ratio = mine.middle / other.middle
    if mine.question.unit in TIMES:
        ratio = 1 / ratio
    basis = f"{describe(mine)} against {describe(other)}"
    return [Outcome(target=target, measured=ratio, measure="x", least=least, basis=basis)]


def best(samples: Sequence[Sample]) -> Sample:
    """Return the sample with the best median."""
    choose = min if samples[0].question.unit in TIMES else max
    return choose(samples, key=lambda sample: sample.middle)


def describe(sample: Sample) -> str:
    """Return the median of a sample as text, with the contender and its settings."""
    unit = sample.question.unit
    return f"{short(sample.middle)} {unit} ({sample.contender}, {sample.settings})"
