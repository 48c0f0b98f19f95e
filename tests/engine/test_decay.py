"""Decayed totals that the fold computes equal totals that are added one by one, in rankings of any
size."""

from array import array
from random import Random

import pytest

from laurels.engine.batch.fold import APPLIED, BEST, SUM, UNCHANGED, Journal, Shape, apply
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import ORDINAL, RankedSet
from laurels.engine.writing import decay
from laurels.model.windows.weighing import weights
from tests.conftest import Scaled

HOUR_MS = 3_600_000
NOW_MS = 1_795_219_200_000
LIMIT = 2**53 - 1
Total = tuple[int, int]


def roster_of(count: int) -> Roster:
    roster = Roster(7)
    names = [b"m%06d" % i for i in range(count)]
    roster.intern(b"".join(names), bytes(map(len, names)))
    return roster


def sets(roster: Roster, tie: int) -> tuple[Shape, RankedSet, RankedSet]:
    """Return a shape with one sum column, a ranking of plain totals, and a ranking of decayed
    totals."""
    shape = Shape([SUM], [-LIMIT], [LIMIT], tie)
    whole = RankedSet(roster, columns=1, tie=tie != 0, stamped=False, dense=False)
    return shape, whole, RankedSet(roster, columns=2, tie=tie != 0, stamped=False, dense=True)


@pytest.mark.parametrize(
    ("members", "events", "tie", "distinct"),
    [
        (5, 60, 1, False),
        (300, 900, -1, False),
        (300, 2_000, 0, False),
        (90_000, 9_000, 1, False),
        (90_000, 9_000, 1, True),
    ],
)
def test_totals_equal_single_additions(
    members: int, events: int, tie: int, distinct: bool, scaled: Scaled
) -> None:
    """With `distinct`, each event has a different member, in sequence. The engine counts such
    events in another order than the order of arrival."""
    random = Random(members)
    roster = roster_of(members)
    shape, whole, hot = sets(roster, tie)
    totals: dict[int, Total] = {}
    stamps: dict[int, int] = {}
    for round in range(scaled(8, 30)):
        chosen = random.choices(range(members), k=events)
        if distinct:
            chosen = sorted(random.sample(range(members), events))
        ids = array("I", chosen)
        values = array("q", [random.choice([0, 1, -1, 7, -300]) for _ in ids])
        ats = array("q", [NOW_MS + round * HOUR_MS - random.randrange(HOUR_MS) for _ in ids])
        weighed = weights(ats, HOUR_MS)
        assert isinstance(weighed.exponents, array)
        assert isinstance(weighed.mantissas, array)
        pair = weighed.exponents, weighed.mantissas
        status = bytearray(len(ids))
        watched = apply(
            shape, [whole, hot], [0, 1], [None, None], ids, [values], ats, ats, None, 0, 1, 0,
            len(ids), status, None, [None, pair],
        )  # fmt: skip
        assert watched is not None
        for i, id in enumerate(ids):
            before = totals.get(id)
            totals[id] = decay.add(before or (0, 0), values[i], pair[0][i], pair[1][i])
            stamps[id] = max(stamps.get(id, ats[i]), ats[i])
            assert watched[0][0][i] == (before is not None)
            assert (watched[1][1][0][i], watched[1][1][1][i]) == totals[id]
    hot.check()
    whole.check()
    _, words = hot.words(array("I", list(totals)))
    assert list(zip(words[0], words[1], strict=True)) == list(totals.values())
    if tie:
        assert list(words[2]) == [tie * stamps[id] for id in totals]
    ids, _ = hot.slice(0, len(hot))
    key = {id: (*totals[id], tie * stamps[id], id) for id in totals}
    assert list(ids) == sorted(totals, key=key.__getitem__)
    assert hot.rank(ids[-1], ORDINAL) == len(totals) - 1


def test_a_batch_can_be_taken_back() -> None:
    roster = roster_of(9)
    shape, whole, hot = sets(roster, 1)
    pair = decay_of(NOW_MS)
    ids, values = array("I", range(6)), array("q", [5] * 6)

    def count(journal: Journal | None) -> None:
        apply(
            shape, [whole, hot], [0, 1], [None, None], ids, [values], 1, 1, None, 0, -1, 0, 6,
            bytearray(6), journal, [None, pair],
        )  # fmt: skip

    count(None)
    before = hot.slice(0, 9)
    ids = array("I", [1, 7, 1, 8, 3, 7])
    journal = Journal()
    count(journal)
    assert len(hot) == 8
    journal.undo()
    assert hot.slice(0, 9) == before
    hot.check()


def test_an_event_that_changes_no_bit_is_unchanged() -> None:
    roster = roster_of(1)
    shape, _, hot = sets(roster, 0)
    statuses = []
    for value, at_ms in ((5, NOW_MS), (0, NOW_MS), (5, NOW_MS - 100 * HOUR_MS), (-5, NOW_MS)):
        status = bytearray(1)
        apply(
            shape, [hot], [0], [None], array("I", [0]), [array("q", [value])], 1, 1, None, -1, -1,
            0, 1, status, None, [decay_of(at_ms)],
        )  # fmt: skip
        statuses.append(status[0])
    assert statuses == [APPLIED, UNCHANGED, UNCHANGED, APPLIED]
    assert [list(column) for column in hot.slice(0, 1)[1]] == [[0], [0]]


def decay_of(at_ms: int) -> tuple[int, int]:
    weighed = weights(at_ms, HOUR_MS)
    assert isinstance(weighed.exponents, int)
    assert isinstance(weighed.mantissas, int)
    return weighed.exponents, weighed.mantissas


def test_inconsistent_arguments_are_refused() -> None:
    roster = roster_of(1)
    shape, whole, hot = sets(roster, 1)
    best = Shape([BEST], [-LIMIT], [LIMIT], 1)
    pair = decay_of(NOW_MS)

    def refused(
        shape: Shape, ranking: RankedSet, decays: list[tuple[int, int] | None], why: str
    ) -> None:
        with pytest.raises(ValueError, match=why):
            apply(
                shape, [ranking], [0], [None], array("I", [0]), [array("q", [1])], 1, 1, None, -1,
                -1, 0, 1, bytearray(1), None, decays,
            )  # fmt: skip

    refused(shape, whole, [pair], "words")
    refused(shape, hot, [None], "words")
    refused(shape, hot, [], "words")
    refused(best, hot, [pair], "one sum")
    refused(shape, hot, [pair, None], "a pair")
