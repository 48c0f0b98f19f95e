"""Scopes: an event counts once in every scope whose labels it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors import AllEventsRefused, BatchRefused, LaurelsError, TotalOutOfRange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.contract.reading import members, ranks, scores
from tests.contract.scoped import ODD, anything, code_of

DAY = 24 * HOUR


# Counting


def test_an_event_counts_in_every_scope_it_has_the_labels_for(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "ann", 5, labels={"room": "1", "zone": "n"})
    rooms.submit("b", "bob", 7, labels={"room": "1"})
    rooms.submit("b", "cid", 1)
    assert scores(rooms.top("b")) == {"bob": 7, "ann": 5, "cid": 1}
    assert scores(rooms.top("b", labels={"room": "1"})) == {"bob": 7, "ann": 5}
    assert scores(rooms.top("b", labels={"zone": "n", "room": "1"})) == {"ann": 5}
    assert scores(rooms.top("b", window="day", labels={"room": "1"})) == {"bob": 7, "ann": 5}
    assert scores(rooms.top("b", labels={"room": "2"})) == {}


def test_ranking_by_a_label_ranks_its_values(rooms: laurels.Leaderboards) -> None:
    events = [("ann", 5, "1"), ("bob", 7, "2"), ("ann", 4, "1"), ("cid", 100, None)]
    rooms.submit_many("b", [(m, v, None, None, {"room": room}) for m, v, room in events])
    assert scores(rooms.top("b", by="room")) == {"1": 9, "2": 7}
    standing = rooms.standing("b", "2", by="room")
    assert standing is not None
    assert (standing.rank, standing.above and standing.above.member) == (2, "1")
    assert (standing.as_of.labels, standing.as_of.by) == ({}, "room")


def test_every_form_of_an_event_can_have_labels(rooms: laurels.Leaderboards) -> None:
    events = [
        ("ann", 1, None, None, {"room": "1", "zone": None}),
        {"member": "ann", "value": 1, "labels": {"room": "1"}},
        laurels.Event("ann", 1, labels={"room": "1"}),
        ["ann", "1", NOW_MS, "id", {"room": "1"}],
    ]
    assert rooms.submit_many("b", events).applied == 4
    assert scores(rooms.top("b", labels={"room": "1"})) == {"ann": 4}


def test_odd_values_have_scopes_of_their_own(rooms: laurels.Leaderboards) -> None:
    for i, value in enumerate(ODD):
        rooms.submit("b", f"m{i}", i, labels={"room": value, "zone": value})
    for i, value in enumerate(ODD):
        page = rooms.top("b", labels={"room": value})
        assert (members(page), page.as_of.labels) == ([f"m{i}"], {"room": value})
        assert members(rooms.top("b", labels={"room": value, "zone": value})) == [f"m{i}"]
    assert sorted(scope["room"] for scope in rooms.scopes("b", "room")) == sorted(ODD)
    assert set(members(rooms.top("b", by="room", limit=99))) == set(ODD)


def test_a_total_out_of_range_in_one_scope_refuses_the_event_in_all_scopes(
    lb: laurels.Leaderboards,
) -> None:
    column = laurels.Column(min=0)
    lb.create(laurels.Board("b", columns=[column], scopes=[[], ["room"]], windows=["all", "day"]))
    lb.submit("b", "ann", 5, labels={"room": "1"})
    before = everything(lb)
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", -3, id="x", labels={"room": "2"})
    assert everything(lb) == before
    assert lb.scopes("b", "room") == [{"room": "1"}]
    assert lb.submit("b", "ann", -3, id="x", labels={"room": "1"}).status == "applied"
    assert scores(lb.top("b")) == scores(lb.top("b", labels={"room": "1"})) == {"ann": 2}


@pytest.mark.one_shard
def test_a_value_of_a_label_has_a_range_too(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", columns=[laurels.Column(max=10)], rank_by=["room"]))
    lb.submit("b", "ann", 6, labels={"room": "1"})
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "bob", 6, labels={"room": "1"})
    lb.submit("b", "bob", 6, labels={"room": "2"})
    assert scores(lb.top("b")) == {"ann": 6, "bob": 6}


@pytest.mark.one_shard
def test_an_all_or_nothing_batch_is_refused_in_all_scopes(rooms: laurels.Leaderboards) -> None:
    rooms.create(laurels.Board("c", columns=[laurels.Column(min=0)], scopes=[[], ["room"]]))
    rooms.submit("c", "ann", 9, labels={"room": "1"})
    before = everything(rooms)
    batch = [
        ("bob", 1, None, "x", {"room": "2"}),
        ("ann", 1, None, "y", {"room": "1"}),
        ("ann", -1, None, "z", {"room": "3"}),
    ]
    with pytest.raises(BatchRefused):
        rooms.submit_many("c", batch, all_or_nothing=True)
    assert everything(rooms) == before
    assert rooms.scopes("c", "room") == [{"room": "1"}]
    assert rooms.submit_many("c", batch).applied == 2


def test_an_id_counts_once_with_any_labels(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "ann", 5, id="x", labels={"room": "1"})
    again = rooms.submit("b", "ann", 5, id="x", labels={"room": "2"})
    assert (again.status, again.score) == ("duplicate", 5)
    assert rooms.scopes("b", "room") == [{"room": "1"}]
    assert scores(rooms.top("b", by="room")) == {"1": 5}


def test_a_window_that_refuses_a_late_event_refuses_it_in_every_scope(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", windows=["hour", "all"], scopes=[[], ["room"]], rank_by="room"))
    late_ms = NOW_MS - 40 * MINUTE
    receipts = lb.submit_many("b", [("ann", 1, late_ms, None, {"room": "1"}), ("ann", 1, late_ms)])
    assert [receipt.refused_windows for receipt in receipts] == [("hour",), ("hour",)]
    assert receipts.late == {"hour": 2}
    earlier = "2026-11-20T14+00:00"
    assert lb.count("b", period=earlier) == lb.count("b", period=earlier, labels={"room": "1"}) == 0
    assert scores(lb.top("b", window="all", labels={"room": "1"})) == {"ann": 1}


def test_an_event_that_every_window_refuses_is_too_late(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["hour"], scopes=[["room"]]))
    with pytest.warns(AllEventsRefused):
        receipts = lb.submit_many("b", [("ann", 1, NOW_MS - DAY, "x", {"room": "1"})])
    assert (receipts[0].status, receipts[0].reason) == ("refused", "too_late")
    assert lb.scopes("b", "room") == []
    assert lb.submit("b", "ann", 1, id="x", labels={"room": "1"}).status == "applied"


def test_a_batch_over_many_rooms_is_one_commit(rooms: laurels.Leaderboards) -> None:
    batch = [(f"m{i % 7}", 1, None, None, {"room": str(i % 200)}) for i in range(1_000)]
    assert rooms.submit_many("b", batch).applied == 1_000
    listed = rooms.scopes("b", "room")
    assert listed == [{"room": room} for room in sorted(map(str, range(200)))]
    pages = [rooms.top("b", labels={"room": scope["room"]}) for scope in listed]
    assert {sum(anything(scores(page)).values()) for page in pages} == {5}
    assert ranks(rooms.top("b", by="room", limit=3)) == [1, 2, 3]
    assert rooms.count("b", by="room", low=5, high=5) == 200
    rooms.check()


def test_scores_decay_in_every_scope(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["hot=decay:1h"], scopes=[["room"]], rank_by="room"))
    lb.submit("b", "ann", 8, labels={"room": "1"})
    clock.advance(HOUR)
    lb.submit("b", "bob", 5, labels={"room": "1"})
    assert {
        name: float(str(v)) for name, v in scores(lb.top("b", labels={"room": "1"})).items()
    } == {
        "bob": 5,
        "ann": 4,
    }
    assert float(str(scores(lb.top("b", by="room"))["1"])) == 9
    lb.check()


def test_each_event_keeps_its_labels_in_event_time(
    implementation: Implementation, tmp_path: Path
) -> None:
    with Deployment(implementation, tmp_path, "event") as deployment:
        lb = deployment.lb
        lb.create(laurels.Board("b", windows=["hour", "all"], scopes=[["room"]], keep=9))
        hours = [NOW_MS + i * HOUR for i in (0, 0, 1, 2)]
        batch = [("ann", 1, at, None, {"room": str(i)}) for i, at in enumerate(hours)]
        assert lb.submit_many("b", batch).applied == 4
        rooms = {
            i: [p.total for p in lb.periods("b", "hour", labels={"room": str(i)})] for i in range(4)
        }
        assert rooms[0][:3] == rooms[1][:3] == [0, 0, 1]
        assert (rooms[2][:3], rooms[3][:3]) == ([0, 1, 0], [1, 0, 0])
        lb.check()


# Refusals


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({"nope": "1"}, "unknown_label"),
        ({"room": "1", "nope": None}, "unknown_label"),
        ({7: "1"}, "unknown_label"),
        ({"room": ""}, "invalid_label"),
        ({"room": "x" * 129}, "invalid_label"),
        ({"room": "é" * 65}, "invalid_label"),
        ({"room": "\ud800"}, "invalid_label"),
        ({"room": 42}, "invalid_label"),
        ({"room": ["1"]}, "invalid_label"),
        ({"room": b"1"}, "invalid_label"),
        (["room"], "invalid_label"),
        ("room=1", "invalid_label"),
        (7, "invalid_label"),
    ],
)
def test_invalid_labels_are_refused_with_their_own_errors(
    rooms: laurels.Leaderboards, labels: object, code: str
) -> None:
    with pytest.raises(LaurelsError) as refused:
        rooms.submit("b", "ann", 1, labels=anything(labels))
    assert code_of(refused) == code
    receipts = rooms.submit_many("b", [("ann", 1, None, None, labels), ("bob", 1)])
    assert [(r.member, r.reason) for r in receipts] == [("ann", code), ("bob", None)]
    assert members(rooms.top("b")) == ["bob"]


@pytest.mark.parametrize("labels", [None, {}, {"zone": "n"}, {"room": None}])
def test_an_event_that_fits_no_scope_is_refused(
    lb: laurels.Leaderboards, labels: dict[str, str] | None
) -> None:
    lb.create(laurels.Board("b", scopes=[["room"], ["room", "zone"]]))
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", 1, labels=labels)
    assert code_of(refused) == "no_scope"
    with pytest.warns(AllEventsRefused):
        receipts = lb.submit_many("b", [("ann", 1, None, None, labels), ("ann", 2)])
    assert [receipt.reason for receipt in receipts] == ["no_scope", "no_scope"]


def test_undefined_labels_are_left_out_if_the_board_allows_it(
    lb: laurels.Leaderboards,
) -> None:
    definition = laurels.Board("b", scopes=[[], ["room"]], labels="ignore")
    assert lb.create(definition).labels == "ignore"
    receipts = lb.submit_many(
        "b",
        [
            ("ann", 1, None, None, {"room": "1", "colour": "red"}),
            ("bob", 2, None, None, {"colour": "red"}),
            ("cid", 3, None, None, {"room": "1", "colour": "blue", "": None}),
            ("dan", 4, None, None, {"room": "", "colour": "red"}),
        ],
    )
    assert [r.reason for r in receipts] == [None, None, None, "invalid_label"]
    assert members(lb.top("b")) == ["cid", "bob", "ann"]
    assert members(lb.top("b", labels={"room": "1"})) == ["cid", "ann"]
    lb.change("b", scopes=[[], ["room"], ["colour"]])
    lb.submit("b", "ann", 1, labels={"colour": "red", "shape": "round"})
    assert members(lb.top("b", labels={"colour": "red"})) == ["ann"]
    lb.change("b", labels="refuse")
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", 1, labels={"shape": "round"})
    assert code_of(refused) == "unknown_label"


def test_a_board_without_labels_refuses_labels(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    with pytest.raises(LaurelsError) as refused:
        lb.submit("b", "ann", 1, labels={"room": "1"})
    assert code_of(refused) == "unknown_label"
    assert lb.submit("b", "ann", 1, labels={}).labels is None


# Receipts


def test_receipts_report_the_requested_scope(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "zoe", 100)
    first = rooms.submit("b", "ann", 5, labels={"room": "1"})
    assert (first.score, first.rank, first.labels) == (5, 2, {})
    own = rooms.submit("b", "ann", 2, labels={"room": "2"}, scope=["room"])
    assert (own.previous_score, own.score, own.previous_rank, own.rank) == (None, 2, None, 1)
    assert own.labels == {"room": "2"}
    both = {"room": "1", "zone": "n"}
    receipts = rooms.submit_many(
        "b",
        [("ann", 1, None, None, {"room": "1"}), ("bob", 9, None, None, both), ("cid", 1)],
        scope=["room"],
        window="day",
        ranks=True,
    )
    reported = [(r.previous_score, r.score, r.previous_rank, r.rank, r.labels) for r in receipts]
    assert reported == [
        (5, 6, 1, 2, {"room": "1"}),
        (None, 9, None, 1, {"room": "1"}),
        (None, None, None, None, None),
    ]
    assert [r.period for r in receipts] == ["2026-11-20", "2026-11-20", None]
    assert {r.status for r in receipts} == {"applied"}
    deep = rooms.submit("b", "ann", 1, labels=both, scope=["zone", "room"])
    assert (deep.score, deep.labels) == (1, both)


def test_receipts_report_the_first_scope_by_default(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[["room"], []]))
    lb.submit("b", "ann", 5, labels={"room": "1"})
    receipt = lb.submit("b", "ann", 1, labels={"room": "2"})
    assert (receipt.score, receipt.labels) == (1, {"room": "2"})
    assert lb.submit("b", "ann", 1).score is None
    assert lb.submit("b", "ann", 1, scope=[]).score == 8


@pytest.mark.parametrize("scope", [["zone"], ["nope"], "room", ["room", "room"], 7])
def test_a_receipt_about_an_unknown_scope_is_refused(
    rooms: laurels.Leaderboards, scope: object
) -> None:
    with pytest.raises(LaurelsError) as refused:
        rooms.submit("b", "ann", 1, labels={"room": "1"}, scope=anything(scope))
    assert code_of(refused) == "unknown_scope"
    assert rooms.count("b") == 0


# Set, remove, change


def test_setting_a_score_adds_the_difference_in_the_window_all_to_every_scope(
    rooms: laurels.Leaderboards,
) -> None:
    rooms.submit("b", "ann", 5, labels={"room": "1"})
    rooms.submit("b", "ann", 3, labels={"room": "2"})
    receipt = rooms.set("b", "ann", 10, labels={"room": "1"}, scope=["room"])
    assert (receipt.previous_score, receipt.score) == (5, 7)
    assert scores(rooms.top("b")) == {"ann": 10}
    assert scores(rooms.top("b", labels={"room": "2"})) == {"ann": 3}
    assert scores(rooms.top("b", by="room")) == {"1": 7, "2": 3}


def test_setting_a_score_needs_the_scope_of_all_events(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[["room"]]))
    with pytest.raises(LaurelsError) as refused:
        lb.set("b", "ann", 1, labels={"room": "1"})
    assert code_of(refused) == "no_all_window"
    lb.create(laurels.Board("c", scopes=[["room"]], columns=[laurels.Column(op="last")]))
    lb.set("c", "ann", 1, labels={"room": "1"})
    assert scores(lb.top("c", labels={"room": "1"})) == {"ann": 1}


def test_a_removed_member_leaves_every_scope(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "ann", 5, labels={"room": "1", "zone": "n"})
    rooms.submit("b", "bob", 5, labels={"room": "2"})
    rooms.submit("b", "ann", 5, labels={"room": "2"})
    assert rooms.remove("b", "ann") is True
    assert members(rooms.top("b")) == members(rooms.top("b", labels={"room": "2"})) == ["bob"]
    assert rooms.scopes("b", "room") == [{"room": "2"}]
    assert rooms.scopes("b", "room", "zone") == []
    assert scores(rooms.top("b", by="room")) == {"2": 10, "1": 5}
    assert rooms.remove("b", "ann") is False
    assert rooms.remove("b", "2") is False
    rooms.check()


def test_a_member_ranked_only_in_scopes_can_be_removed(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[["room"]], rank_by="room"))
    lb.submit("b", "ann", 5, labels={"room": "1"})
    assert lb.remove("b", "ann") is True
    assert lb.scopes("b", "room") == []


def test_an_added_scope_counts_from_then_on(rooms: laurels.Leaderboards) -> None:
    rooms.submit("b", "ann", 5, labels={"room": "1", "zone": "n"})
    with pytest.raises(LaurelsError) as refused:
        rooms.submit("b", "ann", 5, labels={"team": "x"})
    assert code_of(refused) == "unknown_label"
    board = rooms.get("b")
    rooms.change("b", scopes=[*board.scopes, ["zone"], ["team"]], rank_by=["room", "zone"])
    assert rooms.scopes("b", "zone") == []
    rooms.submit("b", "bob", 3, labels={"zone": "n", "team": "x"})
    rooms.submit("b", "ann", 1, labels={"room": "1", "zone": "n"})
    assert scores(rooms.top("b", labels={"zone": "n"})) == {"bob": 3, "ann": 1}
    assert scores(rooms.top("b", labels={"team": "x"})) == {"bob": 3}
    assert scores(rooms.top("b", by="zone")) == {"n": 4}
    assert scores(rooms.top("b", labels={"room": "1"})) == {"ann": 6}
    rooms.check()


def test_a_plain_board_may_get_scopes(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=["all", "4h=rolling:4h/1h"]))
    lb.submit("b", "ann", 5)
    lb.change("b", scopes=[[], ["room"]])
    lb.submit("b", "ann", 1, labels={"room": "1"})
    for window in ("all", "4h"):
        assert scores(lb.top("b", window=window)) == {"ann": 6}
        assert scores(lb.top("b", window=window, labels={"room": "1"})) == {"ann": 1}
    lb.check()


@pytest.mark.parametrize("change", [{"scopes": [[]]}, {"rank_by": []}, {"scopes": [["room"], []]}])
def test_scopes_cannot_be_removed_or_changed(
    rooms: laurels.Leaderboards, change: dict[str, Any]
) -> None:
    with pytest.raises(LaurelsError) as refused:
        rooms.change("b", **change)
    assert code_of(refused) == "unsafe_change"
