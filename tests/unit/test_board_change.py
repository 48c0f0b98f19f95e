"""A board can be changed only in ways that do not change the meaning of events that were already
counted."""

import re
from typing import Any

import pytest

from laurels.errors import BoardInvalid, UnsafeChange
from laurels.model.board import Board, Column
from laurels.model.board_change import _STAYS, safe_change
from laurels.model.windows.calendar import Calendar
from laurels.model.windows.kinds import Window
from laurels.model.windows.rolling import Rolling

OLD = Board(
    "gifts",
    title="Gifts",
    columns=[Column(scale=2)],
    windows=["all", "day", "month:keep=12", "recent=week:keep=4"],
)
ROLLING = Board("gifts", windows=["all", "7d=rolling:7d/1d", "rolling:60m/1m"])


def keeps(board: Board) -> dict[str, int]:
    windows: dict[str, Window] = board.rules().windows
    return {name: w.keep for name, w in windows.items() if isinstance(w, Calendar)}


def reasons(**changes: Any) -> list[str]:
    return reasons_of(OLD, changes)


def reasons_of(old: Board, changes: dict[str, Any]) -> list[str]:
    with pytest.raises(UnsafeChange) as refused:
        safe_change(old, changes)
    return refused.value.reasons


def test_the_title_may_change() -> None:
    assert safe_change(OLD, {"title": "Presents"}).title == "Presents"


def test_keep_can_change_and_applies_to_windows_without_their_own() -> None:
    changed = safe_change(OLD, {"keep": 7})
    assert keeps(changed) == {"day": 7, "month": 12, "recent": 4}


def test_a_window_may_be_added_at_the_end() -> None:
    changed = safe_change(OLD, {"windows": [*OLD.windows, "year"]})
    assert list(changed.rules().windows) == ["all", "day", "month", "recent", "year"]


def test_a_rolling_window_may_be_added_at_the_end() -> None:
    changed = safe_change(OLD, {"windows": [*OLD.windows, "7d=rolling:7d/1h"]})
    assert list(changed.rules().windows)[-1] == "7d"
    assert changed.rules().windows["7d"] == Rolling("7d", 168, 3_600_000, 0, "UTC", 300_000)


@pytest.mark.parametrize(
    "text",
    [
        "7d=rolling:14d/1d",
        "7d=rolling:7d/7h",
        "7d=rolling:7d/24h",
        "7d=rolling:168h/1h",
        "7d=rolling:7d/1d,tz=Asia/Tokyo",
        "7d=rolling:7d/1d,grace=1m",
        "7d=day",
        "7d=all",
    ],
)
def test_what_a_rolling_window_counts_may_not_change(text: str) -> None:
    [reason] = reasons_of(ROLLING, {"windows": ["all", text, "rolling:60m/1m"]})
    assert reason == "window '7d' can change in nothing but archive, archive_every, prizes"


def test_a_rolling_window_without_a_name_cannot_be_removed_or_changed() -> None:
    [reason] = reasons_of(ROLLING, {"windows": ["all", "7d=rolling:7d/1d", "rolling:1h/1m"]})
    assert "window 'rolling:60m/1m' cannot go" in reason
    [reason] = reasons_of(ROLLING, {"windows": ["all", "rolling:60m/1m", "7d=rolling:7d/1d"]})
    assert "stay in their order" in reason


def test_a_rolling_window_in_another_notation_is_unchanged() -> None:
    notation = {"name": "7d", "type": "rolling", "span": "007d", "step": "1d"}
    assert safe_change(ROLLING, {"windows": ["all", notation, "rolling:60m/01m"]}) == ROLLING
    assert safe_change(ROLLING, {"keep": 9, "title": "Gifts"}).windows == ROLLING.windows


def test_the_keep_of_a_window_may_change_under_its_name() -> None:
    windows = [
        "all",
        "day=day:keep=9",
        {"type": "month", "keep": 24},
        "recent=week",
    ]
    changed = safe_change(OLD, {"windows": windows})
    assert keeps(changed) == {"day": 9, "month": 24, "recent": 2}
    assert Board.from_json(changed.to_json()) == changed
    again = safe_change(changed, {"windows": list(OLD.windows)})
    assert again == OLD


def test_repeated_values_change_nothing() -> None:
    same = {"columns": [{"scale": 2}], "tz": "UTC", "dedupe": 3_600_000, "windows": OLD.windows}
    assert safe_change(OLD, same) == OLD
    assert safe_change(OLD, {}) == OLD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "other"),
        ("columns", [Column(scale=3)]),
        ("columns", [Column(scale=2, max=100)]),
        ("tie", "last"),
        ("tie_resolution", "1s"),
        ("rank", "dense"),
        ("tz", "Asia/Tokyo"),
        ("week_start", "sunday"),
        ("grace", "6m"),
        ("dedupe", "2h"),
        ("dedupe_max", 7),
        ("shards", 3),
    ],
)
def test_any_other_field_cannot_change(field: str, value: object) -> None:
    [reason] = reasons(**{field: value})
    assert field in reason


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        (["all", "day", "month:keep=12"], "window 'recent' cannot go"),
        (["all", "day", "months=month:keep=12", "recent=week"], "window 'month' cannot go"),
        (
            ["all", "day=day:tz=Asia/Tokyo", "month:keep=12", "recent=week"],
            "window 'day' can change in nothing but keep, archive, prizes",
        ),
        (
            ["all", "day", "month:keep=12", "recent=month"],
            "window 'recent' can change in nothing but keep, archive, prizes",
        ),
        (["day", "all", "month:keep=12", "recent=week"], "stay in their order"),
        (["year", *OLD.windows], "stay in their order"),
    ],
)
def test_windows_cannot_be_removed_or_changed(windows: list[str], expected: str) -> None:
    [reason] = reasons(windows=windows)
    assert expected in reason


def test_the_advice_names_each_field_that_may_change() -> None:
    named = re.findall(r"\w+", UnsafeChange.advice)
    for field in Board.__struct_fields__:
        assert (field in named) == (field not in _STAYS), field
    added = named.index("add")
    for field in ("windows", "scopes", "rank_by"):
        assert named.index(field) > added


def test_every_reason_is_given_at_once() -> None:
    given_reasons = reasons(tie="last", rank="dense", windows=["all"])
    assert len(given_reasons) == 5


def test_a_change_to_an_invalid_board_names_every_error() -> None:
    with pytest.raises(BoardInvalid) as refused:
        safe_change(OLD, {"keep": 0, "colour": "red", "tie": "x"})
    assert len(refused.value.errors) == 3


def test_a_decay_window_can_be_added_and_never_change() -> None:
    old = Board("gifts", windows=["all", "hot=decay:6h"])
    added = safe_change(old, {"windows": ["all", "hot=decay:6h", "decay:30d"]})
    assert added.windows == ("all", "hot=decay:6h", "decay:30d")
    assert reasons_of(old, {"windows": ["all", "hot=decay:360m"]}) == [
        "window 'hot' can change in nothing but archive, prizes"
    ]
    with pytest.raises(BoardInvalid, match="take op sum"):
        safe_change(Board("b", columns=[Column(op="best")]), {"windows": ["all", "decay:6h"]})


def test_a_head_can_be_added_changed_and_removed() -> None:
    board = OLD
    for head in (100, 500, 200, 0):
        board = safe_change(board, {"head": head})
        assert board.head == head


def test_a_board_with_rolling_windows_cannot_get_a_head() -> None:
    with pytest.raises(BoardInvalid, match="'7d'"):
        safe_change(ROLLING, {"head": 100})
