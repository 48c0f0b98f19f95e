"""The guarantees of an index for rolling windows: every implementation gives the answers that plain
lists of events give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from laurels.core.index import Index, Outcome
from laurels.core.lifecycle import RollingState, rolling_state
from laurels.core.plan import plan_batch
from laurels.core.ranking_key import RankingKey
from laurels.model.batch import batch_of
from laurels.model.board import Board
from laurels.model.event import EventReader
from laurels.stores.local.index.memory import MemoryIndex
from tests.calendar_by_scanning import HOUR

MAKERS: dict[str, Callable[[], Index]] = {"memory": lambda: MemoryIndex(seed=7)}
BOARD = Board("b", windows=["r=rolling:3h/1h"], tie="member", grace="2h", dedupe="2h")
RULES = BOARD.rules()
NOW = 1_795_219_200_000
"""The first instant of an hour."""


class Steps:
    """An index with one rolling window, and a list of the events of each hour."""

    def __init__(self, index: Index) -> None:
        self.index = index
        index.open_board(1, RULES)
        self.now_ms = NOW
        self.hours: dict[int, Counter[str]] = {}
        while not index.rotate_step(self.roll, 100):
            pass

    @property
    def roll(self) -> RollingState:
        roll = rolling_state(1, RULES.windows["r"], self.now_ms)
        assert roll is not None
        return roll

    @property
    def key(self) -> RankingKey:
        return self.roll.ranking.key

    def count(self, events: list[tuple[str, int, int]]) -> None:
        batch = batch_of(EventReader(RULES).gather(events), 1, self.now_ms)
        outcomes = self.index.apply(batch, plan_batch(RULES, {}, batch))
        assert {Outcome(code) for code in outcomes.codes} <= {Outcome.APPLIED, Outcome.UNCHANGED}
        for member, value, at_ms in events:
            self.hours.setdefault(at_ms // HOUR, Counter())[member] += value

    def events(self, rng: Random, size: int) -> list[tuple[str, int, int]]:
        """Return events of the running hour and of the two hours before it."""
        hours = [HOUR * rng.randrange(3) for _ in range(size)]
        return [(f"m{rng.randrange(300)}", rng.randint(-3, 5), self.now_ms - h) for h in hours]

    def expected(self) -> list[tuple[str, int]]:
        total: Counter[str] = Counter()
        for hour in range(self.now_ms // HOUR - 2, self.now_ms // HOUR + 1):
            for member, value in self.hours.get(hour, {}).items():
                total[member] += value
        return sorted(total.items(), key=lambda entry: (-entry[1], entry[0]))

    def listed(self) -> list[tuple[str, int]]:
        part = self.index.slice(self.key, 0, 1_000)
        assert self.index.size(self.key) == len(part.members)
        return list(zip(part.members, [-word for word in part.words[0]], strict=True))


@pytest.fixture(params=MAKERS)
def steps(request: pytest.FixtureRequest) -> Steps:
    return Steps(MAKERS[request.param]())


@pytest.mark.parametrize("limit", [1, 7, 100, None])
@pytest.mark.parametrize("share", [0, 3, 1_000])
def test_a_pass_may_be_done_in_any_shares(steps: Steps, limit: int | None, share: int) -> None:
    rng = Random(4)
    for _ in range(12):
        for _ in range(4):
            steps.count(steps.events(rng, 50))
            if share:
                left = steps.index.pass_left(1, "r")
                assert steps.index.advance_pass(1, "r", share) <= left
        assert steps.listed() == steps.expected()
        steps.index.check()
        steps.now_ms += HOUR * rng.choice([1, 1, 1, 2, 3, 4])
        turns = 1
        while not steps.index.rotate_step(steps.roll, limit):
            turns += 1
            assert turns < 10_000
        assert limit is not None or turns == 1
        assert steps.listed() == steps.expected()
    steps.index.check()


def test_every_call_of_a_pass_makes_progress(steps: Steps) -> None:
    rng = Random(4)
    steps.count(steps.events(rng, 300))
    steps.now_ms += HOUR
    assert steps.index.rotate_step(steps.roll)
    lefts = [steps.index.pass_left(1, "r")]
    while lefts[-1]:
        lefts.append(steps.index.advance_pass(1, "r", 10))
        assert lefts[-1] < lefts[-2]
    assert len(lefts) > 2
    steps.now_ms += HOUR
    assert steps.index.rotate_step(steps.roll, 0) or not steps.index.pass_left(1, "r")
    assert steps.listed() == steps.expected()


def test_only_steps_that_count_are_kept(steps: Steps) -> None:
    for hour in range(6):
        steps.count([("ann", hour, steps.now_ms), ("bob", 1, steps.now_ms)])
        running = steps.now_ms // HOUR
        numbers = [key.instance for key in steps.index.tallies(1)]
        assert numbers == list(range(max(running - 2, NOW // HOUR), running + 1))
        assert steps.index.keys(1) == [steps.key]
        steps.now_ms += HOUR
        while not steps.index.rotate_step(steps.roll, 5):
            pass
    steps.now_ms += 100 * HOUR
    assert steps.index.rotate_step(steps.roll)
    assert steps.index.keys(1) == steps.index.tallies(1) == []


def test_a_removed_member_is_in_no_tally(steps: Steps) -> None:
    steps.count([("ann", 1, NOW - 2 * HOUR), ("bob", 1, NOW - HOUR), ("ann", 1, NOW)])
    assert steps.index.remove(1, b"ann")
    assert not steps.index.remove(1, b"ann")
    assert [key.instance for key in steps.index.tallies(1)] == [NOW // HOUR - 1]
    assert steps.listed() == [("bob", 1)]
    steps.index.check()
