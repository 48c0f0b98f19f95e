"""Figures as they are taken, round by round, and whose they are."""

from collections.abc import Iterator
from statistics import median

import msgspec

from bench.timing import Question, Sample, Unit

BY_HAND = "the hand-written script"
BY_REDIS_PY = "redis-py"


class Owner(msgspec.Struct, frozen=True):
    """Whose a figure is; `rival` is what it is in lines of ratios, nothing for laurels itself."""

    name: str
    settings: str
    rival: str = ""


class Book:
    """All figures about boards of one size."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._figures: dict[tuple[str, Owner, str, Unit], list[float]] = {}

    def keep(self, group: str, owner: Owner, case: str, unit: Unit, figure: float) -> None:
        """Adds the figure of a run to those of the same question."""
        self._figures.setdefault((group, owner, case, unit), []).append(figure)

    def keep_best(self, group: str, owner: Owner, case: str, unit: Unit) -> None:
        """Shows once more, as a case of its own, the case with the greatest median so far."""
        kept = [
            figures
            for (of_group, whose, _, _), figures in self._figures.items()
            if (of_group, whose) == (group, owner)
        ]
        self._figures[group, owner, case, unit] = list(max(kept, key=median))

    def samples(self) -> Iterator[Sample]:
        """A sample for each question, in the order they were first answered."""
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
