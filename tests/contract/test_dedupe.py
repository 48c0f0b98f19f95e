"""An event with an id counts once per board, member and id, within `dedupe`."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import DedupeFull, TooLate, TotalOutOfRange
from tests.calendar_by_scanning import HOUR
from tests.contract.conftest import NOW_MS
from tests.contract.reading import scores


def test_a_repeated_id_is_a_duplicate_without_effect(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    first = lb.submit("b", "ann", 5, id="x")
    again = lb.submit("b", "ann", 7, id="x")
    assert (first.status, again.status) == ("applied", "duplicate")
    assert (again.previous_score, again.score, again.rank) == (5, 5, 1)
    assert scores(lb.top("b")) == {"ann": 5}


def test_the_same_id_counts_for_each_member_and_board(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.create(laurels.Board("c"))
    receipts = lb.submit_many("b", [("ann", 1, None, "x"), ("bob", 1, None, "x")])
    assert receipts.applied == 2
    assert lb.submit("c", "ann", 1, id="x").status == "applied"
    assert lb.submit_many("b", [("a", 1, None, "nnx"), ("an", 1, None, "nx")]).applied == 2


def test_a_repeated_id_within_a_batch_is_a_duplicate(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    receipts = lb.submit_many(
        "b", [("ann", 1, None, "x"), ("ann", 2, None, "y"), ("ann", 4, None, "x")]
    )
    assert [receipt.status for receipt in receipts] == ["applied", "applied", "duplicate"]
    assert [receipt.score for receipt in receipts] == [1, 3, 3]


def test_an_id_is_forgotten_after_dedupe(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", dedupe="1h"))
    lb.submit("b", "ann", 1, at=NOW_MS - HOUR, id="x")
    clock.advance(HOUR - 1)
    assert lb.submit("b", "ann", 1, id="x").status == "duplicate"
    clock.advance(1)
    assert lb.submit("b", "ann", 1, id="x").status == "applied"
    clock.advance(HOUR - 1)
    assert lb.submit("b", "ann", 1, id="x").status == "duplicate"


def test_a_refused_event_does_not_use_up_its_id(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["day"], columns=[laurels.Column(max=10)]))
    with pytest.raises(TooLate):
        lb.submit("b", "ann", 1, at=NOW_MS - 48 * HOUR, id="x")
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 11, id="x")
    assert lb.submit("b", "ann", 10, id="x").status == "applied"
    assert lb.stats("b").remembered == 1


def test_a_full_table_refuses_new_ids_and_forgets_none_early(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", dedupe_max=2, dedupe="1h"))
    lb.submit("b", "ann", 1, id="x")
    clock.advance(HOUR // 2)
    lb.submit("b", "ann", 1, id="y")
    with pytest.raises(DedupeFull) as refused:
        lb.submit("b", "ann", 1, id="z")
    assert refused.value.retryable
    assert lb.submit("b", "ann", 1, id="x").status == "duplicate"
    assert lb.submit("b", "ann", 1).status == "applied"
    clock.advance(HOUR // 2)
    assert lb.submit("b", "ann", 1, id="z").status == "applied"
    assert scores(lb.top("b")) == {"ann": 4}


def test_an_id_table_may_become_full_within_a_batch(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", dedupe_max=2))
    events = [("ann", 1, None, id) for id in ("x", "x", "y", "z", None, "y")]
    receipts = lb.submit_many("b", events)
    assert [receipt.reason or receipt.status for receipt in receipts] == [
        "applied",
        "duplicate",
        "applied",
        "dedupe_full",
        "applied",
        "duplicate",
    ]


def test_removing_a_member_keeps_its_ids(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 5, id="x")
    lb.remove("b", "ann")
    assert lb.submit("b", "ann", 5, id="x").status == "duplicate"
    assert lb.top("b").total == 0


def test_a_recreated_board_remembers_no_ids(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 5, id="x")
    lb.delete("b")
    lb.create(laurels.Board("b"))
    assert lb.top("b").total == 0
    assert lb.submit("b", "ann", 5, id="x").status == "applied"


def test_a_batch_key_stands_for_the_ids_of_its_events(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    events = [("ann", 1), ("ann", 1), ("bob", 2)]
    assert lb.submit_many("b", events, key="job-7").applied == 3
    assert lb.submit_many("b", events, key="job-7").duplicates == 3
    assert lb.submit("b", "ann", 1, id="job-7#1").status == "duplicate"
    assert lb.submit_many("b", events, key="job-8").applied == 3


def test_a_batch_key_numbers_events_by_their_position_in_the_batch(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b"))
    first = lb.submit_many("b", [("", 1), ("ann", 1), ("ann", 2, None, "own")], key="k")
    assert [receipt.status for receipt in first] == ["refused", "applied", "applied"]
    again = lb.submit_many("b", [("bob", 1), ("ann", 1), ("ann", 2, None, "own")], key="k")
    assert [receipt.status for receipt in again] == ["applied", "duplicate", "duplicate"]
    assert lb.submit("b", "ann", 2, id="own").status == "duplicate"
    assert lb.submit("b", "ann", 2, id="k#2").status == "applied"
