"""The order of a rolling window after steps have left it: the last value, the best value and the
ties of the remaining events."""

from __future__ import annotations

import pytest

import laurels
from laurels.model.board_fields import Tie
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, scores

THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""
LAPS = [laurels.Column("laps", op="best"), laurels.Column("seconds", op="best", order="asc")]


def rolling(
    lb: laurels.Leaderboards,
    columns: list[laurels.Column],
    hours: int = 3,
    tie: Tie = "first",
) -> None:
    """Create a board whose window has the longest possible grace and counts the last hours."""
    windows = [f"r=rolling:{hours}h/1h"]
    lb.create(laurels.Board("b", columns=columns, windows=windows, tie=tie, grace="1h"))


def hours_on(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, hours: int
) -> list[dict[str, object]]:
    """Return the scores now and after each of the next hours."""
    by_hour = [scores(lb.top("b"))]
    for _ in range(hours):
        clock.advance(HOUR)
        by_hour.append(scores(lb.top("b")))
    return by_hour


def test_the_last_value_stays_until_its_step_ends(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rolling(lb, [laurels.Column(op="last")])
    lb.submit("b", "ann", 5)
    clock.advance(HOUR)
    lb.submit("b", "ann", 3)
    late = {"ann": 3}
    assert hours_on(lb, clock, 3) == [late, late, late, {}]


def test_a_late_event_is_not_the_last_value_if_a_later_event_exists(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rolling(lb, [laurels.Column("level", op="last"), laurels.Column("xp")])
    lb.submit("b", "ann", (7, 100))
    clock.advance(HOUR)
    lb.submit("b", "ann", (6, 50))
    assert lb.submit("b", "ann", (9, 1), at=NOW_MS + 1).score == (6, 151)
    by_hour = hours_on(lb, clock, 3)
    assert by_hour == [{"ann": (6, 151)}, {"ann": (6, 151)}, {"ann": (6, 50)}, {}]


def test_best_falls_back_to_the_best_that_remains(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rolling(lb, [laurels.Column(op="best")])
    for value in (9, 4, 6):
        lb.submit_many("b", [("ann", value), ("bob", 5)])
        clock.advance(HOUR)
    assert scores(lb.top("b")) == {"ann": 6, "bob": 5}
    lb.submit("b", "ann", 2)
    assert hours_on(lb, clock, 3) == [
        {"ann": 6, "bob": 5},
        {"ann": 6, "bob": 5},
        {"ann": 2},
        {},
    ]


def test_best_falls_back_step_by_step(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    rolling(lb, [laurels.Column(op="best", order="asc")], hours=5)
    for value in (1, 2, 3, 4, 5):
        lb.submit("b", "ann", value)
        clock.advance(HOUR)
    by_hour = hours_on(lb, clock, 4)
    assert by_hour == [{"ann": 2}, {"ann": 3}, {"ann": 4}, {"ann": 5}, {}]


def test_best_shows_only_scores_of_single_events(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rolling(lb, LAPS)
    lb.submit_many("b", [("ann", (10, 61)), ("ann", (9, 40))])
    clock.advance(HOUR)
    lb.submit_many("b", [("ann", (9, 45)), ("ann", (8, 20))])
    clock.advance(HOUR)
    lb.submit_many("b", [("ann", (9, 50)), ("bob", (10, 61))])
    assert hours_on(lb, clock, 3) == [
        {"ann": (10, 61), "bob": (10, 61)},
        {"bob": (10, 61), "ann": (9, 45)},
        {"bob": (10, 61), "ann": (9, 50)},
        {},
    ]


def test_a_late_event_can_become_the_best_when_a_better_one_leaves(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rolling(lb, [laurels.Column(op="best")])
    lb.submit("b", "ann", 9)
    clock.advance(2 * HOUR)
    lb.submit("b", "ann", 3)
    receipt = lb.submit("b", "ann", 7, at=NOW_MS + HOUR)
    assert (receipt.status, receipt.score) == ("unchanged", 9)
    assert hours_on(lb, clock, 3) == [{"ann": 9}, {"ann": 7}, {"ann": 3}, {}]


@pytest.mark.parametrize(
    ("tie", "before", "after"),
    [("first", "ab", "ba"), ("last", "ba", "ab"), ("member", "ab", "ab")],
)
def test_a_best_was_reached_by_an_event_that_still_counts(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    tie: Tie,
    before: str,
    after: str,
) -> None:
    rolling(lb, [laurels.Column(op="best")], hours=2, tie=tie)
    for at_ms, member in ((THREE, "a"), (THREE + HOUR, "b"), (THREE + HOUR + 1, "a")):
        clock.set(max(clock.now_ms(), at_ms))
        lb.submit("b", member, 7, at=at_ms)
    assert members(lb.top("b")) == list(before)
    clock.set(THREE + 2 * HOUR)
    assert members(lb.top("b")) == list(after)


@pytest.mark.parametrize(("tie", "after"), [("first", "bac"), ("last", "cab"), ("member", "abc")])
def test_totals_made_equal_by_the_end_of_a_step_are_ordered_by_the_tie_rule(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, tie: Tie, after: str
) -> None:
    rolling(lb, [laurels.Column()], hours=2, tie=tie)
    lb.submit_many("b", [("a", 3), ("b", 1), ("c", -5)])
    clock.advance(HOUR)
    later = [("b", 5, 0), ("a", 4, 1), ("a", 1, 2), ("c", 5, 3)]
    lb.submit_many("b", [(m, value, clock.now_ms() - 9 + after_ms) for m, value, after_ms in later])
    assert members(lb.top("b")) == ["a", "b", "c"]
    assert scores(lb.top("b")) == {"a": 8, "b": 6, "c": 0}
    clock.set(THREE + 2 * HOUR)
    assert members(lb.top("b")) == list(after)
    assert set(scores(lb.top("b")).values()) == {5}


def test_rank_styles_hold_in_every_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    for style in ("competition", "dense"):
        lb.create(laurels.Board(style, rank=style, tie="member", windows=["r=rolling:2h/1h"]))
        lb.submit_many(style, [("a", 9), ("b", 9), ("c", 5), ("d", 5)])
    clock.advance(HOUR)
    for style in ("competition", "dense"):
        lb.submit_many(style, [("a", 2), ("c", 2), ("d", 1)])
    clock.advance(HOUR)
    for style, ranks in (("competition", [1, 1, 3]), ("dense", [1, 1, 2])):
        entries = lb.top(style).entries
        assert [(entry.member, entry.rank) for entry in entries] == list(
            zip("acd", ranks, strict=True)
        )
