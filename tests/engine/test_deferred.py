"""A deferred rolling set, when it is refreshed, has the same ranking as an ordinary rolling set."""

from array import array
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from laurels.engine.batch.fold import APPLIED, BEST, LAST, SUM, UNCHANGED, Journal, Shape, apply
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from tests.engine.pair import intern
from tests.engine.rolling_pair import cells, entries

LIMIT = 2**53 - 1
OPS = [(SUM,), (LAST,), (BEST,), (SUM, LAST), (LAST, LAST), (BEST, BEST), (LAST, SUM, SUM)]
STEP_MS = 10


class Beside:
    """An ordinary rolling set and a deferred one. Both get the same changes."""

    def __init__(
        self,
        ops: Sequence[int],
        tie: int = 1,
        resolution: int = 1,
        members: int = 30,
        steps: int = 4,
        dense: bool = False,
    ) -> None:
        self.roster = Roster(5)
        self.ids = intern(self.roster, [b"m%d" % i for i in range(members)])
        self.resolution = resolution
        self.steps = steps
        self.width = len(ops)
        self.best = BEST in ops
        self.now = 1_000_000
        stamped = LAST in ops and (tie == 0 or resolution != 1)
        self.shape = Shape(ops, [-LIMIT] * len(ops), [LIMIT] * len(ops), tie, stamped)
        self.ordinary, self.deferred = (
            RollingSet(
                self.roster,
                self.shape,
                steps=steps,
                lows=[-(LIMIT // steps)] * len(ops),
                highs=[LIMIT // steps] * len(ops),
                dense=dense,
                running=self.now // STEP_MS,
                deferred=deferred,
            )
            for deferred in (False, True)
        )

    def count(self, rng: Random, size: int, journal: Journal | None = None) -> None:
        """Count the same events in both sets. The deferred set reports the entries of its last
        refresh."""
        oldest = (self.now // STEP_MS - self.steps + 1) * STEP_MS
        ats = array("q", [rng.randint(oldest, self.now) for _ in range(size)])
        members = array("I", [rng.choice(self.ids) for _ in range(size)])
        values = [array("q", [rng.randint(-3, 3) for _ in ats]) for _ in range(self.width)]
        before = entries(self.deferred.live)
        for rolling in (self.ordinary, self.deferred):
            numbers = sorted({at // STEP_MS for at in ats})
            stores = [rolling.open_tally(number) for number in numbers]
            status = bytearray(size)
            reports = apply(
                self.shape,
                stores,
                [array("i", [numbers.index(at // STEP_MS) for at in ats])],
                [rolling] * len(stores),
                members,
                values,
                array("q", [at // self.resolution for at in ats]),
                ats,
                None,
                -1,
                0,
                0,
                size,
                status,
                journal if rolling is self.deferred else None,
            )
            assert set(status) <= {APPLIED, UNCHANGED}
        assert reports is not None
        for present, columns in reports:
            assert list(present) == [id in before for id in members]
            reported = zip(*columns, strict=True)
            absent = (0,) * self.width
            assert list(reported) == [before.get(id, absent)[: self.width] for id in members]
        assert entries(self.deferred.live) == before

    def later(self, ms: int) -> None:
        """Move to a later time. If a step ends, the deferred set discards its unfinished build."""
        self.now += ms
        running = self.now // STEP_MS
        while self.ordinary.running < running:
            self.ordinary.advance(2**62)
            self.ordinary.rotate_step()
        if self.deferred.running < running:
            self.deferred.jump_to(running)

    def refresh(self, limit: int = 2**62) -> None:
        while not self.deferred.build(limit):
            self.deferred.check()
        self.deferred.check()
        self.deferred.refresh()
        self.assert_alike()

    def assert_alike(self) -> None:
        live = {id: row[:-1] for id, row in entries(self.ordinary.live).items()}
        assert entries(self.deferred.live) == live

    def check(self) -> None:
        self.deferred.check()
        for number in self.ordinary.numbers():
            if not self.best and number >= self.ordinary.leaving:
                actual, expected = self.deferred.tally(number), self.ordinary.tally(number)
                assert cells(actual) == cells(expected)
        assert self.deferred.live.width == self.ordinary.live.width - 1


@pytest.mark.parametrize(("ops", "tie"), list(product(OPS, (1, -1, 0))))
def test_random_events_give_a_deferred_set_the_same_content_as_an_ordinary_one(
    ops: tuple[int, ...], tie: int
) -> None:
    for seed in range(4):
        rng = Random(seed)
        beside = Beside(
            ops, tie, resolution=rng.choice([1, 7]), steps=rng.choice([2, 4, 9]), dense=seed == 3
        )
        for _ in range(60):
            act = rng.randrange(6)
            if act < 3:
                beside.count(rng, rng.choice([1, 5, 40]))
            elif act == 3:
                beside.later(rng.choice([1, 5, 10, 35, 200]))
            elif act == 4:
                beside.deferred.build(rng.choice([1, 3, 10, 1000]))
            elif beside.deferred.built:
                beside.deferred.refresh()
                beside.assert_alike()
            else:
                beside.refresh(rng.choice([1, 7, 2**62]))
            beside.check()
        beside.refresh()


@pytest.mark.parametrize("ops", [(SUM,), (BEST,)])
def test_a_large_set_is_built_in_shares_while_it_is_counted(ops: tuple[int, ...]) -> None:
    rng = Random(7)
    beside = Beside(ops, members=3_000, steps=5)
    for _ in range(5):
        beside.count(rng, 2_000)
        beside.later(STEP_MS)
    shares = 0
    left = beside.deferred.build_remaining
    while not beside.deferred.build(200):
        beside.count(rng, 20)
        beside.deferred.check()
        assert beside.deferred.build_remaining < left + 20
        left = beside.deferred.build_remaining
        shares += 1
    assert shares > 10
    beside.deferred.refresh()
    assert beside.deferred.build_remaining > 1_000
    beside.assert_alike()


def test_a_batch_that_is_undone_leaves_no_trace_in_a_build() -> None:
    rng = Random(1)
    beside = Beside((SUM,))
    beside.count(rng, 50)
    beside.deferred.build(20)
    assert beside.deferred.building
    assert not beside.deferred.built
    prepared = entries(beside.deferred.prepared)
    tallies = {n: cells(beside.deferred.tally(n)) for n in beside.deferred.numbers()}
    journal = Journal()
    beside.count(rng, 50, journal)
    journal.undo()
    assert entries(beside.deferred.prepared) == prepared
    assert {n: cells(beside.deferred.tally(n)) for n in beside.deferred.numbers()} == tallies
    beside.deferred.check()


def test_a_discarded_member_leaves_the_ranking_at_once() -> None:
    beside = Beside((SUM,))
    beside.count(Random(3), 200)
    beside.refresh()
    beside.deferred.build(20)
    assert beside.deferred.discard(array("I", [beside.ids[3]])) == 1
    beside.deferred.check()
    assert beside.ids[3] not in entries(beside.deferred.live)
    beside.ordinary.discard(array("I", [beside.ids[3]]))
    beside.refresh()


def test_refreshed_entries_outlive_their_steps() -> None:
    beside = Beside((SUM,))
    beside.count(Random(3), 50)
    beside.refresh()
    refreshed = entries(beside.deferred.live)
    left = beside.deferred.jump_to(beside.deferred.running + 100)
    assert sum(map(len, left)) >= len(refreshed)
    assert beside.deferred.numbers() == []
    assert entries(beside.deferred.live) == refreshed
    assert beside.deferred.build(1)
    assert len(beside.deferred.refresh()) == len(refreshed)
    assert len(beside.deferred.live) == 0


def test_refresh_needs_a_complete_build_and_rotate_step_is_refused() -> None:
    beside = Beside((SUM,))
    beside.count(Random(3), 50)
    with pytest.raises(RuntimeError, match="not completely built"):
        beside.deferred.refresh()
    with pytest.raises(RuntimeError, match="jump_to"):
        beside.deferred.rotate_step()
    with pytest.raises(RuntimeError, match="not deferred"):
        beside.ordinary.build(1)


def test_a_deferred_set_is_restored_from_its_cells_and_ranking() -> None:
    beside = Beside((BEST, BEST))
    beside.count(Random(3), 100)
    beside.refresh()
    beside.count(Random(4), 100)
    source = beside.deferred
    restored = RollingSet(
        beside.roster,
        beside.shape,
        steps=beside.steps,
        lows=[-(LIMIT // 4)] * 2,
        highs=[LIMIT // 4] * 2,
        dense=False,
        running=source.running,
        deferred=True,
    )
    for number in source.numbers():
        tally = source.tally(number)
        assert tally is not None
        ids, words, _ = tally.scan(0, 2**32)
        restored.load(number, ids, words)
    restored.live.put(*source.live.slice(0, len(source.live)))
    restored.prepare()
    restored.check()
    assert entries(restored.live) == entries(source.live)
    restored.build(2**62)
    restored.refresh()
    beside.refresh()
    assert entries(restored.live) == entries(source.live)
