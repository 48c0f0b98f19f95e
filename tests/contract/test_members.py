"""Setting a score directly, the data of a member, and removing a member."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import DataMoved, NoAllWindow, SetWithTime, TotalOutOfRange
from laurels.model.rules import Op
from tests.contract.conftest import NOW_MS
from tests.contract.reading import members, scores

DAY = 86_400_000


def test_set_sets_the_total_and_adds_the_difference_to_periods(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit("b", "ann", 30)
    clock.advance(DAY)
    lb.submit("b", "ann", 5)
    receipt = lb.set("b", "ann", 50)
    assert (receipt.previous_score, receipt.score) == (35, 50)
    assert scores(lb.top("b", window="day")) == {"ann": 20}
    assert lb.set("b", "ann", 10).score == 10
    assert scores(lb.top("b", window="day")) == {"ann": -20}


def test_set_adds_a_member_to_a_board(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.set("b", "ann", 0).status == "applied"
    assert scores(lb.top("b")) == {"ann": 0}


def test_a_repeated_set_with_an_id_counts_once(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 5, NOW_MS - 5), ("bob", 7, NOW_MS - 2)])
    lb.set("b", "ann", 7, id="x")
    assert members(lb.top("b")) == ["bob", "ann"]
    assert lb.set("b", "ann", 9, id="x").status == "duplicate"
    assert lb.submit("b", "ann", 9, id="x").status == "duplicate"


def test_a_total_cannot_be_set_as_of_a_time(lb: laurels.Leaderboards) -> None:
    """In clock time, a total that is set has the current time. If callers could choose the time, an
    older total that arrives later would replace a newer one."""
    lb.create(laurels.Board("b"))
    with pytest.raises(SetWithTime, match="op last"):
        lb.set("b", "ann", 7, at=NOW_MS - 1)
    assert lb.top("b").total == 0


def test_set_on_a_sum_needs_the_window_all(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["day"]))
    with pytest.raises(NoAllWindow):
        lb.set("b", "ann", 5)
    assert lb.top("b").total == 0


def test_set_on_last_and_best_columns_is_an_ordinary_event(lb: laurels.Leaderboards) -> None:
    ops: list[Op] = ["last", "best"]
    for op in ops:
        lb.create(laurels.Board(op, columns=[laurels.Column(op=op)], windows=["day"]))
        lb.set(op, "ann", 5)
        lb.set(op, "ann", 3, at=NOW_MS - 1)
        assert scores(lb.top(op)) == {"ann": 5}


def test_set_applies_to_each_column_by_its_operator(lb: laurels.Leaderboards) -> None:
    columns = [laurels.Column("sum"), laurels.Column("last", op="last")]
    lb.create(laurels.Board("b", columns=columns))
    lb.submit("b", "ann", (5, 1))
    lb.set("b", "ann", (7, 2))
    assert scores(lb.top("b")) == {"ann": (7, 2)}


def test_set_beyond_the_bounds_is_refused(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(min=0, max=10)]))
    lb.set("b", "ann", 10)
    with pytest.raises(TotalOutOfRange):
        lb.set("b", "ann", 11)
    assert scores(lb.top("b")) == {"ann": 10}


def test_a_removed_member_is_in_no_ranking(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [("ann", 1), ("bob", 1)])
    clock.advance(DAY)
    lb.submit("b", "ann", 1)
    lb.set_data("b", "ann", {"name": "Ann"})
    assert lb.remove("b", "ann") is True
    assert members(lb.top("b")) == ["bob"]
    assert lb.top("b", window="day").total == 0
    assert members(lb.top("b", window="day", period="2026-11-20")) == ["bob"]
    assert lb.remove("b", "ann") is False
    lb.submit("b", "ann", 4)
    standing = lb.standing("b", "ann", with_data=True)
    assert standing is not None
    assert (standing.score, standing.data) == (4, None)


@pytest.mark.parametrize("data", [{"name": "Zoë", "n": [1, None, True]}, "x", 7, [], "é" * 511])
def test_a_member_carries_data_that_is_never_ranked(lb: laurels.Leaderboards, data: Any) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 2), ("bob", 1)])
    lb.set_data("b", "bob", data)
    assert [entry.data for entry in lb.top("b", with_data=True).entries] == [None, data]
    assert [entry.data for entry in lb.top("b").entries] == [None, None]
    assert [entry.data for entry in lb.export("b", with_data=True)] == [None, data]
    standing = lb.standing("b", "bob", with_data=True)
    around = lb.around("b", "bob", with_data=True)
    assert standing is not None
    assert around is not None
    assert standing.data == around.entries[1].data == data
    assert lb.standings("b", ["bob"], with_data=True).entries[0].data == data
    assert lb.range("b", high=1, with_data=True).entries[0].data == data
    second = lb.at_rank("b", 2, with_data=True)
    assert second is not None
    assert second.data == data
    lb.set_data("b", "bob", None)
    assert [entry.data for entry in lb.top("b", with_data=True).entries] == [None, None]
    assert members(lb.top("b")) == ["ann", "bob"]


def test_set_data_with_before_requires_the_current_data(lb: laurels.Leaderboards) -> None:
    """`set_data` with `before` is refused unless the member has that data, whether or not it is
    ranked."""
    lb.create(laurels.Board("b", changes="1d"))
    lb.submit("b", "ann", 5)
    for member in ("ann", "bob"):
        lb.set_data("b", member, {"n": 1}, before=None)
        for wrong in (None, {"n": 2}, [1]):
            with pytest.raises(DataMoved):
                lb.set_data("b", member, "other", before=wrong)
        lb.set_data("b", member, [2], before={"n": 1})
    entries = lb.entries("b", ["bob", "ann", "cid"], with_data=True)
    assert [(e.member, e.score, e.data) for e in entries] == [
        ("bob", None, [2]),
        ("ann", 5, [2]),
        ("cid", None, None),
    ]
    assert [entry.data for entry in lb.entries("b", ["ann"])] == [None]
    lb.set_data("b", "bob", None, before=[2])
    lb.set_data("b", "bob", None, before=None)
    kinds = [change.data for change in lb.changes("b") if change.kind == "data"]
    assert kinds == [{"n": 1}, [2], {"n": 1}, [2], None, None]
    assert lb.entries("b", ["bob"], with_data=True)[0].data is None
