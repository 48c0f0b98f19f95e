"""Clearing a board removes its members, and keeps everything else."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import UnknownBoard
from laurels.errors.payouts import PayoutsOpen
from tests.calendar_by_scanning import HOUR
from tests.changes import all_changes
from tests.contract.deployments import ARCHIVING, Implementation

DAY = 24 * HOUR
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2], "amount": "5"}]}
WINDOWS: list[Any] = ["all", {"type": "day", "prizes": PRIZES}, "week", "7d=rolling:7d/1d"]


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    return chosen


def listed(lb: laurels.Leaderboards, **ranking: Any) -> list[str]:
    return [entry.member for entry in lb.top("b", **ranking)]


def test_the_members_go_and_the_rest_stays(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    board = laurels.Board(
        "b", windows=WINDOWS, scopes=[[], ["room"]], rank_by=["room"], ledger="main"
    )
    lb.create(board)
    lb.create(laurels.Board("other"))
    lb.submit("other", "ann", 1)
    ann = laurels.Event("ann", 3, labels={"room": "1"})
    lb.submit_many("b", [ann, ("bob", 2)], position=("stream", "7"))
    day = lb.periods("b", "day")[0]
    clock.set(day.end_ms + HOUR)
    lb.seal()
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")
    lb.submit("b", "ann", 4, id="x")
    lb.set_data("b", "ann", {"name": "Ann"})
    lb.hide("b", "mal", "a bot")
    lb.clear("b")
    for window in ("all", "day", "week", "7d"):
        assert lb.top("b", window=window).total == 0
        assert lb.rank("b", "ann", window=window) is None
    assert lb.scopes("b", "room") == []
    assert listed(lb, by="room") == []
    assert listed(lb, window="day", period=day.label) == ["ann", "bob"]
    assert lb.verify("b", window="day", period=day.label).verified
    assert [payout.member for payout in lb.payouts("b")] == ["ann", "bob"]
    assert [hidden.member for hidden in lb.hidden("b")] == ["mal"]
    assert lb.position("b", "stream") == "7"
    assert lb.submit("b", "ann", 4, id="x").status == "duplicate"
    assert lb.get("b") == board
    assert lb.rank("other", "ann") == 1
    lb.submit("b", "ann", 1)
    assert [entry.data for entry in lb.top("b", with_data=True)] == [None]
    lb.check()
    lb.rebuild()
    assert listed(lb) == ["ann"]
    assert listed(lb, window="day", period=day.label) == ["ann", "bob"]


def test_open_payouts_refuse_it(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=WINDOWS, ledger="main"))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
    clock.advance(DAY)  # the refused calls close and seal the day
    for refused in (lb.clear, lb.delete):
        with pytest.raises(PayoutsOpen, match="not confirmed: 2"):
            refused("b")
    assert listed(lb) == ["ann", "bob", "cid"]
    for payout in lb.payouts("b", state="due"):
        lb.confirm("b", payout.id, "paid")
    lb.clear("b")
    assert listed(lb) == []
    lb.delete("b")
    assert [payout.member for payout in lb.payouts("b")] == ["ann", "bob"]


def test_followers_are_told(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", changes="1d"))
    lb.submit("b", "ann", 1)
    cursor = lb.changes("b").cursor
    lb.clear("b")
    lb.submit("b", "bob", 1)
    kinds = [(change.kind, change.member) for change in all_changes(lb, "b", after=cursor)]
    assert kinds == [("clear", None), ("event", "bob")]
    initial = [change.member for change in all_changes(lb, "b", initial=True) if change.member]
    assert initial == ["bob"]


def test_a_board_that_does_not_exist_is_not_cleared(lb: laurels.Leaderboards) -> None:
    with pytest.raises(UnknownBoard):
        lb.clear("nope")
