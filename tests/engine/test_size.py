"""The memory that the engine's structures take."""

from array import array
from random import Random

import pytest

from laurels.engine.batch.fold import SUM
from laurels.engine.tally.tally import Tally
from tests.engine.pair import Pair
from tests.engine.plain_rolling import Event, Roll
from tests.engine.rolling_pair import RollingPair


def members(count: int) -> list[bytes]:
    return [b"m%07d" % i for i in range(count)]


def test_small_sets_are_small() -> None:
    pair = Pair(members(10), columns=1, tie=True)
    pair.put(range(10), [(place * 10**9, 1_763_600_000_000 + place) for place in range(10)])
    assert pair.native.nbytes < 350


def test_large_sets_are_dense() -> None:
    """With one column and a tie word, an entry takes less than 25 bytes, even after random updates.
    That is the memory of the whole set divided by its entries."""
    random = Random(13)
    pair = Pair(members(100_000), columns=1, tie=True)
    for _ in range(2):
        ids = array("I", random.sample(list(pair.ids), k=len(pair.ids)))
        scores = array("q", (random.randrange(10**9) for _ in ids))
        stamps = array("q", (1_763_600_000_000 + random.randrange(10**9) for _ in ids))
        pair.native.put(ids, [scores, stamps])
    assert pair.native.nbytes < 25 * len(pair.native)


def test_the_roster_is_compact() -> None:
    pair = Pair(members(100_000))
    assert pair.roster.nbytes < (8 + 20) * len(pair.roster)


def tally_of(members: int, of: int) -> Tally:
    """Return a tally of one hour. It has small sums of `members` members, drawn at random from a
    roster of `of` members."""
    random = Random(members)
    tally = Tally(columns=1, tie=True, stamped=False, linked=False)
    ids = array("I", random.sample(range(of), k=members))
    stamps = sorted(1_763_600_400_000 + random.randrange(3_600_000) for _ in ids)
    for start in range(0, members, 1_000):
        batch = ids[start : start + 1_000]
        sums = array("q", (-random.randrange(1, 10_000) for _ in batch))
        tally.put(batch, [sums, array("q", stamps[start : start + 1_000])])
    return tally


@pytest.mark.parametrize("members", [1_000, 1_700, 3_000, 10_000, 17_000, 60_000, 100_000])
def test_tallies_are_compact(members: int) -> None:
    """With a small sum and a time within the hour, a cell takes less than 13.5 bytes. That is the
    memory of the whole tally divided by its cells."""
    for of in (members, 20 * members):
        assert tally_of(members, of).nbytes < 13.5 * members


def test_shrinking_tallies_free_memory() -> None:
    tally = tally_of(20_000, 20_000)
    for left in (10_000, 3_000, 300, 30):
        tally.discard(array("I", range(20_000 - left)))
        assert len(tally) == left
        assert tally.nbytes < 20 * left


def test_small_tallies_are_small() -> None:
    assert tally_of(10, 10).nbytes <= 300
    assert tally_of(10, 10**6).nbytes <= 300
    assert Tally(columns=1, tie=True, stamped=False, linked=False).nbytes < 100


def test_small_rolling_windows_are_small() -> None:
    """Ten members have events in five of the 168 hours of a week."""
    hour_ms = 3_600_000
    pair = RollingPair([SUM], [Roll(168, hour_ms)], members=10)
    for hour in range(0, 50, 10):
        pair.go_to(hour * hour_ms + 90_000, Random(1))
        pair.apply([Event(member, (120,), pair.now - member) for member in range(10)])
    rolling = pair.rollings[0]
    assert rolling is not None
    assert len(rolling.numbers()) == 5
    assert rolling.nbytes < 5_000
    assert rolling.tally_nbytes < 3_000
