"""Rolling windows and commits: receipts, batches, repeated events, changes of a board."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import laurels
from laurels.errors import BatchRefused, UnsafeChange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.contract.reading import members, scores

THREE = NOW_MS - 30 * MINUTE
"""15:00, the start of the hour that is running at `NOW_MS`."""


@pytest.fixture
def replayed(implementation: Implementation, tmp_path: Path) -> Iterator[laurels.Leaderboards]:
    """Return a deployment whose boards use event time."""
    with Deployment(implementation, tmp_path, "event") as deployment:
        yield deployment.lb


def test_receipts_report_the_running_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["all", "r=rolling:2h/1h"]))
    lb.submit_many("b", [("ann", 10), ("bob", 2)])
    clock.advance(HOUR)
    receipts = lb.submit_many("b", [("bob", 3), ("ann", 1), ("bob", 4)], window="r", ranks=True)
    assert [(r.previous_score, r.score) for r in receipts] == [(2, 5), (10, 11), (5, 9)]
    assert [(r.previous_rank, r.rank) for r in receipts] == [(2, 2), (1, 1), (2, 2)]
    clock.advance(HOUR)
    receipt = lb.submit("b", "ann", 0, window="r")
    assert (receipt.previous_score, receipt.score) == (1, 1)
    assert (receipt.previous_rank, receipt.rank) == (2, 2)
    assert (receipt.window, receipt.period) == ("r", "2026-11-20T17:00Z")
    assert lb.submit("b", "ann", 0).score == 11


def test_ranks_before_a_commit_are_those_of_its_own_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"]))
    lb.submit("b", "ann", 10)
    clock.advance(HOUR)
    lb.submit_many("b", [("bob", 5), ("cid", 3)])
    clock.advance(HOUR)
    receipt = lb.submit("b", "cid", 1)
    assert (receipt.previous_rank, receipt.rank) == (2, 2)
    receipt = lb.submit("b", "ann", 1)
    assert (receipt.previous_score, receipt.previous_rank, receipt.rank) == (None, None, 3)


def test_a_batch_over_several_steps_is_replayed_as_if_live(
    replayed: laurels.Leaderboards,
) -> None:
    replayed.create(laurels.Board("b", windows=["r=rolling:2h/1h", "all"]))
    events = [
        ("ann", 10, THREE),
        ("bob", 5, THREE + 1),
        ("bob", 3, THREE + HOUR),
        ("ann", 1, THREE + HOUR + 1),
        ("bob", 1, THREE + 2 * HOUR),
        ("ann", 1, THREE - 1),
        ("bob", 1, THREE + 4 * HOUR),
    ]
    receipts = replayed.submit_many("b", events, ranks=True)
    reported = [(r.period, r.previous_score, r.score, r.previous_rank, r.rank) for r in receipts]
    assert reported == [
        ("2026-11-20T15:00Z", None, 10, None, 1),
        ("2026-11-20T15:00Z", None, 5, None, 2),
        ("2026-11-20T16:00Z", 5, 8, 2, 2),
        ("2026-11-20T16:00Z", 10, 11, 1, 1),
        ("2026-11-20T17:00Z", 3, 4, 1, 1),
        (None, None, None, None, None),
        ("2026-11-20T19:00Z", None, 1, None, 1),
    ]
    assert [r.refused_windows for r in receipts] == [()] * 5 + [("r",), ()]
    assert scores(replayed.top("b")) == {"bob": 1}
    assert scores(replayed.top("b", window="all")) == {"ann": 12, "bob": 10}


@pytest.fixture
def untouched(clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    """Return another deployment with the same clock. A test leaves out one kind of operation on it,
    does all others on both deployments, and compares the two."""
    with laurels.open("memory:", clock=clock) as other:
        yield other


@pytest.mark.one_shard
def test_a_refused_batch_leaves_every_step_as_it_was(
    lb: laurels.Leaderboards, untouched: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    pair = [laurels.Column("laps", op="best"), laurels.Column("level", op="best")]
    windows = ["r=rolling:3h/1h", "long=rolling:8h/2h"]
    for each in (lb, untouched):
        each.create(laurels.Board("sum", windows=windows, grace="2h", dedupe="2h"))
        each.create(laurels.Board("best", columns=pair, windows=windows, grace="2h", dedupe="2h"))
    for hour in range(4):
        for each in (lb, untouched):
            each.submit_many("sum", [(f"m{i}", i - hour) for i in range(hour, hour + 5)])
            each.submit_many("best", [(f"m{i}", (9 - hour, i)) for i in range(hour, hour + 5)])
        for name, value, wrong in (("sum", 7, 2**53 - 1), ("best", (9, 9), (1,))):
            for bad in (("m1", wrong), ("m1", value, clock.now_ms() - 9 * HOUR)):
                with pytest.raises(BatchRefused):
                    lb.submit_many(name, [*late(clock, value), bad], all_or_nothing=True)
        assert everything(lb) == everything(untouched)
        lb.check()
        clock.advance(HOUR)
    for _ in range(8):
        assert everything(lb) == everything(untouched)
        clock.advance(HOUR)
    assert lb.submit("sum", "m0", 1, id="x").status == "applied"


def late(clock: laurels.ManualClock, value: object) -> list[tuple[object, ...]]:
    """Return events for past steps and for the running one, of known members and of a new one."""
    now_ms = clock.now_ms()
    events: list[tuple[object, ...]] = [
        (f"m{i}", value, now_ms - hours * HOUR) for i, hours in enumerate((0, 1, 2, 0, 1))
    ]
    return [*events, ("new", value), ("m0", value, None, "x")]


def test_a_repeated_event_counts_in_no_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:2h/1h"], dedupe="3h"))
    lb.submit("b", "ann", 5, id="x")
    clock.advance(HOUR)
    receipt = lb.submit("b", "ann", 5, id="x")
    assert (receipt.status, receipt.previous_score, receipt.score) == ("duplicate", 5, 5)
    clock.advance(HOUR)
    receipt = lb.submit("b", "ann", 5, id="x")
    assert (receipt.status, receipt.score) == ("duplicate", None)
    assert lb.top("b").total == 0


def test_a_rolling_window_added_counts_from_now_on(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", grace="1h"))
    lb.submit("b", "ann", 5)
    changed = lb.change("b", windows=["all", "r=rolling:3h/1h"])
    assert changed.windows == ("all", "r=rolling:3h/1h")
    assert lb.top("b", window="r").total == 0
    lb.submit("b", "ann", 1)
    assert lb.submit("b", "bob", 1, at=THREE).refused_windows == ()
    assert lb.submit("b", "bob", 7, at=THREE - 1).refused_windows == ("r",)
    assert scores(lb.top("b", window="r")) == {"bob": 1, "ann": 1}
    assert scores(lb.top("b")) == {"bob": 8, "ann": 6}
    clock.advance(HOUR)
    assert lb.submit("b", "ann", 2, at=NOW_MS, window="r").score == 3
    clock.advance(2 * HOUR)
    assert lb.top("b", window="r").total == 0
    lb.check()


def test_a_change_of_the_board_keeps_the_contents_of_its_steps(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"], grace="1h"))
    lb.submit("b", "ann", 1)
    clock.advance(HOUR)
    lb.change("b", title="B", keep=1, windows=["r=rolling:3h/1h", "all", "s=rolling:3h/1h"])
    receipt = lb.submit("b", "ann", 10, at=NOW_MS)
    assert (receipt.score, receipt.refused_windows) == (11, ("s",))
    clock.advance(HOUR)
    assert scores(lb.top("b")) == {"ann": 11}
    assert scores(lb.top("b", window="all")) == {"ann": 10}


@pytest.mark.parametrize(
    "window",
    ["r=rolling:6h/1h", "r=rolling:3h/30m", "r=rolling:3h/1h,grace=1h", "r=rolling:180m/60m"],
)
def test_a_rolling_window_cannot_become_another(lb: laurels.Leaderboards, window: str) -> None:
    board = lb.create(laurels.Board("b", windows=["r=rolling:3h/1h"]))
    lb.submit("b", "ann", 1)
    with pytest.raises(UnsafeChange):
        lb.change("b", windows=[window])
    with pytest.raises(UnsafeChange):
        lb.change("b", windows=["all"])
    assert lb.get("b") == board
    assert lb.change("b", title="B", keep=5).windows == board.windows
    assert members(lb.top("b")) == ["ann"]
