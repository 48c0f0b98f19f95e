"""After a restart, all acknowledged writes and the whole state of every board are unchanged."""

from __future__ import annotations

import os
from random import Random

import pytest

import laurels
from laurels.errors import Locked
from tests.calendar_by_scanning import HOUR
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import scores

DAY = 86_400_000


def test_boards_and_data_survive_a_restart(lasting: Deployment, clock: laurels.ManualClock) -> None:
    rng = Random(3)
    lb = lasting.lb
    columns = [laurels.Column("points", scale=2), laurels.Column("level", op="last", order="asc")]
    lb.create(laurels.Board("b", columns=columns, windows=["all", "day", "week"], rank="dense"))
    lb.create(laurels.Board("gone"))
    lb.submit("gone", "ann", 1)
    for day in range(3):
        events = [(f"m{rng.randint(0, 30)}", (rng.randint(-3, 3), day)) for _ in range(200)]
        lb.submit_many("b", events, position=("file", str(day)))
        lb.remove("b", f"m{day}")
        lb.set_data("b", f"m{day + 9}", {"day": day})
        clock.advance(DAY)
    lb.change("b", title="B", windows=["all", "day", "week", "month"])
    lb.submit("b", "m1", (1, 1), id="x")
    lb.delete("gone")
    before, boards, offset = everything(lb), lb.boards(), lb.stats().offset
    lb = lasting.reopen()
    assert everything(lb) == before
    assert lb.boards() == boards
    assert lb.stats().offset == offset
    assert lb.position("b", "file") == "2"
    assert lb.position("b", "other") is None
    assert lb.submit("b", "m1", (1, 1), id="x").status == "duplicate"
    lb.check()


@pytest.mark.parametrize("windows", [["all"], ["all", "day"], ["hour"], ["rolling:3h/1h"]])
def test_events_continue_at_the_time_of_earlier_ones_under_an_earlier_clock(
    lasting: Deployment, windows: list[str]
) -> None:
    lb, columns = lasting.lb, [laurels.Column("score", op="last")]
    lb.create(laurels.Board("b", columns=columns, windows=windows, changes="30d"))
    lb.submit("b", "ann", 1)
    lasting.clock = laurels.ManualClock(NOW_MS - 2 * HOUR)
    lb = lasting.reopen()
    receipt = lb.submit("b", "ann", 2)
    assert (receipt.status, receipt.score) == ("applied", 2)
    lb.submit_many("b", [("ann", 3), ("bob", 4)])
    assert scores(lb.top("b")) == {"ann": 3, "bob": 4}
    times = [change.at_ms for change in lb.changes("b").changes if change.kind == "event"]
    assert times == [NOW_MS] * 4
    lasting.clock = laurels.ManualClock(NOW_MS + 1)
    lb = lasting.reopen()
    lb.submit("b", "ann", 5)
    assert lb.changes("b").changes[-1].at_ms == NOW_MS + 1


def test_a_rebuild_changes_nothing(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"]))
    lb.submit_many("b", [(f"m{i}", i % 7, NOW_MS - i) for i in range(500)])
    clock.advance(DAY)
    lb.submit_many("b", [(f"m{i}", -1, None, "x") for i in range(100)])
    before = everything(lb)
    report = lb.check()
    lb.rebuild()
    assert everything(lb) == before
    assert lb.check() == report
    assert (report.boards, report.rankings, report.entries) == (1, 3, 500 + 500 + 100)
    assert lb.submit("b", "m1", 1, id="x").status == "duplicate"


def test_a_refused_batch_is_absent_after_a_restart(lasting: Deployment) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b", columns=[laurels.Column(max=5)]))
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many("b", [("ann", 1), ("ann", 9)], all_or_nothing=True)
    assert lasting.reopen().top("b").total == 0


def test_ids_are_remembered_over_a_restart(lasting: Deployment, clock: laurels.ManualClock) -> None:
    lasting.lb.create(laurels.Board("b", dedupe="1h"))
    lasting.lb.submit("b", "ann", 1, id="x")
    clock.advance(3_600_000 - 1)
    assert lasting.reopen().submit("b", "ann", 1, id="x").status == "duplicate"
    clock.advance(1)
    assert lasting.reopen().submit("b", "ann", 1, id="x").status == "applied"


def test_periods_end_while_the_store_is_closed(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lasting.lb.create(laurels.Board("b", windows=["day"]))
    lasting.lb.submit("b", "ann", 1)
    clock.advance(DAY)
    lb = lasting.reopen()
    assert lb.top("b").total == 0
    assert scores(lb.top("b", period="2026-11-20")) == {"ann": 1}


def test_a_folder_is_locked_by_one_process(exclusive: Deployment) -> None:
    with pytest.raises(Locked) as refused:
        laurels.open(exclusive.folder)
    assert refused.value.pid == os.getpid()
    assert str(os.getpid()) in str(refused.value)
    exclusive.lb.create(laurels.Board("b"))


def test_a_position_commits_with_its_batch(lasting: Deployment) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b", columns=[laurels.Column(max=5)]))
    lb.submit_many("b", [("ann", 1)], position=("file", "10"))
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many("b", [("ann", 9)], position=("file", "20"), all_or_nothing=True)
    assert lasting.reopen().position("b", "file") == "10"
    lasting.lb.submit_many("b", [], position=("file", "30"))
    assert lasting.reopen().position("b", "file") == "30"


def test_positions_without_counted_events_survive_a_restart(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 1)
    clock.advance(10_000)
    assert lb.submit_many("b", [("", 1)], position=("file", "1")).refused == 1
    lb.check()
    clock.advance(10_000)
    lb.submit_many("b", [], position=("file", "2"))
    lb.check()
    assert lasting.reopen().position("b", "file") == "2"
