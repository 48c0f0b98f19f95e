"""Scopes in the definition of a board. Each mistake is refused with an error."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from laurels.api.aio import AsyncLeaderboards
from laurels.api.leaderboards import Leaderboards
from laurels.errors import BoardInvalid, UnsafeChange
from laurels.model.board import Board
from laurels.model.board_change import safe_change
from laurels.model.rules import RankingSpec
from laurels.model.scopes import MAX_RANKINGS, MAX_SCOPES


def errors_of(**fields: Any) -> list[str]:
    with pytest.raises(BoardInvalid) as refused:
        Board("b", **fields)
    return refused.value.errors


def test_a_board_counts_all_events_unless_it_says_otherwise() -> None:
    rules = Board("b").rules()
    assert (rules.scopes, rules.rank_by, rules.labels) == (((),), (), ())
    assert not rules.scoped
    assert rules.specs == (RankingSpec("all"),)


def test_labels_of_a_scope_are_sorted_by_name() -> None:
    board = Board("b", scopes=[[], ["zone", "gender"]], rank_by="room", windows=["all", "day"])
    assert board.scopes == ((), ("gender", "zone"))
    assert board.rank_by == ("room",)
    assert board == Board.from_json(board.to_json())
    rules = board.rules()
    assert rules.scoped
    assert rules.labels == ("gender", "room", "zone")
    assert rules.specs == (
        RankingSpec("all"),
        RankingSpec("day"),
        RankingSpec("all", ("gender", "zone")),
        RankingSpec("day", ("gender", "zone")),
        RankingSpec("all", (), "room"),
        RankingSpec("day", (), "room"),
    )
    assert [place.name for place in rules.specs[::2]] == ["", "gender,zone", "@room"]


@pytest.mark.parametrize(
    ("scopes", "error"),
    [
        ("room", "expected a list of lists of labels for scopes, got 'room'"),
        (None, "expected a list of lists of labels for scopes, got None"),
        ([], "expected 1 to 8 scopes, got 0"),
        (["room"], "expected a list of labels as a scope, got 'room'"),
        ([["room"], ["room"]], "expected distinct scopes, got ['room'] twice"),
        ([["a", "b"], ["b", "a"]], "expected distinct scopes, got ['a', 'b'] twice"),
        ([[], []], "expected distinct scopes, got [] twice"),
        ([["room", "room"]], "expected distinct labels in a scope, got ['room', 'room']"),
        ([["no room"]], "expected a name for a label, got 'no room'"),
        ([["a.b"]], "expected a name for a label, got 'a.b'"),
        ([["é"]], "expected a name for a label, got 'é'"),
        ([[""]], "expected a name for a label, got ''"),
        ([[7]], "expected a name for a label, got 7"),
    ],
)
def test_errors_of_scopes_are_reported(scopes: Any, error: str) -> None:
    assert errors_of(scopes=scopes) == [error]


@pytest.mark.parametrize(
    ("rank_by", "error"),
    [
        (7, "expected a label or a list of labels for rank_by, got 7"),
        (["room", "room"], "expected distinct labels in rank_by, got room twice"),
        ([["room"]], "expected a name for a label, got ['room']"),
        ([f"l{i}" for i in range(9)], "expected at most 8 labels in rank_by, got 9"),
    ],
)
def test_errors_of_labels_to_rank_by_are_reported(rank_by: Any, error: str) -> None:
    assert errors_of(rank_by=rank_by) == [error]


def test_an_event_counts_in_at_most_64_rankings() -> None:
    scopes = [[], *([f"l{i}"] for i in range(MAX_SCOPES - 1))]
    windows = [f"w{i}=hour" for i in range(MAX_RANKINGS // MAX_SCOPES)]
    Board("b", scopes=scopes, windows=windows)
    (error,) = errors_of(scopes=scopes, windows=windows, rank_by="l1")
    reason = "8 windows times 8 scopes and 1 labels in rank_by"
    assert error == f"expected at most 64 rankings for each event, got 72: {reason}"
    assert errors_of(scopes=[*scopes, ["more"]]) == ["expected 1 to 8 scopes, got 9"]


def test_all_faults_are_reported_at_once() -> None:
    reported = errors_of(scopes=[["a", "a"], ["i d"]], rank_by=["", "x", "x"], keep=0)
    assert len(reported) == 5


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
def test_existing_scopes_and_labels_cannot_be_removed(change: dict[str, Any]) -> None:
    with pytest.raises(UnsafeChange) as refused:
        safe_change(OLD, change)
    assert len(refused.value.reasons) == 1


def test_queries_take_labels_as_one_argument() -> None:
    """All labels together are one argument of a query. So a label may have any name, and an unknown
    option is still refused."""
    for surface in (Leaderboards, AsyncLeaderboards):
        verbs = 0
        for _, verb in inspect.getmembers(surface, inspect.isfunction):
            parameters = inspect.signature(verb).parameters
            if "by" in parameters:
                verbs += 1
                assert parameters["labels"].kind is inspect.Parameter.KEYWORD_ONLY
                assert all(each.kind is not each.VAR_KEYWORD for each in parameters.values())
        assert verbs == 13
