"""A window that has no name gets a short one. Definitions that earlier versions stored get the same
names as new ones."""

from typing import Any

import msgspec
import pytest

import laurels
from laurels import Board
from laurels.core.named_windows import window_named
from laurels.errors import UnknownWindow
from laurels.model.board_change import safe_change

STORED: dict[str, Any] = {
    "format": 1,
    "name": "gifts",
    "windows": ["all", "week:keep=20", "rolling:7d/1h,refresh=1h", "today=day:keep=3"],
}
"""A definition as earlier versions stored it: the name of a window was its whole text."""
STORED_NAMES = ["all", "week:keep=20", "rolling:7d/1h,refresh=1h", "today"]
WRITTEN = {"name": "gifts", "windows": STORED["windows"]}


def names(board: Board) -> list[str]:
    return list(board.rules().windows)


def test_a_window_is_named_by_its_text_without_options() -> None:
    board = Board("gifts", windows=["all", "week:keep=20", "rolling:7d/1h,refresh=1h", "decay:6h"])
    assert names(board) == ["all", "week", "rolling:7d/1h", "decay:6h"]
    assert board.windows == ("all", "week:keep=20", "rolling:7d/1h,refresh=1h", "decay:6h")


@pytest.mark.parametrize(
    "windows",
    [
        ["day", "day:tz=Asia/Tokyo"],
        ["day=day:keep=3", "day:tz=Asia/Tokyo"],
        [{"type": "day"}, {"type": "day", "tz": "Asia/Tokyo"}],
    ],
)
def test_windows_with_the_same_short_name_have_their_options_in_their_names(windows: Any) -> None:
    board = Board("gifts", windows=windows)
    assert set(names(board)) & {"day:tz=Asia/Tokyo"}
    assert len(names(board)) == 2
    assert Board.from_json(board.to_json()) == board


def test_a_stored_board_keeps_its_names() -> None:
    board = Board.from_json(msgspec.json.encode(STORED))
    assert names(board) == STORED_NAMES
    assert Board(**msgspec.structs.asdict(board)) == board
    assert Board.from_json(board.to_json()) == board
    assert msgspec.json.decode(board.to_json())["windows"] == STORED["windows"]


def test_the_stored_form_uses_names_that_earlier_versions_read() -> None:
    board = Board("gifts", windows=["all", "week:keep=20"])
    assert msgspec.json.decode(board.to_json())["windows"] == ["all", "week=week:keep=20"]
    assert Board.from_json(board.to_json()) == board


def test_a_stored_board_written_again_is_the_same() -> None:
    old = Board.from_json(STORED)
    assert safe_change(old, {"windows": STORED["windows"]}) == old
    more = safe_change(old, {"windows": [*STORED["windows"], "month:keep=9"]})
    assert names(more) == [*STORED_NAMES, "month"]


@pytest.mark.parametrize(
    ("stored", "name", "expected"),
    [
        (True, "week", "week:keep=20"),
        (True, "week:keep=20", "week:keep=20"),
        (True, "rolling:7d/1h", "rolling:7d/1h,refresh=1h"),
        (False, "week", "week"),
        (False, "week:keep=20", "week"),
        (False, "week:keep=5", "week"),
        (False, "rolling:7d/1h,refresh=1h", "rolling:7d/1h"),
        (False, "rolling:7d/60m", None),
        (False, "rolling:7d/1h,refresh=2h", None),
        (False, "week:tz=Asia/Tokyo", None),
        (False, "day", None),
        (False, "today=day", None),
        (False, "nothing", None),
        (False, 7, None),
    ],
)
def test_a_window_is_looked_up_by_short_or_full_name(
    stored: bool, name: Any, expected: str | None
) -> None:
    rules = Board.from_json(STORED if stored else WRITTEN).rules()
    if expected is None:
        with pytest.raises(UnknownWindow):
            window_named(rules, name)
    else:
        assert window_named(rules, name).name == expected


def test_an_ambiguous_short_name_is_an_unknown_window() -> None:
    stored = {**STORED, "windows": ["week:keep=20", "week:tz=Asia/Tokyo"]}
    rules = Board.from_json(stored).rules()
    with pytest.raises(UnknownWindow):
        window_named(rules, "week")


def test_a_board_of_an_earlier_version_is_opened_by_the_definition_that_made_it(
    tmp_path: Any,
) -> None:
    with laurels.open(tmp_path) as lb:
        lb.create(STORED)
        lb.submit("gifts", "alice", 5)
    with laurels.open(tmp_path) as lb:
        board = lb.create(WRITTEN, exist_ok=True)
        assert names(board) == STORED_NAMES
        for window in ("week", "week:keep=20"):
            page = lb.top("gifts", window=window)
            assert (page.total, page.as_of.window) == (1, "week:keep=20")
            assert lb.rank("gifts", "alice", window=window) == 1
