"""Cases for `parametrize`: `make test` runs a few of them, and `make torture` all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from _pytest.mark import ParameterSet


def some(few: int, cases: Sequence[object]) -> list[object]:
    """Return all cases; `make test` runs only the first `few`. For example `some(2, range(8))`."""
    return [*cases[:few], *rare(*cases[few:])]


def covering(*values: Sequence[object]) -> list[object]:
    """Return all combinations of the values of several parameters. `make test` runs only a few of
    them: as many as the longest list has values, which is enough for every value to occur."""
    chosen = [tuple(each[i % len(each)] for each in values) for i in range(max(map(len, values)))]
    return [*chosen, *rare(*(case for case in product(*values) if case not in chosen))]


def rare(*cases: object) -> list[ParameterSet]:
    """Return cases that only `make torture` runs. With several parameters, each case is a tuple."""
    return [_rare(case) for case in cases]


def _rare(case: object) -> ParameterSet:
    if isinstance(case, ParameterSet):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.torture], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.torture)
