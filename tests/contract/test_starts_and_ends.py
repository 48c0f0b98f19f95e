"""A board with a start and an end refuses earlier and later events, with a different error for each
of the two, and is final after its end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

import laurels
from laurels.errors import BoardEnded, BoardInvalid, BoardNotStarted, TooLate, UnsafeChange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import assert_entries, assert_receipt, board_of
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import members, scores
from tests.definitions import Definition, Report, WindowDef
from tests.oracle import Oracle

DAY = 24 * HOUR
STARTS, ENDS = NOW_MS - HOUR, NOW_MS + HOUR
"""From 14:30 to 16:30."""
GRACE = 5 * MINUTE
WINDOWS = ["all", "hour:keep=3", "r=rolling:3h/1h", "f=rolling:3h/1h,refresh=10m", "decay:1h"]
COUNTED = ("all", "hour", "r", "decay:1h")
LIMITED: dict[str, Any] = {"windows": WINDOWS, "starts": STARTS, "ends": ENDS}


def answers(lb: laurels.Leaderboards) -> dict[str, Any]:
    """Return the scores of each window, with the period and the time of the answer."""
    pages = {name: lb.top("b", window=name) for name in COUNTED}
    return {
        name: (scores(page), page.as_of.period, page.as_of.now_ms) for name, page in pages.items()
    }


def test_events_before_the_start_and_after_the_end_are_refused_with_their_own_errors(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **LIMITED))
    with pytest.raises(BoardNotStarted):
        lb.submit("b", "ann", 1, at=STARTS - 1)
    lb.submit("b", "bob", 2, at=STARTS)
    clock.set(ENDS - 1)
    lb.submit("b", "cid", 3)
    clock.set(ENDS)
    with pytest.raises(BoardEnded):
        lb.submit("b", "dan", 4)
    with pytest.raises(BoardEnded):
        lb.set("b", "dan", 4)
    receipts = lb.submit_many("b", [("ann", 1, STARTS - 1), ("cid", 1, ENDS - 1), ("dan", 1, ENDS)])
    reasons = [receipt.reason for receipt in receipts]
    assert reasons == ["board_not_started", None, "board_ended"]
    assert receipts[0].refused_windows == ()
    assert receipts.late == {}
    assert receipts.refused == 2
    assert receipts[2].message is not None
    assert "2026-11-20T16:30:00Z" in receipts[2].message
    assert scores(lb.top("b")) == {"cid": 4, "bob": 2}
    lb.check()


def test_nothing_counts_before_the_start(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"], starts=NOW_MS + 10))
    clock.set(NOW_MS + 9)
    with pytest.raises(BoardNotStarted):
        lb.submit("b", "ann", 1)
    assert lb.needed("b", "ann", 1) == laurels.Needed(1, "score", None, unreachable=True)
    clock.set(NOW_MS + 10)
    assert lb.submit("b", "ann", 1).status == "applied"
    assert lb.periods("b", "day")[0].start_ms == NOW_MS + 10
    assert len(lb.periods("b", "day")) == 1


def test_after_the_end_the_answers_are_final(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **LIMITED))
    lb.submit_many("b", [("ann", 8), ("bob", 4)])
    clock.set(ENDS - 1)
    lb.submit("b", "cid", 2)
    clock.set(ENDS)
    before = answers(lb)
    assert before["all"][0] == before["r"][0] == {"ann": 8, "bob": 4, "cid": 2}
    assert before["hour"][0] == {"cid": 2}
    for at in (ENDS + 1, ENDS + GRACE, ENDS + HOUR, ENDS + 400 * DAY):
        clock.set(at)
        with pytest.raises(BoardEnded):
            lb.submit("b", "eve", 1)
        assert answers(lb) == before
    assert scores(lb.top("b", window="hour", period="2026-11-20T15+00:00")) == {"ann": 8, "bob": 4}
    assert lb.needed("b", "cid", 1) == laurels.Needed(1, "score", None, unreachable=True)
    lb.check()


def test_late_events_count_until_the_grace_after_the_end(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **LIMITED))
    clock.set(ENDS + GRACE)
    lb.submit("b", "ann", 1, at=ENDS - 1)
    for window in ("all", "hour", "r"):
        assert scores(lb.top("b", window=window)) == {"ann": 1}
    clock.set(ENDS + GRACE + 1)
    with pytest.raises(TooLate, match="until the board's end and its grace have passed"):
        lb.submit("b", "bob", 1, at=ENDS - 1)
    receipts = lb.submit_many("b", [("bob", 1, ENDS - 1)])
    assert receipts.late == dict.fromkeys(lb.get("b").rules().windows, 1)
    assert members(lb.top("b")) == ["ann"]


@pytest.mark.parametrize("op", ["best", "last"])
def test_a_late_score_is_set_where_a_window_still_takes_it(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, op: Any
) -> None:
    windows = ["all", "r=rolling:3h/1h,grace=2h"]
    columns = [laurels.Column("score", op=op)]
    lb.create(laurels.Board("b", columns=columns, windows=windows, ends=ENDS, dedupe="2h"))
    clock.set(ENDS + HOUR)
    receipt = lb.set("b", "ann", 4, at=ENDS - 1, window="r")
    assert (receipt.status, receipt.score, receipt.refused_windows) == ("applied", 4, ("all",))
    assert [scores(lb.top("b", window=window)) for window in ("all", "r")] == [{}, {"ann": 4}]


def test_the_last_period_is_cut_and_becomes_final(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **LIMITED))
    clock.set(ENDS + GRACE)
    hours = lb.periods("b", "hour")
    assert [(p.label, p.start_ms, p.end_ms) for p in hours] == [
        ("2026-11-20T16+00:00", ENDS - 30 * MINUTE, ENDS),
        ("2026-11-20T15+00:00", NOW_MS - 30 * MINUTE, ENDS - 30 * MINUTE),
        ("2026-11-20T14+00:00", STARTS, NOW_MS - 30 * MINUTE),
    ]
    assert not hours[0].final
    clock.set(ENDS + 2 * DAY)
    assert [p.label for p in lb.periods("b", "hour")] == [p.label for p in hours]
    assert all(p.final for p in lb.periods("b", "hour"))
    (whole,) = lb.periods("b", "all")
    assert (whole.start_ms, whole.end_ms, whole.final) == (STARTS, ENDS, True)
    assert lb.periods("b", "r")[0].end_ms == ENDS


def test_a_board_whose_end_is_postponed_continues(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **LIMITED))
    lb.submit("b", "ann", 8)
    clock.set(ENDS + 2 * HOUR)
    assert members(lb.top("b", window="r")) == ["ann"]
    with pytest.raises(UnsafeChange):
        lb.change("b", ends=ENDS + HOUR)
    assert lb.change("b", ends=ENDS + 3 * HOUR).ends == "2026-11-20T19:30:00Z"
    assert members(lb.top("b", window="r")) == []
    assert members(lb.top("b", window="hour")) == []
    lb.submit("b", "bob", 1)
    assert members(lb.top("b")) == ["ann", "bob"]
    assert members(lb.top("b", window="r")) == ["bob"]
    lb.change("b", ends="")
    clock.set(ENDS + 30 * HOUR)
    lb.submit("b", "cid", 1)
    assert members(lb.top("b", window="r")) == ["cid"]
    lb.change("b", starts=ENDS + 31 * HOUR)
    with pytest.raises(BoardNotStarted):
        lb.submit("b", "cid", 1)
    lb.check()


def test_windows_stay_readable_after_an_end_is_set(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["hour", "r=rolling:3h/1h"]))
    lb.submit("b", "ann", 8)
    lb.change("b", ends=NOW_MS + 1)
    clock.set(NOW_MS + 90 * DAY)
    assert members(lb.top("b", window="hour")) == members(lb.top("b", window="r")) == ["ann"]


def test_times_may_be_written_in_several_ways(lb: laurels.Leaderboards) -> None:
    board = lb.create(
        laurels.Board("b", starts="2026-12-01", ends="2026-12-24T20:00", tz="Asia/Shanghai")
    )
    assert (board.starts, board.ends) == ("2026-11-30T16:00:00Z", "2026-12-24T12:00:00Z")
    with_offset = laurels.Board("b", starts=datetime(2026, 11, 30, 16, tzinfo=UTC), ends=board.ends)
    assert with_offset.starts == board.starts
    for wrong in ({"starts": board.ends, "ends": board.starts}, {"ends": "soon"}, {"ends": True}):
        with pytest.raises(BoardInvalid):
            laurels.Board("b", **wrong)


def test_the_end_outlives_a_restart(lasting: Deployment, clock: laurels.ManualClock) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b", **LIMITED))
    lb.submit_many("b", [("ann", 8, STARTS + 1), ("bob", 4)])
    clock.set(ENDS + HOUR)
    before = answers(lb)
    lb = lasting.reopen()
    assert answers(lb) == before
    clock.advance(50 * HOUR)
    lb = lasting.reopen()
    assert answers(lb) == before
    lb.check()


@pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")
def test_starts_and_ends_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    starts, ends = NOW_MS + HOUR, NOW_MS + 3 * HOUR
    definition = Definition(
        "b",
        windows=(
            WindowDef("hour", name="hour", keep=3),
            WindowDef("all"),
            WindowDef("rolling", name="r", span="3h", step="1h", grace="1h"),
            WindowDef("decay", half_life="1h"),
        ),
        starts=starts,
        ends=ends,
    )
    oracle = Oracle(clock.now_ms)
    lb.create(board_of(definition))
    oracle.create(definition)
    points = [starts, starts + 30 * MINUTE, ends - 30 * MINUTE, ends, ends + GRACE, ends + HOUR]
    for now_ms in [point + by for point in points for by in (-1, 0, 1)]:
        clock.set(now_ms)
        ats = [None, starts - 1, starts, ends - 30 * MINUTE - 1, ends - 1, ends]
        reports = [
            Report(f"m{i}", i + 1, at) for i, at in enumerate(ats) if at is None or at <= now_ms
        ]
        events = [(report.member, report.value, report.at) for report in reports]
        verdicts = oracle.submit_many("b", reports)
        receipts = lb.submit_many("b", events)
        if len(reports) > 1:
            for receipt, verdict in zip(receipts, verdicts, strict=True):
                assert_receipt(receipt, verdict, "hour", definition)
        for window in oracle.board("b").windows:
            labels: list[str | None] = [span.label for span in oracle.periods("b", window)]
            for label in labels or [None]:
                places = oracle.places("b", window, label)
                assert_entries(lb.export("b", window=window, period=label), places, definition)
    lb.check()
