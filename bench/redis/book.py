"""The figures of all rounds, by case and by the program for which they were measured (`Owner`)."""

from collections.abc import Iterator
from statistics import median

import msgspec

from bench.timing import Question, Sample, Unit

BY_HAND = "the hand-written script"
BY_REDIS_PY = "redis-py"


class Owner(msgspec.Struct, frozen=True):
    """The program for which a figure was measured, such as laurels with some settings, or a
    handwritten script. `rival` is its name in the report's rows of ratios; it is empty for laurels
    itself."""

    name: str
    settings: str
    rival: str = ""


class Book:
    """All figures about boards of one size."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._figures: dict[tuple[str, Owner, str, Unit], list[float]] = {}

    def keep(self, group: str, owner: Owner, case: str, unit: Unit, figure: float) -> None:
        """Add the figure of a run to the earlier ones of the same case."""
        self._figures.setdefault((group, owner, case, unit), []).append(figure)

    def keep_best(self, group: str, owner: Owner, case: str, unit: Unit) -> None:
        """Among the cases of this group and owner, find the one with the greatest median. Add a
        copy of its figures as the case `case`."""
        kept = [
            figures
            for (of_group, whose, _, _), figures in self._figures.items()
            if (of_group, whose) == (group, owner)
        ]
        self._figures[group, owner, case, unit] = list(max(kept, key=median))

    def samples(self) -> Iterator[Sample]:
        """Return a sample for each case, in the order in which they were first recorded."""
        for (group, owner, case, unit), figures in self._figures.items():
            yield Sample(
                question=Question(group, self._members, case, unit),
                contender=owner.name,
                settings=owner.settings,
                ours=not owner.rival,
                safety="each second",
                figures=figures,
                rival=owner.rival,
            )
