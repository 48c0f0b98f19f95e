"""The sections of a run, in their order."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from bench.outcome import Findings
from bench.suite import Plan
from bench.targets.events import measure_events
from bench.targets.flows import measure_flows
from bench.targets.http import measure_http
from bench.targets.index_server import measure_index_server
from bench.targets.ranks import measure_ranks
from bench.targets.recovery import measure_huge, measure_recovery
from bench.targets.scale import Scale
from bench.targets.seasons import measure_seasons
from bench.targets.sizes import measure_sizes
from bench.targets.stalls import measure_stalls

Section: TypeAlias = Callable[[Plan, Scale], Iterator[Findings]]

SECTIONS: dict[str, Section] = {
    "events": measure_events,
    "ranks": measure_ranks,
    "sizes": measure_sizes,
    "recovery": measure_recovery,
    "stalls": measure_stalls,
    "http": measure_http,
    "redis": measure_index_server,
    "flows": measure_flows,
    "seasons": measure_seasons,
    "huge": measure_huge,
}


def measure_targets(plan: Plan, scale: Scale, sections: Sequence[str]) -> Iterator[Findings]:
    """Yield the findings of each section, one measurement after another."""
    for section in sections:
        yield from SECTIONS[section](plan, scale)
