"""Bytes per member compared with Redis, and the cost of an operation as the board grows."""

from collections.abc import Iterator, Sequence

from bench.growth.chase import Chase
from bench.growth.points import measure_points
from bench.growth.verdict import growth_outcomes
from bench.outcome import Findings, Outcome
from bench.peers.engine import EngineBoard
from bench.peers.redis_server import RedisServer
from bench.peers.redis_store import RedisStore
from bench.rolling.table import Table
from bench.sizes import size_name
from bench.suite import Plan
from bench.targets.scale import Scale
from bench.timing import Sample
from bench.workload import MEMBER_BYTES, Population

_GROUP = "Memory, bytes a member"
RANKING, BOTH, ROSTER = "ranking", "ranking and ids", "the ids"
_MOST_OF_REDIS = 0.35
_MOST_OF_ROSTER = 40
_MORE_CALLS = 10


def measure_sizes(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure one size after another, and finally the growth over all sizes."""
    chase = Chase()
    grown: list[Sample] = []
    for members in sorted({*scale.grown, *scale.weighed}):
        population = Population(members, plan.now_ms)
        samples: list[Sample] = []
        if "engine" in plan.chosen:
            board = _loaded(plan, population)
            samples += _weigh_ours(board, population)
            if members in scale.grown:
                calls = _MORE_CALLS * plan.effort.calls
                points = measure_points(board, population, chase, calls, plan.effort.runs)
                samples += points
                grown += points
            del board
        if "redis" in plan.chosen and members in scale.weighed:
            samples += _weigh_redis(plan, population)
        wanted = members in scale.weighed or members == scale.huge
        yield Findings(samples, _memory_outcomes(samples, members) if wanted else [])
    yield Findings([], growth_outcomes(grown))


def _loaded(plan: Plan, population: Population) -> EngineBoard:
    plan.say(f"{population.count:,} members: the engine's bytes and costs")
    board = EngineBoard()
    board.load(population)
    return board


def _weigh_ours(board: EngineBoard, population: Population) -> list[Sample]:
    table = Table(_GROUP, population)
    ranking, roster = board.ranking.nbytes, board.roster.nbytes
    for case, nbytes in ((RANKING, ranking), (BOTH, ranking + roster), (ROSTER, roster)):
        table.keep(board, case, "bytes", nbytes / population.count)
    return table.samples


def _weigh_redis(plan: Plan, population: Population) -> list[Sample]:
    """Measure the memory of Redis. Every sorted set has its own copy of the ids, so the figures
    with and without the ids are the same."""
    plan.say(f"{population.count:,} members: Redis's bytes")
    table = Table(_GROUP, population)
    folder = plan.folder / f"bytes-{population.count}"
    folder.mkdir()
    with RedisServer(folder) as server:
        store = RedisStore(server)
        store.load(population)
        for case in (RANKING, BOTH):
            table.keep(store, case, "bytes", store.nbytes() / population.count)
    return table.samples


def _memory_outcomes(samples: Sequence[Sample], members: int) -> list[Outcome]:
    rows = [s for s in samples if s.question.group == _GROUP]
    ours = {s.question.case: s.middle for s in rows if s.ours}
    theirs = {s.question.case: s.middle for s in rows if not s.ours}
    at = f"{size_name(members)} members"
    outcomes = [
        Outcome(
            target=f"memory of a {case}, {at}, as a share of a sorted set",
            measured=ours[case] / theirs[case],
            measure="of it",
            most=_MOST_OF_REDIS,
            basis=f"{ours[case]:.1f} bytes a member against {theirs[case]:.1f}",
        )
        for case in (RANKING, BOTH)
        if case in ours and case in theirs
    ]
    if ROSTER in ours:
        outcomes.append(
            Outcome(
                target=f"roster, {at}, a member without its id",
                measured=ours[ROSTER] - MEMBER_BYTES,
                measure="bytes",
                most=_MOST_OF_ROSTER,
                basis=f"{ours[ROSTER]:.1f} bytes with ids of {MEMBER_BYTES}",
            )
        )
    return outcomes
