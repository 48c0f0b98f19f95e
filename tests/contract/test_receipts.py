"""Receipts: each event of a batch has its own result, in the order of the events."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import BatchRefused
from tests.calendar_by_scanning import HOUR
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.reading import scores


def test_receipts_have_the_scores_before_and_after_each_event(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many("b", [("ann", 5), ("bob", 1), ("ann", -2), ("ann", 0)])
    steps = [(receipt.previous_score, receipt.score) for receipt in receipts]
    assert steps == [(None, 5), (None, 1), (5, 3), (3, 3)]
    assert [receipt.member for receipt in receipts] == ["ann", "bob", "ann", "ann"]


def test_receipts_have_the_ranks_before_and_after_the_commit(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 5), ("bob", 4)])
    receipts = lb.submit_many("b", [("bob", 3), ("cid", 9), ("ann", -4)], ranks=True)
    places = [(receipt.previous_rank, receipt.rank) for receipt in receipts]
    assert places == [(2, 2), (None, 1), (1, 3)]


def test_receipts_have_ranks_only_if_requested_or_for_one_event(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many("b", [("ann", 5), ("bob", 4)])
    assert all(receipt.rank is None for receipt in receipts)
    one = lb.submit("b", "bob", 4)
    assert (one.previous_rank, one.rank) == (2, 1)
    assert lb.submit_many("b", [("ann", 9)])[0].rank == 1


def test_ranks_follow_the_rank_style(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", rank="dense"))
    lb.submit_many("b", [("ann", 5), ("bob", 5), ("cid", 1)])
    receipt = lb.submit("b", "cid", 1)
    assert (receipt.previous_rank, receipt.rank) == (2, 2)


def test_receipts_report_the_requested_window(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "hour"]))
    lb.submit("b", "ann", 5)
    clock.advance(HOUR)
    receipt = lb.submit("b", "ann", 1, window="hour")
    assert (receipt.previous_score, receipt.score) == (None, 1)
    assert (receipt.window, receipt.period) == ("hour", "2026-11-20T16+00:00")
    assert lb.submit("b", "ann", 1).score == 7


def test_a_late_event_reports_the_period_it_fell_in(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["hour:grace=1h"]))
    lb.submit("b", "ann", 5)
    clock.advance(HOUR)
    lb.submit("b", "ann", 1)
    receipt = lb.submit("b", "ann", 2, at=NOW_MS)
    assert (receipt.previous_score, receipt.score) == (5, 7)
    assert receipt.period == "2026-11-20T15+00:00"


def test_an_event_without_effect_is_unchanged(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("best", columns=[laurels.Column(op="best")]))
    lb.create(laurels.Board("sum", tie="member"))
    lb.create(laurels.Board("tied"))
    for board, value in (("best", 3), ("sum", 0), ("tied", 0)):
        assert lb.submit(board, "ann", value).status == "applied"
        assert lb.submit(board, "ann", value).status == "unchanged"
    assert lb.submit("best", "ann", 2).status == "unchanged"
    assert lb.submit("best", "ann", 3, at=NOW_MS - 1).status == "applied"


def test_an_event_of_zero_changes_the_order_of_a_tie(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 1), ("bob", 1)])
    clock.advance(1)
    receipt = lb.submit("b", "ann", 0)
    assert receipt.status == "applied"
    assert (receipt.previous_rank, receipt.rank) == (1, 2)


def test_one_refused_event_does_not_refuse_its_batch(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    events = [("ann", 5), ("bob", "x"), ("", 1), ("cid", 1, NOW_MS + 60_000), ("dan",), ("eve", 2)]
    receipts = lb.submit_many("b", events)
    assert [receipt.reason or receipt.status for receipt in receipts] == [
        "applied",
        "invalid_value",
        "member_empty",
        "at_in_future",
        "invalid_event",
        "applied",
    ]
    assert (receipts.applied, receipts.refused, len(receipts)) == (2, 4, 6)
    assert scores(lb.top("b")) == {"ann": 5, "eve": 2}


@pytest.mark.one_shard
@pytest.mark.parametrize("bad", [("bob", "x"), ("bob", 11), ("bob", 1, NOW_MS - 90 * 24 * HOUR)])
def test_an_all_or_nothing_batch_with_a_refused_event_counts_nothing(
    lb: laurels.Leaderboards, bad: tuple[object, ...]
) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(max=10)], windows=["day"]))
    lb.submit_many("b", [("ann", 1), ("bob", 1)])
    before = everything(lb)
    batch = [("ann", 2, None, "x"), bad, ("cid", 3)]
    with pytest.raises(BatchRefused) as refused:
        lb.submit_many("b", batch, all_or_nothing=True)
    statuses = [receipt.status for receipt in refused.value.receipts]
    assert len(statuses) == 3
    assert statuses[1] == "refused"
    assert everything(lb) == before
    assert lb.submit("b", "ann", 2, id="x").status == "applied"


def test_an_all_or_nothing_batch_counts_if_no_event_is_refused(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many(
        "b", [("ann", 2, None, "x"), ("ann", 2, None, "x")], all_or_nothing=True
    )
    assert [receipt.status for receipt in receipts] == ["applied", "duplicate"]
    assert scores(lb.top("b")) == {"ann": 2}


def test_events_may_have_many_forms(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    forms = [
        ("ann", 1),
        ["ann", 2, NOW_MS],
        {"member": "ann", "value": 3},
        {"member": "ann", "value": "4", "at": None, "id": "i"},
        laurels.Event("ann", 5),
    ]
    assert [receipt.score for receipt in lb.submit_many("b", iter(forms))] == [1, 3, 6, 10, 15]


def test_receipts_are_a_sequence(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many("b", [(f"m{i}", i) for i in range(5)])
    assert receipts[-1].member == "m4"
    assert [receipt.member for receipt in receipts[1:3]] == ["m1", "m2"]
    with pytest.raises(IndexError):
        receipts[5]
    empty = lb.submit_many("b", [])
    assert len(empty) == empty.applied == 0
