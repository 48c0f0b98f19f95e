"""The targets of laurels, and whether a run has reached them."""

from typing import Literal, TypeAlias

import msgspec

from bench.timing import Sample

Measure: TypeAlias = Literal[
    "x", "of it", "bytes", "members/s", "events/s", "changes/s", "µs", "ms", "s"
]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One target: the measured figure, and the least or the greatest figure that is wanted.

    An outcome without bounds is a figure that is only shown beside the targets.
    """

    target: str
    measured: float
    measure: Measure
    least: float | None = None
    most: float | None = None
    basis: str = ""
    """What `measured` was computed from, as text: for example the two figures of a ratio and what
    each was measured on."""

    @property
    def reached(self) -> bool | None:
        """Whether the target was reached; None if the outcome has no bounds."""
        if self.least is None and self.most is None:
            return None
        above = self.least is None or self.measured >= self.least
        return above and (self.most is None or self.measured <= self.most)


class Findings(msgspec.Struct, frozen=True):
    """The results of a section of the bench: its figures, and the outcomes of its targets."""

    samples: list[Sample]
    outcomes: list[Outcome] = []
    software: str = ""
    """Additional software in this section, with versions."""
