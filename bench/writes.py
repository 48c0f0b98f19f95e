"""Events per second, by batch size and traffic. Every run is verified by the resulting scores."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain

from bench.effort import Effort
from bench.peers import Writer
from bench.timing import Contender, Question, Sample, Trial, alternate
from bench.workload import Batch, Population, Traffic, in_batches

_VERIFIED_MEMBERS = 50


def measure_writes(
    group: str, writers: Sequence[Writer], population: Population, kind: Traffic, effort: Effort
) -> list[Sample]:
    """Measure each batch size. The writers alternate, and write the same events."""
    rounds = effort.runs + 1
    events = population.traffic(kind, rounds * max(effort.events.values()))
    samples = []
    for size, count in effort.events.items():
        slices = [in_batches(events[r * count : (r + 1) * count], size) for r in range(rounds)]
        question = Question(f"{group}, {kind}", population.count, f"batch {size:,}", "events/s")
        contenders = [_contender(writer, slices) for writer in writers]
        samples += alternate(question, contenders, effort.runs, partial(_rate, count))
    return samples


def _rate(events: int, seconds: float) -> float:
    return events / seconds


def _contender(writer: Writer, slices: Sequence[Sequence[Batch]]) -> Contender:
    def prepare(run: int) -> Trial:
        return _verified(writer, slices[run])

    return Contender(writer, prepare)


def _verified(writer: Writer, batches: Sequence[Batch]) -> Trial:
    """Return a run that writes the batches. Its check raises an error unless the scores of some
    members have grown by the values sent for them."""
    added: Counter[str] = Counter()
    for member, value in chain.from_iterable(batches):
        added[member] += value
    members = list(added)[:_VERIFIED_MEMBERS]
    before = writer.scores(members)

    def check() -> None:
        due = [score + added[member] for score, member in zip(before, members, strict=True)]
        if writer.scores(members) != due:
            raise AssertionError(f"{writer.name} ({writer.settings}) lost or invented events")

    return Trial(writer.writes(batches), check)
