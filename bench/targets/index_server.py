"""Boards on an index server compared with a handwritten script, in a short form of `python -m
bench.redis`."""

from collections.abc import Iterator

from bench.http.process import two_cores
from bench.outcome import Findings, Outcome
from bench.redis.effort import SHORT
from bench.redis.events import BEST, RATE, WANTED, title
from bench.redis.suite import RedisPlan, missing, run, software
from bench.sizes import size_name
from bench.suite import EVERYBODY, Plan
from bench.targets.compared import against_best
from bench.targets.scale import Scale
from bench.timing import Sample

_LAYOUT = "packed"


def measure_index_server(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure the events per second into all + day + rolling 7d/1h, compared with the best script.
    Each peer is measured with several numbers of batches in flight, and its best result counts."""
    if not scale.services or plan.chosen != EVERYBODY:
        return
    cores, lacking = two_cores(), missing()
    if cores is None or lacking:
        plan.say(f"no boards on an index server: {'; '.join(lacking) or 'there is only one core'}")
        return
    kept: list[Sample] = []

    def keep(samples: list[Sample]) -> None:
        kept[:] = samples

    run(RedisPlan(SHORT, frozenset({"events"}), cores, plan.now_ms, plan.say, keep))
    yield Findings(kept, list(_outcomes(kept)), software())


def _outcomes(samples: list[Sample]) -> Iterator[Outcome]:
    for kind, least in WANTED.items():
        group = title(RATE, kind)
        rows = [s for s in samples if (s.question.group, s.question.case) == (group, BEST)]
        ours = [s for s in rows if s.ours and s.settings == _LAYOUT]
        name = f"events on an index server, {size_name(SHORT.members)} members, {_LAYOUT}, {kind}"
        yield from against_best(name, rows, ours, least)
