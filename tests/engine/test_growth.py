"""The ranked set at every size: it grows from one leaf to several levels of branches, and shrinks
to one leaf again."""

from array import array
from random import Random

import pytest

from laurels.engine.tree.ranked_set import ORDINAL, RankedSet
from tests.conftest import Scaled
from tests.counts import covering
from tests.engine.pair import Pair, intern
from tests.engine.plain import Row

MEMBERS = 40_000


def members(count: int) -> list[bytes]:
    return [b"m%d" % i for i in range(count)]


def in_order(random: Random, kind: str, count: int) -> list[int]:
    """Return the indexes of all members, in the order in which a test adds or removes them."""
    places = list(range(count))
    if kind == "falling":
        places.reverse()
    elif kind == "random":
        random.shuffle(places)
    return places


@pytest.mark.parametrize(
    ("kind", "dense"), covering(["rising", "falling", "random"], [False, True])
)
def test_growing_and_shrinking_keep_the_content(kind: str, dense: bool) -> None:
    random = Random(kind)
    pair = Pair(members(MEMBERS), columns=1, tie=True, dense=dense)
    score: dict[int, Row] = {place: (place // 3, random.randrange(4)) for place in range(MEMBERS)}
    entering = in_order(random, kind, MEMBERS)
    for start in range(0, MEMBERS, 4_000):
        places = entering[start : start + 4_000]
        pair.put(places, [score[place] for place in places])
        pair.native.check()
    pair.compare()
    leaving = in_order(random, kind, MEMBERS)
    for start in range(0, MEMBERS, 4_000):
        pair.discard(leaving[start : start + 4_000])
        pair.native.check()
        if start == MEMBERS // 2:
            pair.compare()
    assert len(pair.native) == 0
    pair.put([1, 2], [(5, 5), (4, 4)])
    pair.compare()


def test_moves_over_all_distances_keep_the_content(scaled: Scaled) -> None:
    """Members move over short and long distances, so that leaves and branches are split and joined
    in every way."""
    random = Random(7)
    pair = Pair(members(MEMBERS), columns=2, tie=True, dense=True)
    for step in range(scaled(4, 12)):
        spread = random.choice([10, 10**4, 10**15])
        places = random.choices(range(MEMBERS), k=8_000)
        rows = [tuple(random.randint(-spread, spread) for _ in range(3)) for _ in places]
        pair.put(places, rows)
        pair.discard(random.choices(range(MEMBERS), k=3_000))
        pair.native.check()
        if step % 4 == 3:
            pair.compare()
            pair.compare_pages(random)


def test_a_sparse_set_over_a_large_roster_keeps_its_content() -> None:
    """The set has few of the roster's members, so its table is hashed. When the set grows, parts of
    the table become arrays."""
    random = Random(11)
    pair = Pair(members(MEMBERS), columns=1)
    for share in (2, 20, 60, 98, 30, 3):
        chosen = [place for place in range(MEMBERS) if random.random() * 100 < share]
        pair.put(chosen, [(random.randrange(1000),) for _ in chosen])
        pair.native.check()
        pair.discard([place for place in range(MEMBERS) if random.random() * 100 > share])
        pair.compare()


@pytest.mark.parametrize("leaves", [1, 2, 4, 119, 120, 200, 225, 233, 237, 238, 239, 240, 241])
def test_a_leap_in_values_keeps_the_content_at_any_size(leaves: int) -> None:
    """New entries have values far from all earlier values, so leaves of every size are packed
    again."""
    near = min(127 * leaves, MEMBERS - 1_000)
    pair = Pair(members(near + 1_000), columns=1, tie=True)
    pair.put(range(near), [(place, -place) for place in range(near)])
    pair.native.check()
    for place in range(near, near + 1_000, 100):
        places = range(place, place + 100)
        pair.put(places, [(place * 10**9, place**4) for place in places])
        pair.native.check()
    pair.compare()


def test_members_can_leave_and_return_to_the_same_key() -> None:
    """Each member leaves its key and returns to it. Some of these keys are edges of branches."""
    pair = Pair(members(1_000), columns=1)
    pair.put(range(1_000), [(place,) for place in range(1_000)])
    for place in range(1_000):
        for score in (-5_000, place, place - 3, place):
            pair.put([place], [(score,)])
    pair.compare()


def test_moves_between_pages_that_join_keep_the_content() -> None:
    """The engine predicts which leaf each write of a batch will change, a few writes before that
    write. The writes in between join some of these leaves, so some predictions are wrong."""
    random = Random(17)
    pair = Pair(members(300_000))
    pair.put(range(300_000), [(place,) for place in range(300_000)])
    staying = [place for place in range(300_000) if random.random() < 0.27]
    pair.discard(sorted(set(range(300_000)) - set(staying)))
    pair.put(staying, [(place + random.randint(-200, 200),) for place in staying])
    pair.compare()


def test_ids_that_are_far_apart_keep_the_content() -> None:
    """The members of the set are every 64th member of the roster, so the directory of its table is
    deep on one side only."""
    pair = Pair(members(1_000_000))
    far = range(0, 1_000_000, 64)
    near = range(0, 1_000_000, 17)
    for places in (far, near):
        pair.put(places, [(place % 997,) for place in places])
        pair.native.check()
    pair.discard(far)
    pair.native.check()
    assert len(pair.native) == len(set(near) - set(far))


def test_a_cleared_set_can_be_used_again() -> None:
    pair = Pair(members(1_000))
    empty = pair.native.nbytes
    for _ in range(2):
        pair.put(range(1_000), [(place,) for place in range(1_000)])
        pair.compare()
        pair.native.clear()
        pair.plain.rows.clear()
        pair.compare()
        assert pair.native.nbytes == empty


def test_sets_over_one_roster_are_independent() -> None:
    pair = Pair(members(100))
    other = RankedSet(pair.roster, columns=1, tie=False, stamped=False, dense=False)
    other.put(pair.ids[:50], [array("q", range(50))])
    pair.put(range(60, 100), [(-place,) for place in range(60, 100)])
    late = intern(pair.roster, [b"late"])
    other.put(late, [array("q", [-1])])
    assert other.rank(late[0], ORDINAL) == 0
    assert pair.native.rank(late[0], ORDINAL) == -1
    other.check()
    pair.compare()
