"""Structures for which memory was reserved, and copies of structures, give the same answers as
structures that grew."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from laurels.engine.batch.fold import SUM
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import DENSE, RankedSet
from laurels.engine.tree.restoring import reserve
from tests.conftest import Scaled
from tests.counts import some
from tests.engine.plain_rolling import Roll
from tests.engine.rolling_pair import RollingPair
from tests.engine.test_rolling import some_event


def roster(members: int, expected: int | None = None) -> Roster:
    made = Roster(5)
    if expected is not None:
        reserve(made, expected)
    for first in range(0, members, 700):
        names = [f"m{i:05}".encode() for i in range(first, min(members, first + 700))]
        made.intern(b"".join(names), bytes(map(len, names)))
    made.check()
    return made


@pytest.mark.parametrize("expected", [0, 1, 900, 30_000, 10**6])
def test_a_roster_does_not_depend_on_the_expected_size(expected: int) -> None:
    made = roster(30_000, expected)
    assert len(made) == 30_000
    assert all(made.find(f"m{i:05}".encode()) == i for i in range(0, 30_000, 7))
    assert made.find(b"nobody") == -1
    again = made.intern(b"m00003new", bytes([6, 3]))
    assert again.tolist() == [3, 30_000]
    made.check()


def test_no_space_can_be_reserved_in_a_roster_with_members() -> None:
    with pytest.raises(ValueError, match="empty roster"):
        reserve(roster(1), 100)


@pytest.mark.parametrize("share", [1, 3, 40])
@pytest.mark.parametrize("expected", [0, 20_000, 300_000])
def test_a_ranking_does_not_depend_on_the_expected_size(share: int, expected: int) -> None:
    random = Random(f"{share} {expected}")
    names = roster(20_000)
    ready, grown = (
        RankedSet(names, columns=1, tie=True, stamped=False, dense=True) for _ in range(2)
    )
    rows = [(random.randrange(900), random.randrange(9), id) for id in range(0, 20_000, share)]
    rows.sort()
    for first in range(0, len(rows), 1_000):
        scores, stamps, ids = zip(*rows[first : first + 1_000], strict=True)
        for ranking in (ready, grown):
            ranking.put(array("I", ids), [array("q", scores), array("q", stamps)])
        if first == 0:
            reserve(ready, expected)
            ready.check()
    ready.check()
    assert ready.slice(0, 20_000) == grown.slice(0, 20_000)
    assert ready.list_entries(0, len(rows), DENSE) == grown.list_entries(0, len(rows), DENSE)
    even = [id for _, _, id in rows if id % 2 == 0]
    for ranking in (ready, grown):
        assert ranking.discard(array("I", range(0, 20_000, 2))) == len(even)
        ranking.check()
    assert ready.slice(0, 20_000) == grown.slice(0, 20_000)
    reserve(RankedSet(names, columns=1, tie=False, stamped=False, dense=False), 10**6)


@pytest.mark.parametrize("members", some(4, [0, 1, 90, 3_000, 600, 9_000]))
def test_a_prepared_ranking_is_a_copy_of_the_live_one(members: int, scaled: Scaled) -> None:
    random = Random(members)
    roll = Roll(5, 100)
    pair = RollingPair([SUM], [roll], members=max(members, 1), tie=1)
    for _ in range(members // 100):
        pair.apply([some_event(random, pair, 9, roll.step_ms, roll.steps) for _ in range(200)])
    rolling = pair.rollings[0]
    assert rolling is not None
    new = pair.rolling_set(roll)
    for number in rolling.numbers():
        tally = rolling.tally(number)
        if tally is not None and number >= rolling.leaving:
            ids, words, _ = tally.scan(0, 2**32)
            new.load(number, ids, words)
    for start in range(0, len(rolling.live), 300):
        new.live.put(*rolling.live.slice(start, start + 300))
    for _ in range(2):
        new.prepare()
        assert new.prepared.slice(0, members) == new.live.slice(0, members)
        assert new.prepared.nbytes == new.live.nbytes
        new.check()
    # The copy shares no memory with the original, so changing the copy is safe.
    pair.rollings[0] = new
    for _ in range(scaled(5, 20) if members else 0):
        pair.apply([some_event(random, pair, 9, roll.step_ms, roll.steps) for _ in range(100)])
        new.advance(10**6)
        pair.compare()
    new.live.clear()
    new.prepared.check()
