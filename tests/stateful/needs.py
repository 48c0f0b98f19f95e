"""Check a deployment's answers to `needed`: the oracle counts the event that the answer names, and
some less demanding events, each of them alone."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import MemberHidden, NotLive
from tests.definitions import LIMIT, ColumnDef, Report, Scope
from tests.oracle import Oracle
from tests.oracle_rolling import RefreshedWindow

Values = tuple[Decimal, ...]


class Needs:
    """Checks of one answer to `needed`: the value of a column that a member needs for a position,
    in the current period of a window."""

    def __init__(
        self,
        lb: laurels.Leaderboards,
        oracle: Oracle,
        name: str,
        window: str | None,
        scope: Scope,
        member: str,
        rank: int,
        column: int,
    ) -> None:
        self.oracle, self.name, self.window, self.scope = oracle, name, window, scope
        self.member, self.rank, self.at = member, rank, column
        self.definition = oracle.boards[name].definition
        self.column = self.definition.columns[column]
        self.lb = lb

    def query(self) -> laurels.Needed | None:
        return self.lb.needed(
            self.name,
            self.member,
            self.rank,
            window=self.window,
            column=self.column.name,
            labels=dict(self.scope.labels),
        )

    def check(self, rng: Random) -> None:
        """Assert that the needed value takes the member to the position, and that less demanding
        values do not."""
        if isinstance(self.oracle.boards[self.name].window(self.window), RefreshedWindow):
            with pytest.raises(NotLive):
                self.query()
            return
        if self.oracle.is_left_out(self.name, self.window, self.member):
            with pytest.raises(MemberHidden):
                self.query()
            return
        needed = self.query()
        places = self.oracle.places(self.name, self.window, None, self.scope)
        own = next((place for place in places if place.member == self.member), None)
        standing = self.lb.standing(
            self.name,
            self.member,
            window=self.window,
            to_rank=self.rank,
            labels=dict(self.scope.labels),
        )
        if own is not None and own.position <= self.rank:
            assert needed is None
            assert standing is not None
            assert standing.needed is None
            return
        assert needed is not None
        assert (needed.rank, needed.column) == (self.rank, self.column.name)
        if self.column is self.definition.columns[0]:
            assert (standing is None) == (own is None)
            assert standing is None or standing.needed == needed
        if needed.unreachable:
            assert needed.value is None
            self.assert_unreachable(rng)
        else:
            self.assert_least(needed.value, rng)

    def attains(self, values: Values) -> bool:
        value: Any = values if len(values) > 1 else values[0]
        report = Report(self.member, value, labels=dict(self.scope.labels) or None)
        return self.oracle.attains(self.name, report, self.window, self.scope, self.rank)

    def assert_least(self, value: Any, rng: Random) -> None:
        parts = value if isinstance(value, tuple) else (value,)
        values = tuple(Decimal(part) for part in parts)
        assert self.attains(values), values
        unit = Decimal(1).scaleb(-self.column.scale)
        for less in self.less_demanding(values[self.at], unit, rng):
            changed = (*values[: self.at], less, *values[self.at + 1 :])
            assert not self.attains(changed), (values, less)

    def less_demanding(self, value: Decimal, unit: Decimal, rng: Random) -> list[Decimal]:
        if self.column.op == "sum":
            sign = (value > 0) - (value < 0)
            steps = abs(int(value / unit))
            some = {1, steps, steps // 2, rng.randint(1, max(1, steps))}
            return [value - sign * unit * step for step in sorted(some) if 0 < step <= steps]
        worse = unit if self.column.order == "asc" else -unit
        low, high = self.column.low * unit, self.column.high * unit
        tried = [value + worse * step for step in (1, 2, rng.randint(1, 50))]
        return [each for each in tried if low <= each <= high]

    def assert_unreachable(self, rng: Random) -> None:
        """Assert that none of the tried values of the column suffices. The events do not change the
        other columns."""
        places = self.oracle.places(self.name, self.window, None, self.scope)
        own = next((place for place in places if place.member == self.member), None)
        others = [c for c in self.definition.columns if c is not self.column]
        if own is None and any(column.op == "last" for column in others):
            return  # the values of `last` columns come from another window, where they may differ
        unit = Decimal(1).scaleb(-self.column.scale)
        edges = [self.column.low, self.column.high, LIMIT, -LIMIT, 0]
        near = [place.score[self.at] + step for place in places[:4] for step in (-1, 0, 1)]
        own_part = 0 if own is None else own.score[self.at]
        tried = [*edges, *near, *(each - own_part for each in near)]
        for units in [*tried, *(rng.randint(-60, 60) for _ in range(3))]:
            values = [
                as_it_is(each, 0 if own is None else own.score[i])
                for i, each in enumerate(self.definition.columns)
            ]
            values[self.at] = units * unit
            assert not self.attains(tuple(values)), values


def as_it_is(column: ColumnDef, part: int) -> Decimal:
    """Return the value with which an event leaves the column as it is. `part` is the member's
    present value."""
    return Decimal(0 if column.op == "sum" else part).scaleb(-column.scale)
