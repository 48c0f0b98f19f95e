"""The ranked set equals a sorted list for every shape and size."""

from random import Random

import pytest

from tests.counts import some
from tests.engine.pair import Pair
from tests.engine.plain import Row

SHAPES = [
    (columns, tie, stamped, dense)
    for columns in (1, 2, 3, 4)
    for tie in (False, True)
    for stamped in (False, True)
    for dense in (False, True)
]
SPREADS = [3, 1_000, 2**53 - 1, 2**63 - 1]
"""The largest absolute value of a score: many ties, small values, 53 bits, 64 bits."""
CASES = [
    (*shape, SPREADS[(i + i // 8 + further) % 4])
    for further in range(4)
    for i, shape in enumerate(SHAPES)
]
"""All combinations of a shape and a spread of values. The first cases contain every shape once."""


def some_members(random: Random, count: int) -> list[bytes]:
    """Return distinct members, many of which are prefixes of others."""
    members: set[bytes] = set()
    while len(members) < count:
        stem = random.choice(["m", "member-", "mm", "é"]) + "0" * random.randint(0, 12)
        members.add((stem + str(random.randrange(count))).encode()[: random.choice([3, 9, 128])])
        members = {
            member for member in members if member.decode(errors="ignore").encode() == member
        }
    return sorted(members, key=lambda _: random.random())


def some_row(random: Random, width: int, spread: int) -> Row:
    return tuple(random.randint(-spread, spread) for _ in range(width))


def some_keys(random: Random, pair: Pair, spread: int) -> list[Row]:
    """Return keys of each length, both of existing entries and random ones."""
    ordered = pair.plain.ordered
    rows = [*pair.plain.rows.values()][:20] or [(0,) * pair.plain.width]
    keys = [random.choice(rows)[: random.randint(0, ordered)] for _ in range(6)]
    keys += [some_row(random, random.randint(1, ordered), spread) for _ in range(4)]
    return [*keys, random.choice(rows)[:ordered]]


@pytest.mark.parametrize(("columns", "tie", "stamped", "dense", "spread"), some(32, CASES))
def test_random_changes_give_the_same_ranking_as_the_plain_one(
    columns: int, tie: bool, stamped: bool, dense: bool, spread: int
) -> None:
    random = Random(f"{columns} {tie} {stamped} {dense} {spread}")
    pair = Pair(some_members(random, 700), columns=columns, tie=tie, stamped=stamped, dense=dense)
    for _ in range(40):
        places = [random.randrange(len(pair.members)) for _ in range(random.randint(1, 120))]
        if random.random() < 0.25:
            pair.discard(places)
        else:
            pair.put(places, [some_row(random, pair.plain.width, spread) for _ in places])
        pair.native.check()
    pair.compare()
    pair.compare_pages(random)
    pair.compare_bounds(random, some_keys(random, pair, spread))
