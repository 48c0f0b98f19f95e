"""The time of each stage of a submit in laurels.

The parts of the service are called one after another, and the clock is read between them. A real
`submit_many` takes longer, because of its queue, its locks and the interpreter. Two parts of the
fold are also measured on the engine alone.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from bench.peers import BOARD
from bench.peers.api import ApiBoard
from bench.peers.engine import EngineBoard
from bench.suite import Plan
from bench.timing import Question, Safety, Sample, seconds, single
from bench.workload import Batch, Entry, Event, Population, in_batches
from laurels import Board
from laurels.core.fold import Fold
from laurels.core.record import Create, encode, encode_one
from laurels.model.rules import RankingSpec
from laurels.stores.intake.submission import Submission
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.sqlite import SqliteLog

_EVENTS = {1: 2_000, 100: 50_000, 1_000: 200_000}

Parts: TypeAlias = dict[int, list[Batch]]
Spent: TypeAlias = tuple[int, str, float]


class Stage(NamedTuple):
    """A stage of a submit. Each stage has a row in the tables."""

    name: str
    settings: str = "zipf"
    ours: bool = True
    safety: Safety = "each commit"


class Laps:
    """The seconds that each stage has taken so far."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.perf_counter()

    def start(self) -> None:
        self._since = time.perf_counter()

    def end(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._since
        self._since = time.perf_counter()


class Steps:
    """A board with its log, index and fold, without the service around them."""

    def __init__(self, folder: Path, population: Population) -> None:
        self._log = SqliteLog(folder / "log.db")
        self._fold = Fold(MemoryIndex(1))
        self._now_ms = now_ms = time.time_ns() // 1_000_000
        definition = Board(BOARD).to_json()
        self._fold.apply(Create(self._fold.next_number, 1, now_ms, definition))
        for batch in population.batches():
            self.submit(batch, Laps())

    def submit(self, batch: Sequence[Event | Entry], laps: Laps) -> None:
        """Do what a commit of one write does, and record the time of each stage."""
        state, self._now_ms = self._fold.boards[BOARD], self._now_ms + 1
        laps.start()
        columns = state.reader.gather(batch)
        laps.end("gather: judge form, make columns")
        write = Submission(
            state, columns, {}, watched=RankingSpec("all"), ranks=False, event_time=False
        )
        logged = write.records(self._fold, self._now_ms)
        body = encode([encode_one(record) for record in logged])
        laps.end("plan, encode the log entry")
        self._fold.offset = self._log.append(body)
        laps.end("SQLite commit")
        for piece in range(len(write.pieces())):
            write.before(self._fold, piece)
            write.fold(self._fold, piece)
            write.after(self._fold, piece)
        laps.end("fold: intern, write rule, scores before and after")
        receipts = write.results(self._fold.offset)[0]
        laps.end("receipts")
        for _ in receipts:
            pass
        laps.end("reading every receipt (by the caller, not in submit_many)")

    def close(self) -> None:
        self._log.close()


def measure_stages(plan: Plan, members: int) -> list[Sample]:
    """Measure the ns per event of each stage and of a real submit_many, by the size of the batch,
    with Zipf traffic."""
    population = Population(members, plan.now_ms)
    events = iter(population.traffic("zipf", 2 * sum(_EVENTS.values())))
    parts, others = (
        {size: in_batches(list(islice(events, n)), size) for size, n in _EVENTS.items()}
        for _ in range(2)
    )
    folder = plan.folder / f"stages-{members}"
    folder.mkdir()
    plan.say(f"{members:,} members: stages of a submit")
    spent = [
        *_steps(folder, population, parts),
        *_engine_steps(population, parts, others),
        *_whole(folder, population, parts),
    ]
    return [_sample(population, *one) for one in spent]


def _steps(folder: Path, population: Population, parts: Parts) -> Iterator[Spent]:
    with closing(Steps(folder, population)) as steps:
        for size, batches in parts.items():
            laps = Laps()
            for batch in batches:
                steps.submit(batch, laps)
            for step, spent in laps.seconds.items():
                yield size, step, spent


def _engine_steps(population: Population, parts: Parts, others: Parts) -> Iterator[Spent]:
    """Measure the two parts of the fold with different events, so that the first measurement does
    not bring the members of the second into the cache."""
    board = EngineBoard()
    board.load(population)
    for size, batches in parts.items():
        interning = seconds(board.interning(others[size]))
        yield size, "of the fold: intern", interning
        yield size, "of the fold: write rule", seconds(board.writes(batches)) - interning


def _whole(folder: Path, population: Population, parts: Parts) -> Iterator[Spent]:
    with closing(ApiBoard(str(folder / "whole"))) as board:
        board.load(population)
        for size, batches in parts.items():
            yield size, "the whole submit_many", seconds(partial(board.submit_each, batches))


def _sample(population: Population, size: int, step: str, spent: float) -> Sample:
    question = Question("Where an event's time goes, ns", population.count, f"batch {size:,}", "ns")
    return single(question, Stage(step), spent / _EVENTS[size] * 1e9)
