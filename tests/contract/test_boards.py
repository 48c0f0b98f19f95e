"""Boards are created, listed, shown, changed where that is safe, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import (
    BoardExists,
    BoardInvalid,
    FormatTooNew,
    LaurelsError,
    PeriodExpired,
    UnknownBoard,
    UnsafeChange,
)
from tests.comparison import everything
from tests.contract.reading import members, scores

DAY = 86_400_000


def test_boards_are_listed_by_name(lb: laurels.Leaderboards) -> None:
    made = [lb.create(laurels.Board(name, title=name.upper())) for name in ("b", "a", "c")]
    assert lb.boards() == sorted(made, key=lambda board: board.name)
    assert lb.get("a").title == "A"


def test_a_board_can_be_created_from_its_json_form(lb: laurels.Leaderboards) -> None:
    windows = [{"type": "month", "keep": 12}, {"type": "day", "name": "today"}]
    made = lb.create({"name": "b", "windows": windows, "columns": [{"op": "last", "scale": 2}]})
    same = laurels.Board(
        "b",
        windows=["month:keep=12", "today=day"],
        columns=[laurels.Column(op="last", scale=2)],
    )
    assert made == same == laurels.Board.from_json(made.to_json())


def test_a_board_name_can_be_used_only_once(lb: laurels.Leaderboards) -> None:
    board = lb.create(laurels.Board("b"))
    with pytest.raises(BoardExists):
        lb.create(board)
    assert lb.create(board, exist_ok=True) == board
    with pytest.raises(BoardExists):
        lb.create(laurels.Board("b", title="other"), exist_ok=True)
    assert lb.boards() == [board]


def test_a_wrong_definition_is_refused_with_every_fault_at_once(lb: laurels.Leaderboards) -> None:
    wrong = {
        "name": "b",
        "columns": [{"name": "x", "op": "mean"}, {"name": "x", "scale": 99}],
        "tie": "random",
        "rank": "olympic",
        "windows": ["fortnight", "day:keep=0", "all", "all"],
        "tz": "Mars/Olympus",
        "week_start": "someday",
        "grace": "5 apples",
        "dedupe_max": -1,
        "keep": 0,
        "colour": "red",
    }
    with pytest.raises(BoardInvalid) as refused:
        lb.create(wrong)
    reported = "\n".join(refused.value.errors)
    for word in ("mean", "99", "random", "olympic", "fortnight", "Mars", "someday", "apples"):
        assert word in reported
    for field in ("dedupe_max", "keep", "colour"):
        assert field in reported
    assert lb.boards() == []


@pytest.mark.parametrize("name", ["", "-b", ".b", "a b", "ä", "x" * 65, "a/b", "b\n"])
def test_odd_names_of_boards_columns_and_windows_are_refused(
    lb: laurels.Leaderboards, name: str
) -> None:
    definitions: list[dict[str, Any]] = [
        {"name": name},
        {"name": "b", "columns": [{"name": name}]},
        {"name": "b", "windows": [{"name": name, "type": "day"}]},
    ]
    for definition in definitions:
        with pytest.raises(BoardInvalid) as refused:
            lb.create(definition)
        assert refused.value.code == "invalid_name"
    assert lb.boards() == []


def test_a_newer_format_is_refused_with_its_own_error(lb: laurels.Leaderboards) -> None:
    with pytest.raises(FormatTooNew, match="2"):
        lb.create({"format": 2, "name": "b", "hologram": True})


def test_a_deleted_board_is_gone(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 1)
    lb.delete("b")
    assert lb.boards() == []
    for query in (
        lambda: lb.get("b"),
        lambda: lb.delete("b"),
        lambda: lb.top("b"),
        lambda: lb.submit("b", "ann", 1),
        lambda: list(lb.export("b")),
    ):
        with pytest.raises(UnknownBoard):
            query()


def test_the_title_can_change(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.change("b", title="Gifts").title == "Gifts"
    assert lb.get("b").title == "Gifts"


def test_raising_keep_restores_no_expired_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["day"], keep=2))
    lb.submit("b", "ann", 1)
    clock.advance(2 * DAY)
    lb.submit("b", "bob", 1)
    lb.change("b", keep=4)
    with pytest.raises(PeriodExpired):
        lb.top("b", period="2026-11-20")
    assert [period.label for period in lb.periods("b")] == ["2026-11-22", "2026-11-21"]
    clock.advance(2 * DAY)
    assert len(lb.periods("b")) == 4
    assert members(lb.top("b", period="2026-11-22")) == ["bob"]


def test_keep_can_be_lowered(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["days=day:keep=3", "all"]))
    lb.submit("b", "ann", 1)
    clock.advance(DAY)
    lb.change("b", windows=["days=day:keep=1", "all"])
    with pytest.raises(PeriodExpired):
        lb.top("b", period="2026-11-20")
    lb.change("b", windows=["days=day:keep=3", "all"])
    with pytest.raises(PeriodExpired):
        lb.top("b", period="2026-11-20")
    assert scores(lb.top("b", window="all")) == {"ann": 1}


def test_a_window_added_counts_from_now_on(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 5)
    changed = lb.change("b", windows=["all", "month:keep=3"])
    assert changed.windows == ("all", "month:keep=3")
    assert lb.top("b", window="month:keep=3").total == 0
    lb.submit("b", "ann", 1)
    assert scores(lb.top("b", window="month:keep=3")) == {"ann": 1}
    assert scores(lb.top("b")) == {"ann": 6}
    assert len(lb.periods("b", "month:keep=3")) == 1
    with pytest.raises(PeriodExpired):
        lb.top("b", window="month:keep=3", period="2026-10")


@pytest.mark.parametrize(
    "changes",
    [
        {"tie": "last"},
        {"rank": "dense"},
        {"columns": [{"name": "other"}]},
        {"tz": "Asia/Tokyo"},
        {"week_start": "sunday"},
        {"grace": "1m"},
        {"dedupe": "2h"},
        {"dedupe_max": 5},
        {"windows": ["all"]},
        {"windows": ["all", "day:grace=1m"]},
        {"tie_resolution": "1s"},
        {"title": "x", "name": "c"},
    ],
)
def test_an_unsafe_change_is_refused_with_the_reason(
    lb: laurels.Leaderboards, changes: dict[str, Any]
) -> None:
    board = lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit("b", "ann", 1)
    before = everything(lb)
    with pytest.raises(UnsafeChange) as refused:
        lb.change("b", **changes)
    assert len(str(refused.value)) > 20
    assert lb.get("b") == board
    assert everything(lb) == before


@pytest.mark.parametrize("changes", [{"keep": 0}, {"colour": "red"}, {"windows": ["all", "x"]}])
def test_a_wrong_change_is_refused(lb: laurels.Leaderboards, changes: dict[str, Any]) -> None:
    board = lb.create(laurels.Board("b"))
    with pytest.raises(LaurelsError):
        lb.change("b", **changes)
    assert lb.get("b") == board
