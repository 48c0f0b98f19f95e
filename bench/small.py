"""The memory of a very large number of very small rankings."""

from collections.abc import Iterator
from itertools import chain
from random import Random

from bench.peers.engine import SmallRankings
from bench.peers.redis_server import RedisServer
from bench.peers.redis_store import RedisStore
from bench.suite import Plan
from bench.timing import Peer, Question, Sample, single
from bench.workload import Entry, Population

_ENTRIES = 10
_MEMBERS = 100_000


def measure_small(plan: Plan) -> list[Sample]:
    """Measure rankings of 10 entries each. The members of all rankings are taken from the same
    100,000 members."""
    count = plan.effort.small_rankings
    plan.say(f"{count:,} rankings of {_ENTRIES}")
    samples = []
    if "engine" in plan.chosen:
        small = SmallRankings(_rankings(plan))
        samples.append(_sample(count, small, "without the ids", small.nbytes()))
        both = small.nbytes() + small.roster.nbytes
        samples.append(_sample(count, small, "with the ids", both))
    if "redis" in plan.chosen:
        with RedisServer(plan.folder) as server:
            store = RedisStore(server)
            store.load_small(_rankings(plan))
            samples.append(_sample(count, store, "with the ids", store.nbytes()))
    return samples


def _rankings(plan: Plan) -> Iterator[list[Entry]]:
    """Return the members of each ranking, the same for every peer."""
    entries = list(chain.from_iterable(Population(_MEMBERS, plan.now_ms).batches()))
    random = Random(4)
    return (random.sample(entries, _ENTRIES) for _ in range(plan.effort.small_rankings))


def _sample(count: int, peer: Peer, case: str, nbytes: int) -> Sample:
    group = f"Memory, bytes a ranking of {_ENTRIES} ({count:,} of them)"
    return single(Question(group, _MEMBERS, case, "bytes"), peer, nbytes / count)
