"""What is wanted of laurels, and whether a run reached it."""

from typing import Literal, TypeAlias

import msgspec

from bench.timing import Sample

Measure: TypeAlias = Literal[
    "x", "of it", "bytes", "members/s", "events/s", "changes/s", "µs", "ms", "s"
]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One target: at least or at most so much was wanted, and so much was measured.

    Without either it is a figure that belongs beside the targets.
    """

    target: str
    measured: float
    measure: Measure
    least: float | None = None
    most: float | None = None
    basis: str = ""
    """The figures behind it, and whose they are."""

    @property
    def reached(self) -> bool | None:
        """None where nothing in particular was wanted."""
        if self.least is None and self.most is None:
            return None
        above = self.least is None or self.measured >= self.least
        return above and (self.most is None or self.measured <= self.most)


class Findings(msgspec.Struct, frozen=True):
    """What a section of the bench found: its figures, and what they say about its targets."""

    samples: list[Sample]
    outcomes: list[Outcome] = []
    software: str = ""
    """What took part beside what the machine names, by version."""
