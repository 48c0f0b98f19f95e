"""`TouchedIds` returns the same ids whether it keeps them in a set or as flags."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from laurels.stores.local.index import touched
from laurels.stores.local.index.touched import TouchedIds


@pytest.mark.parametrize("few", [0, 3, 50, 10**9])
@pytest.mark.parametrize("seed", range(5))
def test_all_ids_are_there_once(few: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touched, "FEW", few)
    random, ids, wanted, members = Random(seed), TouchedIds(), set[int](), 1
    for _ in range(60):
        members += random.randrange(30)
        added = [random.randrange(members) for _ in range(random.randrange(9))]
        ids.update(random.choice([added, array("I", added), tuple(added)]), members)
        wanted |= {*added}
        assert sorted(ids) == sorted(wanted)
        assert min(few, len(wanted)) <= ids.least <= max(few, len(wanted))


def test_a_set_is_kept_if_it_takes_less_than_flags() -> None:
    ids = TouchedIds()
    ids.update(range(touched.FEW + 1), touched.SET_BYTES * (touched.FEW + 2))
    assert ids.least == touched.FEW + 1
    ids.update([touched.FEW + 1], touched.SET_BYTES * (touched.FEW + 2))
    assert ids.least == touched.FEW
    assert [*ids] == [*range(touched.FEW + 2)]
