"""Scopes in the definition of a board: every fault is named."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import BoardInvalid, UnsafeChange
from laurels.model.board import Board, safe_change
from laurels.model.rules import RankingSpec
from laurels.model.scopes import MAX_PLACES, MAX_SCOPES


def faults(**fields: Any) -> list[str]:
    with pytest.raises(BoardInvalid) as refused:
        Board("b", **fields)
    return refused.value.faults


def test_a_board_counts_all_events_unless_it_says_otherwise() -> None:
    rules = Board("b").rules()
    assert (rules.scopes, rules.rank_by, rules.labels) == (((),), (), ())
    assert not rules.scoped
    assert rules.places == (RankingSpec("all"),)


def test_labels_of_a_scope_stand_in_the_order_of_their_names() -> None:
    board = Board("b", scopes=[[], ["zone", "gender"]], rank_by="room", windows=["all", "day"])
    assert board.scopes == ((), ("gender", "zone"))
    assert board.rank_by == ("room",)
    assert board == Board.from_json(board.to_json())
    rules = board.rules()
    assert rules.scoped
    assert rules.labels == ("gender", "room", "zone")
    assert rules.places == (
        RankingSpec("all"),
        RankingSpec("day"),
        RankingSpec("all", ("gender", "zone")),
        RankingSpec("day", ("gender", "zone")),
        RankingSpec("all", (), "room"),
        RankingSpec("day", (), "room"),
    )
    assert [place.name for place in rules.places[::2]] == ["", "gender,zone", "@room"]


@pytest.mark.parametrize(
    ("scopes", "fault"),
    [
        ("room", "scopes is 'room', not a list of lists of labels"),
        (None, "scopes is None, not a list of lists of labels"),
        ([], "there are 0 scopes, not 1 to 8"),
        (["room"], "the scope 'room' is no list of labels"),
        ([["room"], ["room"]], "the scope ['room'] is there twice"),
        ([["a", "b"], ["b", "a"]], "the scope ['a', 'b'] is there twice"),
        ([[], []], "the scope [] is there twice"),
        ([["room", "room"]], "the scope ['room', 'room'] has a label twice"),
        ([["no room"]], "'no room' is no name for a label"),
        ([["a.b"]], "'a.b' is no name for a label"),
        ([["é"]], "'é' is no name for a label"),
        ([[""]], "'' is no name for a label"),
        ([[7]], "7 is no name for a label"),
    ],
)
def test_faults_of_scopes_are_named(scopes: Any, fault: str) -> None:
    assert faults(scopes=scopes) == [fault]


@pytest.mark.parametrize(
    ("rank_by", "fault"),
    [
        (7, "rank_by is 7, not a label or a list of labels"),
        (["room", "room"], "rank_by names room twice"),
        ([["room"]], "['room'] is no name for a label"),
        ([f"l{i}" for i in range(9)], "rank_by has 9 labels, not up to 8"),
    ],
)
def test_faults_of_labels_to_rank_by_are_named(rank_by: Any, fault: str) -> None:
    assert faults(rank_by=rank_by) == [fault]


def test_there_are_so_many_rankings_of_an_event_at_most() -> None:
    scopes = [[], *([f"l{i}"] for i in range(MAX_SCOPES - 1))]
    windows = [f"w{i}=hour" for i in range(MAX_PLACES // MAX_SCOPES)]
    Board("b", scopes=scopes, windows=windows)
    (fault,) = faults(scopes=scopes, windows=windows, rank_by="l1")
    assert (
        fault
        == "8 windows by 8 scopes and 1 labels ranked by are 72 rankings an event, not up to 64"
    )
    assert faults(scopes=[*scopes, ["more"]]) == ["there are 9 scopes, not 1 to 8"]


def test_all_faults_are_named_at_once() -> None:
    found = faults(scopes=[["a", "a"], ["i d"]], rank_by=["", "x", "x"], keep=0)
    assert len(found) == 5


OLD = Board("b", scopes=[[], ["room"]], rank_by=["room"])


def test_scopes_and_labels_to_rank_by_are_added_at_the_end() -> None:
    changed = safe_change(OLD, {"scopes": [[], ["room"], ["zone"]], "rank_by": ["room", "zone"]})
    assert changed.scopes == ((), ("room",), ("zone",))
    assert changed.rank_by == ("room", "zone")
    assert safe_change(OLD, {"scopes": [[], ["room"]]}) == OLD


@pytest.mark.parametrize(
    "change",
    [
        {"scopes": [["room"], []]},
        {"scopes": [[]]},
        {"scopes": [["zone"], [], ["room"]]},
        {"rank_by": []},
        {"rank_by": ["zone", "room"]},
    ],
)
def test_those_there_stay(change: dict[str, Any]) -> None:
    with pytest.raises(UnsafeChange) as refused:
        safe_change(OLD, change)
    assert len(refused.value.reasons) == 1


def test_labels_are_one_argument_of_a_question() -> None:
    """So that a label may have any name, and an option that there is not is refused."""
    for surface in (Leaderboards, AsyncLeaderboards):
        asked = 0
        for _, verb in inspect.getmembers(surface, inspect.isfunction):
            parameters = inspect.signature(verb).parameters
            if "by" in parameters:
                asked += 1
                assert parameters["labels"].kind is inspect.Parameter.KEYWORD_ONLY
                assert all(each.kind is not each.VAR_KEYWORD for each in parameters.values())
        assert asked == 13
