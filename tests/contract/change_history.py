"""Boards that keep changes, and random writes to them."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import laurels
from laurels.core.changes.answers import Change
from laurels.errors import AllEventsRefused, LaurelsError
from tests.changes import assert_changes
from tests.definitions import ColumnDef, Definition, Refusal, Report, WindowDef
from tests.oracle import Oracle

DAY = 86_400_000
WINDOWS = (
    WindowDef("all"),
    WindowDef("day"),
    WindowDef("hour", keep=3),
    WindowDef("rolling", span="10m", step="1m"),
)
DEFINITIONS = {
    "sum": Definition(windows=WINDOWS),
    "decimals": Definition(columns=(ColumnDef(scale=2, order="asc"),), windows=WINDOWS[:2]),
    "last": Definition(columns=(ColumnDef(op="last"),), windows=WINDOWS[:2], tie="member"),
    "coarse": Definition(
        columns=(ColumnDef(), ColumnDef("level", "last", "asc")),
        windows=WINDOWS[1:],
        tie="last",
        tie_resolution="1m",
    ),
    "best": Definition(columns=(ColumnDef(op="best"), ColumnDef("t", "best", "asc"))),
    "scopes": Definition(windows=WINDOWS[:2], scopes=((), ("room",)), rank_by=("room",)),
    "decay": Definition(windows=(*WINDOWS[:2], WindowDef("decay", half_life="1h"))),
    "few ids": Definition(dedupe="1h", dedupe_max=5),
    "head": Definition(windows=WINDOWS[:3], head=100),
    "head of lasts": Definition(
        columns=(ColumnDef(op="last"), ColumnDef("t")), tie="last", head=100, hide_zero=True
    ),
}


def board_of(definition: Definition, **fields: Any) -> laurels.Board:
    return laurels.Board(
        definition.name,
        columns=[
            laurels.Column(c.name, op=c.op, order=c.order, scale=c.scale)  # type: ignore[arg-type]
            for c in definition.columns
        ],
        tie=definition.tie,  # type: ignore[arg-type]
        tie_resolution=definition.tie_resolution,
        windows=[window.definition for window in definition.windows],
        dedupe=definition.dedupe,
        dedupe_max=definition.dedupe_max,
        scopes=definition.scopes,
        rank_by=definition.rank_by,
        head=definition.head,
        hide_zero=definition.hide_zero,
        **({"changes": "7d"} | fields),
    )


class History:
    """Random writes, sent both to the boards and to the oracle."""

    def __init__(self, clock: laurels.ManualClock, definition: Definition, seed: int) -> None:
        self.rng = Random(seed)
        self.clock = clock
        self.definition = definition
        self.oracle = Oracle(clock.now_ms)
        self.oracle.create(definition)

    def write(self, lb: laurels.Leaderboards, times: int) -> None:
        for _ in range(times):
            draw = self.rng.random()
            if draw < 0.7:
                self._submit(lb, self._reports(self.rng.randrange(1, 8)))
            elif draw < 0.8:
                self._set(lb)
            elif draw < 0.87:
                member = self._member()
                lb.remove("board", member)
                self.oracle.remove("board", member)
            elif draw < 0.93:
                member, data = self._member(), self.rng.choice([None, {"n": 1}, [1, "x"]])
                lb.set_data("board", member, data)
                self.oracle.set_data("board", member, data)
            else:
                self.clock.advance(self.rng.choice([1, 999, 60_000, 3_600_000, DAY // 2]))

    def _member(self) -> str:
        return self.rng.choice("abcdefg")

    def _reports(self, count: int) -> list[Report]:
        return [
            Report(
                self._member(),
                self._value(),
                self.rng.choice([None, None, self.clock.now_ms() - self.rng.randrange(400_000)]),
                self.rng.choice([None, None, f"id{self.rng.randrange(12)}"]),
                labels=self._labels(),
            )
            for _ in range(count)
        ]

    def _labels(self) -> Any:
        if not self.definition.labels:
            return None
        return self.rng.choice([None, {"room": "1"}, {"room": "zwei / 2"}])

    def _value(self) -> Any:
        values = tuple(self.rng.randrange(-3, 6) for _ in self.definition.columns)
        return values[0] if len(values) == 1 else values

    def _submit(self, lb: laurels.Leaderboards, reports: list[Report]) -> None:
        events = [
            laurels.Event(r.member, r.value, at=r.at, id=r.id, labels=r.labels)  # type: ignore[arg-type]
            for r in reports
        ]
        whole = self.rng.random() < 0.1 and len(events) == 1
        try:
            with warnings.catch_warnings(action="ignore", category=AllEventsRefused):
                lb.submit_many("board", events, all_or_nothing=whole)
        except LaurelsError:
            assert whole
        try:
            self.oracle.submit_many("board", reports, all_or_nothing=whole)
        except Refusal:
            assert whole

    def _set(self, lb: laurels.Leaderboards) -> None:
        member, value, labels = self._member(), self._value(), self._labels()
        report = Report(member, value, absolute=True, labels=labels)
        codes = []
        try:
            lb.set("board", member, value, labels=labels)
        except LaurelsError as error:
            codes.append(error.code)
        try:
            self.oracle.submit("board", report)
        except Refusal as refusal:
            codes.append(refusal.code)
        assert len(codes) in (0, 2)
        assert len(set(codes)) < 2

    def compare(self, lb: laurels.Leaderboards) -> list[Change]:
        """Assert that the changes of a board equal the oracle's; return them."""
        return assert_changes(lb, self.oracle, "board")
