"""`make test` runs each case of a test on a store of each group, and each test on enough stores."""

from __future__ import annotations

from itertools import product
from math import ceil
from typing import Any

import pytest
from tests.repeats import Repeats


@pytest.mark.parametrize("share", [0, 0.5, 1])
@pytest.mark.parametrize("cases", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("names", [1, 2, 3, 4])
def test_each_case_runs_on_one_store_of_a_group(names: int, cases: int, share: float) -> None:
    pairs = [*product([f"store{i}" for i in range(names)], range(cases))]
    used = set()
    for test in ("test_a", "test_b", "test_c", "test_d", "test_e"):
        repeats = Repeats()
        for pair in pairs:
            item: Any = pair
            repeats.add(item, *pair)
        chosen = {*pairs} - {*repeats.unchosen(test, share)}
        assert {case for _, case in chosen} == {*range(cases)}
        assert len({name for name, _ in chosen}) >= min(names, max(ceil(share * names), 1))
        assert len(chosen) == max(cases, ceil(share * names))
        used |= {name for name, _ in chosen}
    assert len(used) > 1 or names == 1
