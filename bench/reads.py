"""The time of a read in µs, on the loaded board before any writes."""

from collections.abc import Callable, Sequence
from functools import partial

from bench.effort import GROUP, Effort
from bench.peers import RADIUS, TOP, Reader
from bench.timing import Contender, Question, Sample, Task, Trial, alternate, unchecked
from bench.workload import Population


def measure_reads(
    readers: Sequence[Reader], population: Population, effort: Effort
) -> list[Sample]:
    """Measure each kind of read. The readers alternate, and read the same members."""
    calls = effort.calls
    singles = population.sample(calls)
    count = max(1, calls // 10)
    drawn = population.sample(count * GROUP, seed=3)
    groups = [drawn[first : first + GROUP] for first in range(0, len(drawn), GROUP)]
    kinds: list[tuple[str, int, Callable[[Reader], Task]]] = [
        ("rank", calls, lambda reader: reader.rank(singles)),
        (f"{GROUP} ranks", count, lambda reader: reader.ranks(groups)),
        (f"around({RADIUS})", calls, lambda reader: reader.around(singles)),
        (f"top {TOP}", count, lambda reader: reader.top(count)),
        (f"{GROUP} standings", count, lambda reader: reader.standings(groups)),
    ]
    samples = []
    for case, times, task in kinds:
        question = Question("Reads, µs a call", population.count, case, "µs")
        contenders = [_contender(reader, task) for reader in readers]
        samples += alternate(question, contenders, effort.runs, partial(_microseconds, times))
    return samples


def _microseconds(calls: int, seconds: float) -> float:
    return seconds / calls * 1e6


def _contender(reader: Reader, task: Callable[[Reader], Task]) -> Contender:
    def prepare(_run: int) -> Trial:
        return unchecked(task(reader))

    return Contender(reader, prepare)
