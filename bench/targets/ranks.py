"""The cost of a rank for a Python program, compared with that of a ZREVRANK.

Redis gets prepared bytes over a unix socket from the cheapest possible client, in two ways: with a
round trip for each rank, which corresponds to our call for one member, and in pipelines of 100,
which correspond to our call for 100 members. The cost of such a pipeline or call is divided by 100.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

from bench.effort import GROUP, Effort
from bench.outcome import Findings, Outcome
from bench.peers import Ranker
from bench.peers.api import ApiBoard, ApiRanks
from bench.peers.engine import EngineBoard
from bench.peers.redis_client import ClientRedis
from bench.peers.redis_raw import RawRedis
from bench.peers.redis_server import Placement, RedisServer, Setting
from bench.peers.redis_store import RedisStore
from bench.suite import Plan
from bench.targets.compared import against_best
from bench.targets.scale import Scale
from bench.timing import Contender, Question, Sample, Task, Trial, alternate, unchecked
from bench.workload import Population

_MORE_CALLS = 10
ONE, TOGETHER = "asked one by one", f"{GROUP} at once"
_PLACEMENTS: tuple[Placement, ...] = ("one core", "any core")
_LEAST_ONE, _LEAST_TOGETHER = 3.0, 10.0


def measure_ranks(plan: Plan, scale: Scale) -> Iterator[Findings]:
    """Measure the µs per member for every peer. Each run uses other members."""
    plan.say(f"{scale.board:,} members: ranks")
    population = Population(scale.board, plan.now_ms)
    with ExitStack() as stack:
        rankers = _rankers(plan, population, stack)
        samples = _measure(rankers, population, plan.effort)
    yield Findings(samples, _outcomes(samples))


def _rankers(plan: Plan, population: Population, stack: ExitStack) -> list[Ranker]:
    rankers: list[Ranker] = []
    if "engine" in plan.chosen:
        engine = EngineBoard()
        engine.load(population)
        rankers.append(engine)
    if "api" in plan.chosen:
        api = stack.enter_context(closing(ApiBoard("memory:")))
        api.load(population)
        rankers += [api, ApiRanks(api)]
    if "redis" in plan.chosen:
        folder = plan.folder / f"ranks-{population.count}"
        folder.mkdir()
        server = stack.enter_context(RedisServer(folder))
        RedisStore(server).load(population)
        raw = [RawRedis(server, "pipeline", Setting("off", place)) for place in _PLACEMENTS]
        rankers += [stack.enter_context(closing(redis)) for redis in raw]
        rankers.append(ClientRedis(server, Setting("off", "one core")))
    return rankers


def _measure(rankers: Sequence[Ranker], population: Population, effort: Effort) -> list[Sample]:
    runs = range(effort.runs + 1)
    singles = [population.sample(_MORE_CALLS * effort.calls, seed=20 + run) for run in runs]
    groups = [[run[at : at + GROUP] for at in range(0, len(run), GROUP)] for run in singles]
    cases: list[tuple[str, Callable[[Ranker, int], Task]]] = [
        (ONE, lambda ranker, run: ranker.rank(singles[run])),
        (TOGETHER, lambda ranker, run: ranker.ranks(groups[run])),
    ]
    samples = []
    for case, task in cases:
        question = Question("Ranks, µs a member", population.count, case, "µs")
        contenders = [_contender(ranker, task) for ranker in rankers]
        figure = partial(_microseconds, len(singles[0]))
        samples += alternate(question, contenders, effort.runs, figure)
    return samples


def _contender(ranker: Ranker, task: Callable[[Ranker, int], Task]) -> Contender:
    def prepare(run: int) -> Trial:
        return unchecked(task(ranker, run))

    return Contender(ranker, prepare)


def _microseconds(members: int, seconds: float) -> float:
    return seconds / members * 1e6


def _outcomes(samples: Sequence[Sample]) -> list[Outcome]:
    single = [s for s in samples if s.question.case == ONE]
    together = [s for s in samples if s.question.case == TOGETHER]
    one, many = (
        [s for s in rows if s.contender.startswith("laurels API")] for rows in (single, together)
    )
    alone = "a round trip of ZREVRANK"
    pipelined = f"one ZREVRANK of a pipeline of {GROUP}"
    return [
        *against_best(f"a rank, one call, against {alone}", single, one, _LEAST_ONE),
        *against_best(f"a rank, one call, against {pipelined}", together, one, _LEAST_ONE),
        *against_best(
            f"a rank of {GROUP} at once, against {pipelined}", together, many, _LEAST_TOGETHER
        ),
    ]
