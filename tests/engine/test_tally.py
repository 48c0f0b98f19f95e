"""A tally equals a dict while it grows and shrinks through all sizes, and it uses little memory."""

from array import array
from collections.abc import Sequence
from random import Random

import pytest

from laurels.engine.tally.tally import Tally
from tests.engine.pair import by_word
from tests.engine.plain import Row

END = 2**32
SHAPES = [
    (columns, tie, stamped, linked)
    for columns in (1, 2, 4)
    for tie in (False, True)
    for stamped, linked in ((False, False), (True, False), (False, True))
]
GOLDEN = 0x9E3779B1
"""The place of a member is its id times this number, modulo 2**32."""


class TallyPair:
    """A tally of the engine and a dict, which get the same changes."""

    def __init__(self, *, columns: int, tie: bool, stamped: bool, linked: bool) -> None:
        self.native = Tally(columns=columns, tie=tie, stamped=stamped, linked=linked)
        self.plain: dict[int, Row] = {}
        self.width = columns + tie + stamped + 2 * linked

    def put(self, ids: Sequence[int], rows: Sequence[Row]) -> None:
        self.native.put(array("I", ids), by_word(rows, self.width))
        self.plain.update(zip(ids, rows, strict=True))

    def discard(self, ids: Sequence[int]) -> None:
        removed = len([self.plain.pop(id) for id in set(ids) if id in self.plain])
        assert self.native.discard(array("I", ids)) == removed

    def compare(self, ids: Sequence[int]) -> None:
        """Compare all answers about these members, and all cells."""
        self.native.check()
        assert len(self.native) == len(self.plain)
        assert self.native.width == self.width
        present, words = self.native.words(array("I", ids))
        assert list(present) == [id in self.plain for id in ids]
        absent = (0,) * self.width
        assert words == by_word([self.plain.get(id, absent) for id in ids], self.width)
        assert scanned(self.native, 70) == self.plain


def scanned(tally: Tally, limit: int) -> dict[int, Row]:
    """Return all cells, read by several calls. Assert that no cell is returned twice."""
    met: dict[int, Row] = {}
    place = 0
    while place < END:
        ids, words, after = tally.scan(place, limit)
        assert after > place
        assert len(ids) >= limit or after == END
        cells = dict(zip(ids, zip(*words, strict=True), strict=True))
        assert len(cells) == len(ids)
        assert not cells.keys() & met.keys()
        met |= cells
        place = after
    return met


def some_row(random: Random, width: int, spread: int) -> Row:
    return tuple(random.randint(-spread, spread) for _ in range(width))


@pytest.mark.parametrize(("columns", "tie", "stamped", "linked"), SHAPES)
@pytest.mark.parametrize("spread", [1, 300, 2**53, 2**63 - 1])
def test_random_changes_give_the_same_cells_as_the_plain_tally(
    columns: int, tie: bool, stamped: bool, linked: bool, spread: int
) -> None:
    random = Random(f"{columns} {tie} {stamped} {linked} {spread}")
    pair = TallyPair(columns=columns, tie=tie, stamped=stamped, linked=linked)
    members = [random.choice([id, id * 1_000, 2**32 - 1 - id]) for id in range(900)]
    for _ in range(30):
        ids = random.choices(members, k=random.randint(1, 150))
        if random.random() < 0.4:
            pair.discard(ids)
        else:
            pair.put(ids, [some_row(random, pair.width, spread) for _ in ids])
        pair.native.check()
    pair.compare(members)


@pytest.mark.parametrize("kind", ["in order", "shuffled", "sparse"])
def test_growing_and_shrinking_keep_the_content(kind: str) -> None:
    """The tally grows by splitting and doubling, and shrinks by joining and halving, until it has
    no cells and as few bytes as before."""
    random = Random(kind)
    pair = TallyPair(columns=1, tie=True, stamped=False, linked=True)
    empty = pair.native.nbytes
    ids = list(range(0, 20_000 * 97, 97)) if kind == "sparse" else list(range(20_000))
    if kind != "in order":
        random.shuffle(ids)
    for start in range(0, len(ids), 2_000):
        batch = ids[start : start + 2_000]
        pair.put(batch, [some_row(random, 4, 10_000) for _ in batch])
        pair.native.check()
    pair.compare(ids)
    random.shuffle(ids)
    for start in range(0, len(ids), 1_000):
        pair.discard(ids[start : start + 1_000])
        pair.native.check()
        if start == 14_000:
            pair.compare(ids)
    assert len(pair.native) == 0
    assert pair.native.nbytes == empty
    pair.put([7], [(1, 2, 3, 4)])
    pair.compare([6, 7])


def test_members_with_clustered_hashes_work() -> None:
    """Many members have neighbouring places, so some buckets are much deeper than others. When
    cells are removed, the deepest buckets are joined first."""
    random = Random(3)
    inverse = pow(GOLDEN, -1, END)
    crowds = [random.randrange(END - 2**24) for _ in range(3)]
    places = {
        begin + random.randrange(2**width) for begin in crowds for width in (20, 22, 24) * 300
    }
    members = [place * inverse % END for place in places] + list(range(1_500))
    pair = TallyPair(columns=1, tie=False, stamped=False, linked=False)
    for share in (20, 60, 95, 50, 95, 30, 4, 80, 0):
        staying = {id for id in members if random.random() * 100 < share}
        leaving = [id for id in pair.plain if id not in staying]
        for batch in (leaving[: len(leaving) // 2], leaving[len(leaving) // 2 :]):
            pair.discard(batch)
            pair.native.check()
        coming = list(staying)
        random.shuffle(coming)
        for start in range(0, len(coming), 200):
            batch = coming[start : start + 200]
            pair.put(batch, [(random.randrange(9),) for _ in batch])
            pair.native.check()
        pair.compare(members)
    assert len(pair.native) == 0


@pytest.mark.parametrize("change", ["grow", "shrink", "both"])
def test_a_scan_returns_each_remaining_cell_once_during_changes(change: str) -> None:
    random = Random(change)
    for _ in range(12):
        pair = TallyPair(columns=1, tie=False, stamped=False, linked=False)
        staying = range(0, 6_000, 7)
        pair.put(staying, [(id,) for id in staying])
        passing = [id for id in range(6_000) if id % 7]
        if change != "grow":
            pair.put(passing, [(id,) for id in passing])
        met: list[int] = []
        place = 0
        while place < END:
            ids, words, place = pair.native.scan(place, random.choice([1, 40, 300]))
            assert words == [array("q", ids)]
            met += [id for id in ids if id % 7 == 0]
            chosen = random.sample(passing, k=random.choice([0, 300]))
            if change == "grow" or (change == "both" and random.random() < 0.5):
                pair.put(chosen, [(id,) for id in chosen])
            else:
                pair.discard(chosen)
            pair.native.check()
        assert sorted(met) == list(staying)


def test_a_scan_may_begin_anywhere() -> None:
    pair = TallyPair(columns=1, tie=False, stamped=False, linked=False)
    pair.put(range(5_000), [(id,) for id in range(5_000)])
    whole = pair.native.scan(0, END)[0]
    random = Random(2)
    for _ in range(50):
        begin = random.randrange(END + 1)
        ids, _, after = pair.native.scan(begin, END)
        assert after == END
        assert set(ids) == {id for id in whole if id * GOLDEN % END >= begin}


def test_a_scan_of_an_empty_range_ends_at_once() -> None:
    tally = Tally(columns=1, tie=True, stamped=False, linked=False)
    assert tally.scan(0, 10) == (array("I"), [array("q"), array("q")], END)
    tally.put(array("I", [5]), [array("q", [1]), array("q", [2])])
    assert tally.scan(END, 10) == (array("I"), [array("q"), array("q")], END)
    for position, limit in [(-1, 1), (END + 1, 1), (0, 0)]:
        with pytest.raises(ValueError, match="position"):
            tally.scan(position, limit)


def test_only_the_requested_range_of_columns_is_put() -> None:
    tally = Tally(columns=1, tie=False, stamped=False, linked=False)
    tally.put(array("I", range(10)), [array("q", range(10))], 3, 6)
    assert scanned(tally, 1) == {3: (3,), 4: (4,), 5: (5,)}


def test_inconsistent_columns_are_refused() -> None:
    tally = Tally(columns=1, tie=True, stamped=False, linked=False)
    ids, one, two = array("I", [1, 2]), array("q", [1]), array("q", [1, 2])
    with pytest.raises(ValueError, match="2 words"):
        tally.put(ids, [two])
    with pytest.raises(ValueError, match="same length"):
        tally.put(ids, [two, one])
    with pytest.raises(ValueError, match="within"):
        tally.put(ids, [two, two], 1, 3)
    with pytest.raises(TypeError, match="format"):
        tally.put(two, [two, two])
    assert len(tally) == 0


def test_invalid_tallies_are_refused() -> None:
    for columns, stamped, linked in [(0, False, False), (5, False, False), (1, True, True)]:
        with pytest.raises(ValueError, match="columns"):
            Tally(columns=columns, tie=True, stamped=stamped, linked=linked)
