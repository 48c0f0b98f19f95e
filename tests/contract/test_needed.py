"""`needed` returns the value that takes a member to a position: an event with this value reaches
the position, and no event with a smaller value does."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import LaurelsError, TotalOutOfRange
from laurels.model.board_fields import Tie
from tests.calendar_by_scanning import HOUR
from tests.comparison import board_of
from tests.contract.conftest import NOW_MS
from tests.definitions import Definition, Report, Scope
from tests.oracle import Oracle
from tests.stateful.choices import COMBINATIONS, MEMBERS, column, number
from tests.stateful.needs import Needs

# Tests also submit a smaller value, as the only event of a batch. If it is refused, laurels warns
# that every event of the batch was refused.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

DAY = 24 * HOUR
LIMIT = 2**53 - 1
FIVE = [("ann", 50), ("bob", 40), ("cid", 40), ("dan", 20), ("eve", 10)]


def value(needed: laurels.Needed | None) -> Any:
    assert needed is not None
    assert not needed.unreachable
    return needed.value


def unreachable(needed: laurels.Needed | None) -> bool:
    assert needed is not None
    assert needed.unreachable == (needed.value is None)
    return needed.unreachable


@pytest.fixture
def five(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [(m, v, NOW_MS - 9 + i) for i, (m, v) in enumerate(FIVE)])
    return lb


def test_a_tie_is_not_enough_if_the_first_to_reach_a_score_is_ahead(
    five: laurels.Leaderboards,
) -> None:
    assert value(five.needed("b", "eve", 3)) == 31
    assert value(five.needed("b", "eve", 1)) == 41
    assert value(five.needed("b", "eve", 4)) == 11
    assert five.needed("b", "eve", 5) is None
    assert five.needed("b", "ann", 1) is None
    assert five.submit("b", "eve", 30).rank == 4
    assert five.submit("b", "eve", 1).rank == 2


@pytest.mark.parametrize(("tie", "needed"), [("first", 31), ("last", 30), ("member", 30)])
def test_the_tie_rule_decides_if_an_equal_score_is_enough(
    lb: laurels.Leaderboards, tie: Tie, needed: int
) -> None:
    lb.create(laurels.Board("b", tie=tie))
    lb.submit_many("b", [("zoe", 40, NOW_MS - 9), ("ann", 10, NOW_MS - 8)])
    assert value(lb.needed("b", "ann", 1)) == needed
    assert lb.submit("b", "ann", needed).rank == 1


def test_an_event_of_zero_can_be_enough(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", tie="last"))
    lb.submit_many("b", [("ann", 5, NOW_MS - 2), ("bob", 5, NOW_MS - 1)])
    assert value(lb.needed("b", "ann", 1)) == 0
    assert lb.submit("b", "ann", 0).rank == 1


def test_the_needed_value_of_an_ascending_column_is_negative(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(order="asc", scale=2)]))
    lb.submit_many("b", [("ann", "1.50", NOW_MS - 1), ("bob", "4", NOW_MS - 1)])
    assert value(lb.needed("b", "bob", 1)) == Decimal("-2.51")
    assert value(lb.needed("b", "cid", 2)) == 0
    assert lb.submit("b", "bob", "-2.51").rank == 1


def test_a_member_without_a_score_begins_at_zero(five: laurels.Leaderboards) -> None:
    assert value(five.needed("b", "new", 5)) == 11
    assert value(five.needed("b", "new", 6)) == 0
    assert value(five.needed("b", "new", 99)) == 0
    standing = five.standing("b", "new", to_rank=5)
    assert standing is None


def test_a_new_member_needs_at_least_the_least_total(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(min=5, max=50)]))
    assert value(lb.needed("b", "new", 3)) == 5
    assert lb.submit("b", "new", 5).rank == 1
    clock.advance(1)
    assert value(lb.needed("b", "ann", 1)) == 6
    lb.submit("b", "new", 45)
    clock.advance(1)
    assert unreachable(lb.needed("b", "ann", 1))


@pytest.mark.parametrize(
    ("op", "order", "needed"),
    [("last", "desc", 41), ("last", "asc", 39), ("best", "desc", 41), ("best", "asc", 39)],
)
def test_the_needed_value_of_best_and_last_is_the_least_demanding(
    lb: laurels.Leaderboards, op: Any, order: Any, needed: int
) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(op=op, order=order, min=0, max=99)]))
    worse = 10 if order == "desc" else 90
    lb.submit_many("b", [("ann", 40, NOW_MS - 9), ("bob", worse, NOW_MS - 8)])
    assert value(lb.needed("b", "bob", 1)) == needed
    assert value(lb.needed("b", "new", 1)) == needed
    assert value(lb.needed("b", "new", 3)) == (0 if order == "desc" else 99)
    assert lb.submit("b", "bob", needed).rank == 1


def test_other_columns_stay_as_they_are(lb: laurels.Leaderboards) -> None:
    columns = [laurels.Column("level", op="last"), laurels.Column("xp")]
    lb.create(laurels.Board("b", columns=columns))
    lb.submit_many("b", [("ann", (7, 100), NOW_MS - 3), ("bob", (7, 60), NOW_MS - 2)])
    lb.submit("b", "cid", (3, 500), at=NOW_MS - 1)
    assert value(lb.needed("b", "bob", 1)) == (8, 0)
    assert value(lb.needed("b", "bob", 1, column="xp")) == (7, 41)
    assert value(lb.needed("b", "cid", 1)) == (7, 0)
    assert unreachable(lb.needed("b", "cid", 1, column="xp"))
    with pytest.raises(LaurelsError) as refused:
        lb.needed("b", "bob", 1, column="gold")
    assert (refused.value.code, refused.value.status) == ("unknown_column", 404)


def test_the_needed_value_respects_the_range_of_every_window(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    column = laurels.Column(min=0, max=100)
    lb.create(laurels.Board("b", columns=[column], windows=["day", "all"]))
    lb.submit_many("b", [("ann", 90), ("bob", 10)])
    clock.advance(DAY)
    lb.submit("b", "bob", 20)
    clock.advance(1)
    assert lb.needed("b", "ann", 1, window="all") is None
    assert unreachable(lb.needed("b", "ann", 1, window="day"))
    assert value(lb.needed("b", "bob", 1, window="all")) == 61
    lb.create(laurels.Board("c", columns=[column], windows=["day"]))
    lb.submit("c", "bob", 20)
    clock.advance(1)
    assert value(lb.needed("c", "ann", 1)) == 21


def test_the_needed_value_respects_the_range_of_a_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    column = laurels.Column(min=-30, max=30)
    lb.create(laurels.Board("b", columns=[column], windows=["3d=rolling:3d/1d"]))
    lb.submit_many("b", [("ann", 9), ("bob", 1)])
    clock.advance(DAY)
    lb.submit_many("b", [("ann", 3), ("bob", 4)])
    # bob needs 8 more, but then his total in this step would be 12, and a step may have at most 10
    assert unreachable(lb.needed("b", "bob", 1))
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "bob", 8)
    clock.advance(DAY)
    assert value(lb.needed("b", "bob", 1)) == 8
    assert lb.submit("b", "bob", 8).rank == 1


def test_needed_with_labels_is_about_an_event_with_these_labels(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    columns = [laurels.Column(max=100)]
    lb.create(laurels.Board("b", columns=columns, scopes=[[], ["room"]]))
    room, other = {"room": 'a/"b"'}, {"room": "2"}
    lb.submit("b", "ann", 60, labels=room)
    lb.submit("b", "bob", 70, labels=other)
    clock.advance(1)
    assert unreachable(lb.needed("b", "bob", 1, labels=room))
    assert value(lb.needed("b", "cid", 1, labels=room)) == 61
    assert value(lb.needed("b", "ann", 1)) == 11
    assert value(lb.needed("b", "ann", 1, labels={"room": "empty"})) == 0


@pytest.mark.one_shard
def test_the_total_of_a_label_has_a_range_too(lb: laurels.Leaderboards) -> None:
    board = laurels.Board("b", columns=[laurels.Column(max=10)], scopes=[["room"]], rank_by="room")
    lb.create(board)
    lb.submit("b", "ann", 6, labels={"room": "1"})
    assert unreachable(lb.needed("b", "bob", 1, labels={"room": "1"}))
    lb.submit("b", "ann", -3, labels={"room": "1"})
    assert value(lb.needed("b", "bob", 1, labels={"room": "1"})) == 4


def test_a_window_with_refresh_is_refused(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["30d=rolling:30d/1d,refresh=1h", "all"]
    lb.create(laurels.Board("b", windows=windows, columns=[laurels.Column(max=60)]))
    lb.submit_many("b", [("ann", 2), ("bob", 1)])
    clock.advance(HOUR)
    lb.submit("b", "ann", 0)
    with pytest.raises(LaurelsError) as refused:
        lb.needed("b", "bob", 1)
    assert (refused.value.code, refused.value.status) == ("not_live", 409)
    standing = lb.standing("b", "bob", to_rank=1)
    assert standing is not None
    assert (standing.to_rank, standing.needed) == (laurels.Gap(1, 1), None)
    # The range also bounds the steps of this window: a total of at most 60 over 30 steps allows 2
    # for each step.
    assert unreachable(lb.needed("b", "bob", 1, window="all"))
    clock.advance(DAY)
    assert value(lb.needed("b", "bob", 1, window="all")) == 2


def test_the_needed_value_of_a_decay_window_counts_in_full(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(
        laurels.Board("b", windows=["hot=decay:6h", "all"], columns=[laurels.Column(scale=1)])
    )
    lb.submit("b", "ann", 100)
    clock.advance(6 * HOUR)
    assert value(lb.needed("b", "bob", 1)) == Decimal("50.1")
    assert value(lb.needed("b", "bob", 1, window="all")) == Decimal("100.1")
    card = lb.card("b", "ann", to_rank=1)
    assert all(standing is not None and standing.needed is None for standing in card.values())
    lb.submit("b", "bob", "50.0")
    by_window = lb.card("b", "bob", to_rank=1)
    assert [each and value(each.needed) for each in by_window.values()] == [
        Decimal("0.1"),
        Decimal("50.1"),
    ]
    assert lb.submit("b", "bob", "0.1").rank == 1


def test_a_value_beyond_the_range_of_one_event_is_unreachable(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", LIMIT, NOW_MS - 1), ("bob", -1)])
    assert unreachable(lb.needed("b", "bob", 1))
    lb.submit("b", "ann", -1)
    assert unreachable(lb.needed("b", "bob", 1))
    lb.submit("b", "ann", -1)
    assert value(lb.needed("b", "bob", 1)) == LIMIT


def test_past_periods_and_rankings_of_labels_have_no_needed_value(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["day"], rank_by="room"))
    lb.submit_many(
        "b", [("ann", 2, None, None, {"room": "1"}), ("bob", 1, None, None, {"room": "2"})]
    )
    by = lb.standing("b", "2", by="room", to_rank=1)
    assert by is not None
    assert (by.to_rank, by.needed) == (laurels.Gap(1, 1), None)
    clock.advance(DAY)
    past = lb.standing("b", "bob", period="2026-11-20", to_rank=1)
    assert past is not None
    assert (past.to_rank, past.needed) == (laurels.Gap(1, 1), None)


@pytest.mark.parametrize("rank", [0, -1, 1.5, "x", None])
def test_only_a_position_is_a_rank(five: laurels.Leaderboards, rank: Any) -> None:
    with pytest.raises(LaurelsError) as refused:
        five.needed("b", "eve", rank)
    assert refused.value.code == "invalid_rank"


def test_needed_agrees_with_trial_events(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    """For random boards of every kind of column and tie rule, compare the answers with the oracle,
    and submit the value that each answer names."""
    rng = Random(20)
    for i, (shape, tie, rank) in enumerate(rng.sample(COMBINATIONS, 12)):
        columns = tuple(column(rng, j, *part) for j, part in enumerate(shape))
        definition = Definition(f"b{i}", columns, tie, rank=rank)
        lb.create(board_of(definition))
        oracle = Oracle(clock.now_ms)
        oracle.create(definition)
        for _ in range(12):
            values = [number(rng, each) for each in columns]
            report = Report(
                rng.choice(MEMBERS), tuple(values), clock.now_ms() - rng.choice([0, 0, 1, 2])
            )
            lb.submit_many(definition.name, [(report.member, report.value, report.at)])
            oracle.submit_many(definition.name, [report])
        for _ in range(6):
            at = rng.randrange(len(columns))
            member, aim = rng.choice(MEMBERS), rng.randint(1, 8)
            Needs(lb, oracle, definition.name, None, Scope(), member, aim, at).check(rng)
        clock.advance(rng.choice([0, 1, 5]))
        needed = lb.needed(definition.name, member, aim)
        if needed is not None and needed.value is not None:
            lb.submit(definition.name, member, needed.value)
            assert lb.needed(definition.name, member, aim) is None
