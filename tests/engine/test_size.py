"""What the engine's structures cost in memory."""

from array import array
from random import Random

from tests.engine.pair import Pair


def members(count: int) -> list[bytes]:
    return [b"m%07d" % i for i in range(count)]


def test_small_sets_are_small() -> None:
    pair = Pair(members(10), columns=1, tie=True)
    pair.put(range(10), [(place * 10**9, 1_763_600_000_000 + place) for place in range(10)])
    assert pair.native.nbytes < 350


def test_large_sets_are_dense() -> None:
    """Random entries, then random updates: bytes an entry, all in, of a column and a tie."""
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
