"""The options of a window about its closed periods: what is accepted, and the canonical form."""

from __future__ import annotations

from typing import Any

import pytest

from laurels import Board
from laurels.errors import BoardInvalid, UnsafeChange
from laurels.model.board_change import safe_change
from laurels.model.windows.closing import FOREVER, Closing

GOLD = {"list": [{"name": "a=b, day:c}", "ranks": [1, 2], "data": {"prizes={": ["x", 1]}}]}
GOLD_TEXT = (
    'prizes={"list":[{"name":"a=b, day:c}","ranks":[1,2],"data":{"prizes={":["x",1]}}],'
    '"ties":"all","pay_after":"0s","scopes":[[]]}'
)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        ("day:archive=forever", "day:archive=forever"),
        ({"type": "day", "archive": "forever"}, "day:archive=forever"),
        ("week:archive=12,keep=3,week_start=sunday", "week:keep=3,week_start=sunday,archive=12"),
        ("all:archive=1", "all:archive=1"),
        ("hot=decay:6h,archive=forever", "hot=decay:6h,archive=forever"),
        ({"name": "today", "type": "day", "prizes": GOLD}, f"today=day:{GOLD_TEXT}"),
        (
            "30d=rolling:30d/1d,archive_every=1d,archive=forever",
            "30d=rolling:30d/1d,archive=forever,archive_every=1d",
        ),
        (
            {"type": "rolling", "span": "7d", "step": "1h", "archive_every": "1d", "prizes": GOLD},
            f"rolling:7d/1h,archive_every=1d,{GOLD_TEXT}",
        ),
        ({"type": "day", "archive": 3, "prizes": GOLD}, f"day:archive=3,{GOLD_TEXT}"),
    ],
)
def test_a_window_has_a_canonical_text(window: Any, text: str) -> None:
    board = Board("b", windows=[window])
    assert board.windows == (text,)
    assert Board("b", windows=[text]) == board
    assert Board.from_json(board.to_json()) == board
    assert len(board.rules().closing) == 1


def test_prizes_alone_are_archived_for_ever() -> None:
    board = Board("b", windows=["all", {"type": "day", "prizes": GOLD}, "week:archive=5"])
    assert board.rules().closing == {"day": Closing(FOREVER), "week": Closing(5)}
    assert [prizes.list[0].ranks for prizes in board.prizes().values()] == [(1, 2)]


def test_windows_that_differ_in_other_options_keep_their_names() -> None:
    windows = ["day:archive=forever", "day:tz=Asia/Tokyo,archive=4"]
    board = Board("b", windows=windows)
    assert list(board.rules().windows) == ["day", "day:tz=Asia/Tokyo"]
    assert Board.from_json(board.to_json()) == board
    changed = safe_change(board, {"windows": ["day", "day:tz=Asia/Tokyo"]})
    assert list(changed.rules().windows) == ["day", "day:tz=Asia/Tokyo"]
    assert changed.rules().closing == {}


@pytest.mark.parametrize(
    ("window", "error"),
    [
        ("day:archive=0", "archive"),
        ("day:archive=always", "forever"),
        ("day:archive_every=1d", "takes no archive_every"),
        ("rolling:7d/1d,archive=forever", "write archive_every"),
        ("rolling:7d/1h,archive=3,archive_every=90m", "whole steps of 1h"),
        ("rolling:60s/1s,archive=3,archive_every=10s", "1m or longer"),
        ("rolling:7d/1h,refresh=1h,archive=3,archive_every=1d", "leave refresh out"),
        ("decay:6h,archive=3,archive_every=1d", "takes no archive_every"),
        ("day:keep=5,archive=3", "at least keep"),
        ("day:prizes={", "JSON"),
        ({"type": "day", "prizes": {"list": []}}, "prizes"),
        ({"type": "day", "prizes": {**GOLD, "scopes": [["room"]]}}, "scopes of the board"),
    ],
)
def test_wrong_options_are_refused(window: Any, error: str) -> None:
    with pytest.raises(BoardInvalid, match=error):
        Board("b", windows=[window])


def test_only_the_options_about_closed_periods_and_keep_may_change() -> None:
    board = Board("b", windows=["day:archive=4"])
    assert safe_change(board, {"windows": ["day:archive=9,keep=3"]}).windows == (
        "day:keep=3,archive=9",
    )
    with pytest.raises(UnsafeChange, match="nothing but keep, archive, prizes"):
        safe_change(board, {"windows": ["day:archive=4,grace=1h"]})
