"""The figures of a run as JSON and as tables, with contenders in rows, cases in columns, and the
ratios of laurels below."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from bench.effort import Effort
from bench.machine import Machine
from bench.outcome import Findings, Measure, Outcome
from bench.timing import TIMES, Sample, Unit

_SHOWN_UNITS: dict[Unit, str] = {"x": " x", "%": " %"}
_LESS_IS_BETTER: tuple[Unit, ...] = (*TIMES, "bytes")


TARGET_HEADINGS = ("target", "wanted", "measured", "reached", "from")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one run of any bench."""

    started: str
    machine: Machine
    samples: list[Sample]
    software: str = ""
    """Additional software that took part, with versions."""
    outcomes: list[Outcome] = []
    """The results for targets, if the run has any."""

    def line(self) -> str:
        """Return a line about the machine and the software."""
        return f"{self.machine.line()}{self.software and f', {self.software}'}"

    def with_more(self, findings: Findings) -> Self:
        """Return the report with the findings of another section added."""
        return replace(
            self,
            samples=[*self.samples, *findings.samples],
            outcomes=[*self.outcomes, *findings.outcomes],
            software=_together(self.software, findings.software),
        )

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")


class Report(Measured, frozen=True, kw_only=True):
    """The report of one run of the main bench."""

    effort: Effort


class Grid(msgspec.Struct, frozen=True):
    """One table: each row is a name, settings, and a text for each case."""

    title: str
    cases: list[str]
    figures: list[list[str]]
    ratios: list[list[str]]


def grids(samples: Sequence[Sample]) -> Iterator[Grid]:
    """Return a table for each group and size of board, in the order of measurement."""
    for group, members in dict.fromkeys((s.question.group, s.question.members) for s in samples):
        chosen = [s for s in samples if (s.question.group, s.question.members) == (group, members)]
        cases = list(dict.fromkeys(s.question.case for s in chosen))
        yield Grid(
            f"{group} · {members:,} members" if members else group,
            cases,
            [_figures(row, cases) for row in _by_contender(chosen)],
            list(_ratios(chosen, cases)),
        )


def _together(*named: str) -> str:
    """Return the programs of several lists as one list without repetitions."""
    return ", ".join(dict.fromkeys(one for some in named if some for one in some.split(", ")))


def _figures(row: Sequence[Sample], cases: Sequence[str]) -> list[str]:
    figures = {s.question.case: _figure(s) for s in row}
    return [row[0].contender, row[0].settings, *(figures.get(case, "") for case in cases)]


def _by_contender(samples: Iterable[Sample]) -> list[list[Sample]]:
    rows: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        rows.setdefault((sample.contender, sample.settings), []).append(sample)
    return list(rows.values())


def _ratios(samples: Sequence[Sample], cases: Sequence[str]) -> Iterator[list[str]]:
    """Yield a row of ratios for each of our contenders and each kind of rival: in each case, the
    contender's figure compared with that of the best rival of this kind."""
    others = [s for s in samples if not s.ours]
    for row in _by_contender(s for s in samples if s.ours):
        ours = {s.question.case: s for s in row}
        for rival in dict.fromkeys(map(_rival, others)):
            ratios = [_ratio(ours.get(case), _best(others, rival, case)) for case in cases]
            label = f"{row[0].contender}, {row[0].settings}"
            if any(ratios):
                yield [label, f"against {rival}", *ratios]


def _rival(sample: Sample) -> str:
    return sample.rival or f"the best Redis, {sample.safety}"


def _best(others: Sequence[Sample], rival: str, case: str) -> Sample | None:
    """Return the best sample that rivals of one kind have for a case, or None if they have none."""
    choice = [s for s in others if _rival(s) == rival and s.question.case == case]
    if not choice:
        return None
    less = choice[0].question.unit in _LESS_IS_BETTER
    return (min if less else max)(choice, key=lambda s: s.middle)


def _ratio(ours: Sample | None, other: Sample | None) -> str:
    """Return as text how many times as fast as the other contender ours is or, for bytes, our
    figure divided by the other's. Return an empty text if a figure is missing or 0, or for
    percentages."""
    if ours is None or other is None or ours.question.unit == "%":
        return ""
    # a time below the resolution of the clock is measured as 0
    if not (ours.middle and other.middle):
        return ""
    share = ours.middle / other.middle
    if ours.question.unit == "bytes":
        return f"{share:.2f} of it"
    return f"{1 / share if ours.question.unit in TIMES else share:.2f} x"


def _figure(sample: Sample) -> str:
    """Return the median and, if there are several runs, below it the least and the greatest
    figure."""
    middle = short(sample.middle) + _SHOWN_UNITS.get(sample.question.unit, "")
    if len(sample.figures) == 1:
        return middle
    return f"{middle}\n{short(min(sample.figures))}..{short(max(sample.figures))}"


def target_row(outcome: Outcome) -> list[str]:
    """Return a target as a row of the table of targets."""
    reached = {True: "yes", False: "no", None: ""}[outcome.reached]
    return [outcome.target, _wanted(outcome), _quantity(outcome.measured, outcome.measure), reached,
            outcome.basis]  # fmt: skip


def _wanted(outcome: Outcome) -> str:
    bounds = [("≥", outcome.least), ("≤", outcome.most)]
    return " and ".join(
        f"{sign} {_quantity(bound, outcome.measure)}" for sign, bound in bounds if bound is not None
    )


def _quantity(figure: float, measure: Measure) -> str:
    return f"{figure:.2f} {measure}" if measure in ("x", "of it") else f"{short(figure)} {measure}"


def short(figure: float) -> str:
    """Return a figure with as many digits as the tables show."""
    if figure >= 1e6:
        return f"{figure / 1e6:.2f}M"
    if figure >= 1e4:
        return f"{figure / 1e3:.0f}k"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"
