"""Rows that are loaded in ranking order fill whole leaves, and queries give the same answers as for
rows in another order."""

from array import array
from random import Random

import pytest

from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import DENSE, ORDINAL, RankedSet

MEMBERS = 3_000


def roster() -> Roster:
    made = Roster(5)
    names = [f"m{i:04}".encode() for i in range(MEMBERS)]
    made.intern(b"".join(names), bytes(map(len, names)))
    return made


def ranked(names: Roster, *, dense: bool) -> RankedSet:
    return RankedSet(names, columns=1, tie=True, stamped=False, dense=dense)


def put(ranking: RankedSet, rows: list[tuple[int, int, int]], size: int) -> None:
    for first in range(0, len(rows), size):
        ids, scores, stamps = zip(*rows[first : first + size], strict=True)
        ranking.put(array("I", ids), [array("q", scores), array("q", stamps)])


def in_order(random: Random, spread: int) -> list[tuple[int, int, int]]:
    rows = [(id, random.randrange(spread), random.randrange(3)) for id in range(MEMBERS)]
    return sorted(rows, key=lambda row: (row[1], row[2], f"m{row[0]:04}"))


def same(left: RankedSet, right: RankedSet, style: int) -> None:
    left.check()
    right.check()
    assert left.slice(0, MEMBERS) == right.slice(0, MEMBERS)
    assert left.list_entries(0, MEMBERS, style) == right.list_entries(0, MEMBERS, style)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("size", [15, 100, 1_000, MEMBERS])
@pytest.mark.parametrize("spread", [1, 40, 10**9])
def test_sorted_rows_make_the_same_ranking(dense: bool, size: int, spread: int) -> None:
    random = Random(f"{dense} {size} {spread}")
    names = roster()
    quick, slow = ranked(names, dense=dense), ranked(names, dense=dense)
    style = DENSE if dense else ORDINAL
    rows = in_order(random, spread)
    put(quick, rows, size)
    shuffled = rows[:]
    random.shuffle(shuffled)
    put(slow, shuffled, 1)
    same(quick, slow, style)
    # Now load rows of members that already have entries: entries are changed, and some of them
    # move.
    again = in_order(random, spread)[: MEMBERS // 2]
    put(quick, again, size)
    put(slow, again, 1)
    same(quick, slow, style)


@pytest.mark.parametrize("fault", ["twice", "out of order", "there already", "before the last"])
def test_unsorted_rows_are_inserted_one_by_one(fault: str) -> None:
    random = Random(fault)
    names = roster()
    quick, slow = ranked(names, dense=True), ranked(names, dense=True)
    rows = in_order(random, 10**6)
    first, rest = rows[:1_000], rows[1_000:2_000]
    if fault == "twice":
        rest[500] = (rest[499][0], rest[500][1], rest[500][2])
    elif fault == "out of order":
        rest[100], rest[101] = rest[101], rest[100]
    elif fault == "there already":
        rest[700] = (first[3][0], rest[700][1], rest[700][2])
    else:
        rest = [(id, score - 10**6, stamp) for id, score, stamp in rest]
    for ranking, size in ((quick, 1_000), (slow, 1)):
        put(ranking, first, size)
        put(ranking, rest, size)
    same(quick, slow, DENSE)
    quick.discard(array("I", range(MEMBERS)))
    quick.check()
    assert len(quick) == 0
