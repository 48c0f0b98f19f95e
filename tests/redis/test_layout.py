"""The layout that a board gets, the values that this layout keeps exactly, and the warnings that
the user gets."""

from __future__ import annotations

from typing import Any

import pytest

from laurels.model.board import Board, Column
from laurels.stores.redis.index.layout import BITS, describe, is_alike, layout_of


def _board(*columns: Column, **fields: Any) -> Board:
    return Board("b", columns=columns or (Column(),), **fields)


@pytest.mark.parametrize(
    ("board", "name"),
    [
        (_board(tie="member"), "plain"),
        (_board(Column(op="best", order="asc"), tie="member"), "plain"),
        (_board(Column(scale=2), tie="member", rank="dense"), "plain"),
        (_board(), "prefixed"),
        (_board(Column(min=0, max=31)), "packed"),
        (_board(Column(min=0, max=32)), "prefixed"),
        (_board(Column(min=0, max=32_767), tie_resolution="1s"), "packed"),
        (_board(Column(min=0, max=32_768), tie_resolution="1s"), "prefixed"),
        (_board(Column(min=-1_000, max=1_000), Column("t", min=0, max=60), tie="member"), "packed"),
        (_board(Column(min=0), Column("t", min=0, max=60), tie="member"), "prefixed"),
        (_board(Column(op="last", min=0, max=9), tie_resolution="1s"), "prefixed"),
        (_board(Column(op="last", min=0, max=9)), "packed"),
        (_board(Column(op="last"), tie="member"), "prefixed"),
    ],
)
def test_a_board_gets_the_cheapest_layout_that_keeps_it_exactly(board: Board, name: str) -> None:
    assert layout_of(board.rules()).name == name


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [(0, 7, "packed"), (0, 8, "prefixed"), (-8, 0, "prefixed"), (-9, 9, "packed")],
)
def test_a_refreshed_window_has_room_for_the_sum_of_its_steps(
    low: int, high: int, name: str
) -> None:
    """The packed score has five bits, and the window has four steps. If all values of the column
    have the same sign, each step may use the whole range, so the total of the steps may be four
    times as large."""
    column = Column(min=low, max=high)
    live, refreshed = (
        _board(column, windows=[f"rolling:4h/1h{more}"]).rules() for more in ("", ",refresh=1h")
    )
    assert layout_of(live).name == "packed"
    assert layout_of(refreshed).name == name
    assert is_alike(layout_of(live), layout_of(refreshed)) == (low < 0 < high)


def test_the_parts_of_a_packed_score_do_not_overlap() -> None:
    rules = _board(
        Column(min=-7, max=9), Column("t", min=0, max=1_000, order="asc"), tie_resolution="1h"
    ).rules()
    layout = layout_of(rules)
    assert layout.lows[:2] == (-9, 0)
    assert layout.highs[:2] == (7, 1_000)
    for unit, finer, low, high in zip(
        layout.units, layout.units[1:], layout.lows[1:], layout.highs[1:], strict=False
    ):
        assert (high - low + 1) * finer <= unit
    most = sum(
        (high - low) * unit
        for low, high, unit in zip(layout.lows, layout.highs, layout.units, strict=True)
    )
    assert most < 2**BITS


@pytest.mark.parametrize(
    ("board", "cheaper"),
    [
        (_board(tie="member"), None),
        (_board(Column(min=0, max=31)), None),
        (
            _board(Column(min=0, max=1_000_000)),
            "tie=member would be plain; tie_resolution=1m would be packed",
        ),
        (
            _board(),
            "tie=member would be plain; columns that take 26 bits instead of 54 (see min "
            "and max) would be packed with tie_resolution=1h",
        ),
        (
            _board(Column(), Column("t", min=0, max=3), tie="member"),
            "declare min and max: the columns take 56 bits, and 53 are available",
        ),
        (
            _board(Column(op="last"), tie="member"),
            "a column of op last would be packed with tie first or last, and tie_resolution 1ms",
        ),
        (
            Board("b", tie="member", windows=["all", "decay:6h"]),
            "totals with decay do not fit into one number; without a decay window the layout may "
            "be packed",
        ),
    ],
)
def test_describe_suggests_a_cheaper_layout(board: Board, cheaper: str | None) -> None:
    assert describe(board.rules()).cheaper == cheaper


def test_the_suggested_layouts_are_cheaper() -> None:
    board = _board(Column(min=0, max=1_000_000))
    assert layout_of(board.rules()).name == "prefixed"
    assert layout_of(_board(*board.columns, tie="member").rules()).name == "plain"
    assert layout_of(_board(*board.columns, tie_resolution="1m").rules()).name == "packed"
    bounded = Column(min=0, max=2**26 - 1)
    assert layout_of(_board(bounded, tie_resolution="1h").rules()).name == "packed"
