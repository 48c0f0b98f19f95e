"""Durable events per second in batches of 1,000, compared with the best pipelined Redis of the same
durability."""

from collections.abc import Iterator

from msgspec.structs import replace

from bench.outcome import Findings, Outcome
from bench.rolling.suite import RollingSize
from bench.suite import Plan, Size
from bench.targets.compared import against_best
from bench.targets.scale import Scale
from bench.timing import Sample
from bench.workload import Traffic

BATCH = 1_000
_LEAST: dict[Traffic, float] = {"zipf": 5.0, "uniform": 3.0}


def measure_events(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure one window, then all + day + rolling 7d/1h, in which an event changes five
    structures."""
    effort = plan.effort
    plan = replace(plan, effort=replace(effort, events={BATCH: effort.events[BATCH]}))
    plain = Size(plan, scale.board).measure_safest()
    yield Findings(plain, _outcomes("all", "Durable events/s, all", plain))
    rolling = RollingSize(plan, scale.board).measure_safest()
    windows = "all + day + rolling 7d/1h"
    yield Findings(rolling, _outcomes(windows, "Durable rolling events/s", rolling))


def _outcomes(windows: str, group: str, samples: list[Sample]) -> list[Outcome]:
    outcomes = []
    for kind, least in _LEAST.items():
        rows = [s for s in samples if s.question.group == f"{group}, {kind}"]
        name = f"durable events, {windows}, {kind}"
        outcomes += against_best(name, rows, [s for s in rows if s.ours], least)
    return outcomes
