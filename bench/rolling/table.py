"""Tables of figures that are measured once."""

from bench.timing import Peer, Question, Safety, Sample, Unit, single
from bench.workload import Population


class Owner:
    """What a figure was measured on: laurels or a peer, with its settings. Each has a row of a
    table."""

    def __init__(
        self, name: str, settings: str, *, ours: bool = True, safety: Safety = "memory"
    ) -> None:
        self.name, self.settings, self.ours, self.safety = name, settings, ours, safety


class Table:
    """One table at one size of board, to which figures are added."""

    def __init__(self, group: str, population: Population) -> None:
        self._group, self._population = group, population
        self.samples: list[Sample] = []

    def keep(self, owner: Peer, case: str, unit: Unit, figure: float) -> None:
        question = Question(self._group, self._population.count, case, unit)
        self.samples.append(single(question, owner, figure))

    def keep_calm(self, owner: Owner, read: float, write: float) -> None:
        """Record the longest read and write without other work, in seconds. They are in a table of
        their own, since they are not compared with the others."""
        calm = Table(f"{self._group}: before it", self._population)
        calm.keep_waits(owner, read, write)
        self.samples += calm.samples

    def keep_waits(self, owner: Owner, read: float, write: float) -> None:
        """Record the longest read and write, in seconds."""
        self.keep(owner, "longest read, ms", "ms", read * 1e3)
        self.keep(owner, "longest write, ms", "ms", write * 1e3)
