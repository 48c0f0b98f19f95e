"""Rolling windows equal the result of folding their events, at every step and after every event."""

from array import array
from collections.abc import Sequence
from random import Random

import pytest

from laurels.engine.batch.fold import BEST, LAST, SUM, Journal
from laurels.engine.rolling.rolling import RollingSet
from tests.conftest import Scaled
from tests.counts import covering
from tests.engine.plain_rolling import Event, Roll
from tests.engine.rolling_pair import LIMIT, RollingPair, cells, entries

SHAPES = [
    (SUM,),
    (LAST,),
    (BEST,),
    (SUM, LAST),
    (LAST, LAST),
    (BEST, BEST),
    (LAST, SUM, SUM),
    (BEST, BEST, BEST),
]
STEPS = [2, 3, 5, 8, 50]


def some_event(random: Random, pair: RollingPair, spread: int, step_ms: int, steps: int) -> Event:
    """Return a random event. Four of ten events are older than `pair.now`, by up to the length of
    `steps` + 1 steps, so a window of `steps` steps does not take all of them."""
    at = pair.now
    if random.random() < 0.4:
        at -= random.randrange(step_ms * (steps + 1))
    return Event(
        random.randrange(len(pair.ids)),
        tuple(random.randint(-spread, spread) for _ in pair.plain.ops),
        at,
        absolute=random.random() < 0.1,
        skipped=random.random() < 0.03,
    )


def some_leap(random: Random, step_ms: int, steps: int) -> int:
    """Return a random duration by which to move the time: within a step, some steps, or more than
    the whole window."""
    return random.choice(
        [0, 1, step_ms // 3, step_ms // 2, step_ms, random.randrange(step_ms * 3)] * 3
        + [step_ms * random.randint(2, steps), step_ms * random.randint(1, steps + 2)]
    )


def run(random: Random, pair: RollingPair, roll: Roll, rounds: int, spread: int) -> None:
    for _ in range(rounds):
        events = [
            some_event(random, pair, spread, roll.step_ms, roll.steps)
            for _ in range(random.choice([1, 1, 4, 20]))
        ]
        change(random, pair, events)
        for rolling in pair.rollings:
            if rolling is not None and random.random() < 0.5:
                rolling.advance(random.choice([1, 3, 100]))
        if random.random() < 0.05:
            pair.discard(random.sample(range(len(pair.ids)), 2))
        pair.compare()
        if random.random() < 0.4:
            pair.go_to(pair.now + some_leap(random, roll.step_ms, roll.steps), random)
            pair.compare()


def change(random: Random, pair: RollingPair, events: Sequence[Event]) -> None:
    """Count events. Sometimes count them with a journal first, undo that, and then count them
    again."""
    watch = random.randrange(-1, len(pair.rollings))
    if random.random() < 0.2:
        before = pair.state()
        kept = {member: list(counted) for member, counted in pair.plain.events.items()}
        journal = Journal()
        for start in range(0, len(events), 7):
            pair.apply(events[start : start + 7], watch, journal)
        pair.compare()
        journal.undo()
        assert len(journal) == 0
        pair.plain.events = kept
        assert pair.state() == before
        pair.check()
    pair.apply(events, watch)


@pytest.mark.parametrize(("ops", "tie", "resolution"), covering(SHAPES, [1, -1, 0], [1, 7]))
def test_random_events_give_the_same_window_as_the_plain_one(
    ops: Sequence[int], tie: int, resolution: int
) -> None:
    run_all(Random(f"{ops} {tie} {resolution}"), ops, tie, resolution, 24)


def run_all(random: Random, ops: Sequence[int], tie: int, resolution: int, rounds: int) -> None:
    for steps in STEPS:
        roll = Roll(steps, random.choice([10, 21, 100]))
        other = Roll(random.choice(STEPS), roll.step_ms * 2)
        spread, bound = random.choice([(2, LIMIT), (3, 40), (10**9, LIMIT)])
        pair = RollingPair(
            ops,
            random.choice([[None, roll], [roll], [None, roll, other], [other, None, roll]]),
            tie=tie,
            resolution=resolution,
            members=random.choice([2, 12]),
            low=random.choice([-bound, 0]),
            high=bound,
            now=random.choice([0, -3_000, 10**12]),
            dense=random.random() < 0.3,
        )
        run(random, pair, roll, rounds, spread)


@pytest.mark.parametrize("ops", [(SUM,), (BEST,), (LAST, SUM)])
def test_a_window_of_many_members_agrees_with_the_plain_one(
    ops: Sequence[int], scaled: Scaled
) -> None:
    """There are so many members that tallies have many buckets and rankings have many leaves. The
    pass is done in small shares."""
    random = Random(f"{ops}")
    roll = Roll(4, 1_000)
    pair = RollingPair(ops, [None, roll], members=2_000)
    for _ in range(scaled(4, 9)):
        events = [some_event(random, pair, 50, roll.step_ms, roll.steps) for _ in range(1_500)]
        pair.apply(events[:900], 1)
        rolling = pair.rollings[1]
        assert rolling is not None
        rolling.advance(random.choice([100, 700]))
        pair.apply(events[900:], 0)
        pair.compare()
        pair.discard(random.sample(range(len(pair.ids)), 100))
        rolling.advance(random.choice([1, 300]))
        pair.compare()
        pair.go_to(pair.now + random.choice([400, 1_000, 2_500]), random)
    pair.compare()


@pytest.mark.parametrize("ops", [[SUM], pytest.param([BEST], marks=pytest.mark.torture)])
def test_a_large_window_agrees_with_the_plain_one(ops: Sequence[int]) -> None:
    """The window is so large that events and the pass prefetch memory. Some members have events
    often, some are new, and some move over a long distance."""
    random = Random(f"{ops}")
    roll = Roll(3, 1_000)
    pair = RollingPair(ops, [roll], members=86_000)
    for now in (0, 1_000, 2_000, 2_500, 3_000):
        pair.go_to(now, random)
        members = range(86_000) if now == 0 else random.choices(range(86_000), k=5_000)
        events = [Event(m, (random.randint(-(10**6), 10**6),), now) for m in members]
        for event in events[::5]:
            event.member //= 1 + random.randrange(1_000)
            event.at -= random.randrange(min(now + 1, 2_000))
        for start in range(0, len(events), 10_000):
            pair.apply(events[start : start + 10_000], 0 if now else -1)
    rolling = pair.rollings[0]
    assert rolling is not None
    assert len(rolling.prepared) > 66_000
    rolling.advance(10_000)
    pair.apply([Event(m, (-(10**7),), pair.now - m % 2_000) for m in range(0, 86_000, 9)])
    assert not rolling.complete
    rolling.check()
    rolling.advance(10**6)
    pair.compare()


def restored(pair: RollingPair, rolling: RollingSet, random: Random) -> RollingSet:
    """Return a copy of a rolling set, made of the cells and entries that can be read from the
    set."""
    roll = next(roll for roll in pair.plain.windows if roll is not None)
    new = pair.rolling_set(roll)
    for number in rolling.numbers():
        tally = rolling.tally(number)
        if tally is None or number < rolling.leaving:
            continue
        place = 0
        while place < 2**32:
            ids, words, place = tally.scan(place, random.choice([1, 200]))
            new.load(number, ids, words)
    for start in range(0, len(rolling.live), 300):
        new.live.put(*rolling.live.slice(start, start + 300))
    new.prepare()
    return new


@pytest.mark.parametrize("ops", [(SUM,), (BEST, BEST), (LAST,)])
def test_a_rolling_set_can_be_saved_and_restored_at_any_point(
    ops: Sequence[int], scaled: Scaled
) -> None:
    random = Random(f"{ops}")
    roll = Roll(5, 100)
    pair = RollingPair(ops, [roll], members=600, tie=random.choice([1, -1]))
    for _ in range(scaled(12, 60)):
        events = [some_event(random, pair, 9, roll.step_ms, roll.steps) for _ in range(150)]
        pair.apply(events)
        rolling = pair.rollings[0]
        assert rolling is not None
        rolling.advance(random.choice([1, 100, 1_000]))
        if random.random() < 0.4:
            pair.rollings[0] = restored(pair, rolling, random)
            pair.compare()
            again = pair.rollings[0]
            assert again is not None
            again.advance(random.choice([1, 10**6]))
        pair.compare()
        pair.go_to(pair.now + some_leap(random, roll.step_ms, roll.steps), random)
    pair.compare()


@pytest.mark.parametrize("ops", SHAPES)
def test_a_copy_of_the_live_ranking_does_not_change(ops: Sequence[int], scaled: Scaled) -> None:
    random = Random(f"copies {ops}")
    roll = Roll(5, 100)
    pair = RollingPair(ops, [roll], members=2_000, tie=1)
    for _ in range(scaled(5, 60)):
        events = [some_event(random, pair, 9, roll.step_ms, roll.steps) for _ in range(600)]
        pair.apply(events)
        rolling = pair.rollings[0]
        assert rolling is not None
        shown = rolling.live.slice(0, len(rolling.live))
        copy = rolling.copy_live()
        pair.apply([some_event(random, pair, 9, roll.step_ms, roll.steps) for _ in range(600)])
        pair.go_to(pair.now + some_leap(random, roll.step_ms, roll.steps), random)
        copy.check()
        assert copy.slice(0, len(copy)) == shown
        pair.compare()


def test_an_expired_best_is_replaced_by_the_best_of_later_steps() -> None:
    """Scores are stored with a sign by which a smaller number is better: (-9, -1) is better than
    (-7, -2)."""
    pair = RollingPair([BEST, BEST], [Roll(3, 10)])
    for now, tuple_ in [(0, (-9, -1)), (10, (-4, -8)), (20, (-7, -2)), (25, (-1, -99))]:
        pair.go_to(now, Random(0))
        pair.apply([Event(0, tuple_, now)])
    rolling = pair.rollings[0]
    assert rolling is not None
    assert rolling.numbers() == [0, 2]  # step 1 is dropped: step 2 has a better value
    seen = []
    for now in (29, 39, 49, 50):
        pair.go_to(now, Random(0))
        seen.append([column[0] for column in rolling.live.slice(0, 1)[1][:2] if column])
    assert seen == [[-9, -1], [-7, -2], [-7, -2], []]


def test_a_late_best_counts_only_until_its_step_leaves() -> None:
    pair = RollingPair([BEST], [Roll(3, 10)])
    pair.go_to(20, Random(0))
    pair.apply([Event(0, (-3,), 20), Event(0, (-9,), 5), Event(0, (-3,), 15), Event(0, (-2,), 15)])
    rolling = pair.rollings[0]
    assert rolling is not None
    assert rolling.numbers() == [0, 1, 2]  # step 1 stays: the equal value of step 2 is not better
    assert [cells(rolling.tally(n))[0] for n in (0, 1, 2)] == [
        (-9, 5, 0, 1),
        (-3, 15, 1, 1),
        (-3, 20, 1, 0),
    ]
    pair.go_to(30, Random(0))
    assert rolling.live.slice(0, 1)[1] == [array("q", [-3]), array("q", [15]), array("q", [2])]
    pair.go_to(40, Random(0))
    assert rolling.live.slice(0, 1)[1] == [array("q", [-3]), array("q", [20]), array("q", [2])]
    pair.compare()


def test_tallies_with_only_beaten_candidates_are_dropped() -> None:
    pair = RollingPair([BEST], [Roll(400, 10)])
    for step in range(700):
        pair.go_to(10 * step, Random(0))
        pair.apply([Event(0, (-step,), pair.now)])
    rolling = pair.rollings[0]
    assert rolling is not None
    assert rolling.numbers() == [699]
    numbers = [number for number in range(300, 700) if rolling.tally(number) is not None]
    assert len(numbers) < 10
    pair.compare()


def test_an_event_out_of_range_of_its_step_counts_nowhere() -> None:
    """The range of the column is -12 to 12, and the window has 3 steps, so the total of each step
    must be within -4 to 4."""
    pair = RollingPair([SUM], [None, Roll(3, 10)], low=-12, high=12)
    pair.apply([Event(0, (4,), 0), Event(0, (1,), 0), Event(0, (-9,), 0), Event(0, (-8,), 0)], 1)
    assert entries(pair.ranking) == {0: (-4, 0)}
    rolling = pair.rollings[1]
    assert rolling is not None
    assert entries(rolling.live) == {0: (-4, 0, 0)}
    pair.compare()


def test_a_step_cannot_rotate_before_the_pass_is_complete() -> None:
    pair = RollingPair([SUM], [Roll(2, 10)])
    pair.apply([Event(0, (5,), 0), Event(1, (6,), 0)])
    rolling = pair.rollings[0]
    assert rolling is not None
    pair.now = 10
    rolling.rotate_step()
    assert not rolling.complete
    assert rolling.pass_remaining == 2
    with pytest.raises(RuntimeError, match="not prepared"):
        rolling.rotate_step()
    assert rolling.advance(1)
    assert rolling.pass_remaining == 0
    rolling.rotate_step()
    pair.now = 20
    pair.compare()
    assert len(rolling.live) == 0


def test_steps_without_events_rotate_at_once() -> None:
    pair = RollingPair([SUM], [Roll(10, 10)])
    pair.apply([Event(0, (5,), 0)])
    rolling = pair.rollings[0]
    assert rolling is not None
    for _ in range(8):
        assert rolling.complete
        rolling.rotate_step()
    assert rolling.leaving == -1
    assert rolling.numbers() == [0]
    rolling.rotate_step()
    assert not rolling.complete
    assert rolling.tally(9) is None


def test_only_steps_that_are_counted_have_tallies() -> None:
    pair = RollingPair([SUM], [Roll(3, 10)], now=55)
    rolling = pair.rollings[0]
    assert rolling is not None
    assert (rolling.running, rolling.leaving, rolling.steps) == (5, 3, 3)
    for number in (3, 4, 5):
        assert rolling.open_tally(number) is rolling.open_tally(number)
        assert rolling.open_tally(number).number == number
    assert rolling.numbers() == []
    for number in (2, 6, -(2**40)):
        with pytest.raises(ValueError, match="counts the steps 3 to 5"):
            rolling.open_tally(number)
        with pytest.raises(ValueError, match="counts the steps 3 to 5"):
            rolling.load(number, array("I", [0]), [array("q", [1]), array("q", [1])])
        assert rolling.tally(number) is None


def test_an_expired_tally_is_freed_during_the_pass() -> None:
    pair = RollingPair([SUM], [Roll(2, 10)], members=3_000)
    pair.apply([Event(member, (member,), 0) for member in range(3_000)])
    for now in (10, 20):
        pair.go_to(now, Random(4))
    rolling = pair.rollings[0]
    assert rolling is not None
    assert rolling.numbers() == [0]
    left = rolling.tally(0)
    assert left is not None
    sizes = [rolling.tally_nbytes]
    while not rolling.advance(100):
        left.check()
        rolling.check()
        assert len(left) < 3_000
        with pytest.raises(ValueError, match="left its window"):
            left.put(pair.ids[:1], [array("q", [1]), array("q", [1])])
        present, _ = left.words(pair.ids)
        assert sum(present) == len(left) == len(cells(left))
        sizes.append(rolling.tally_nbytes)
    assert len(sizes) > 5
    assert sizes == sorted(sizes, reverse=True)
    assert rolling.numbers() == []
    assert rolling.tally(0) is None
    assert len(left) == 0
    pair.compare()


def test_reset_empties_a_rolling_set() -> None:
    pair = RollingPair([SUM], [Roll(3, 10)])
    pair.apply([Event(m, (5,), 0) for m in range(12)])
    rolling = pair.rollings[0]
    assert rolling is not None
    empty = pair.rolling_set(Roll(3, 10)).nbytes
    rolling.reset(7)
    rolling.check()
    assert (rolling.running, len(rolling.live), len(rolling.prepared)) == (7, 0, 0)
    assert rolling.complete
    assert rolling.numbers() == []
    assert rolling.nbytes == empty


def test_loading_unknown_ids_is_refused() -> None:
    pair = RollingPair([SUM], [Roll(3, 10)])
    rolling = pair.rollings[0]
    assert rolling is not None
    words = [array("q", [1]), array("q", [1])]
    with pytest.raises(IndexError, match="no member"):
        rolling.load(0, array("I", [12]), words)
    with pytest.raises(IndexError, match="no member"):
        rolling.live.put(array("I", [12]), [*words, array("q", [0])])


def test_invalid_rolling_sets_are_refused() -> None:
    pair = RollingPair([SUM, SUM], [Roll(3, 10)])
    for steps, lows in [(1, [0, 0]), (10_001, [0, 0]), (3, [0])]:
        with pytest.raises(ValueError, match=r"steps|for each column"):
            RollingSet(
                pair.roster, pair.shape, steps=steps, lows=lows, highs=[1, 1], dense=False,
                running=0,
            )  # fmt: skip
