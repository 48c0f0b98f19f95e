"""Boards with payouts that are not confirmed stay after their `retain`."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import BoardExists, UnknownBoard
from laurels.errors.payouts import PayoutsOpen
from tests.calendar_by_scanning import HOUR
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import STORES, Deployment, Implementation
from tests.contract.test_payouts import PRIZES, board, every, month

DAY = 24 * HOUR
ENDS = NOW_MS + 8 * DAY
SPRINT: dict[str, Any] = {"ends": ENDS, "retain": "2d", "changes": "9d"}
GONE = ENDS + 2 * DAY


@pytest.fixture(params=STORES, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each store that removes a board with the last confirmation. Index servers have tests
    of their own (`tests/redis/test_unpaid_boards.py`)."""
    implementation: Implementation = request.param
    return implementation


def names(lb: laurels.Leaderboards) -> list[str]:
    return [each.name for each in lb.boards()]


def waits(lb: laurels.Leaderboards, window: str = "month") -> dict[str, tuple[str, ...]]:
    """Return the periods of a window that wait, and what they wait for."""
    return {each.label: each.waits_for for each in lb.periods("b", window) if each.waits_for}


def test_a_board_with_open_payouts_stays_after_its_retain(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    day = {"type": "day", "prizes": {"list": PRIZES["list"][:1]}}
    lb.create(board(**SPRINT, windows=["all", month(), day]))
    lb.create(laurels.Board("other"))
    lb.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    clock.set(GONE - 1)
    assert waits(lb) == {}
    clock.set(GONE)
    lb.seal()
    clock.advance(HOUR)
    for _ in range(2):
        assert names(lb) == ["b", "other"]
        assert waits(lb) == {"2026-11": ("payouts",)}
        # the day with open payouts is no longer listed, so the oldest listed day says what is
        # waited for
        oldest = lb.periods("b", "day")[-1].label
        assert oldest > "2026-11-20"
        assert waits(lb, "day") == {oldest: ("payouts",)}
        assert waits(lb, "all") == {}
        assert [entry.member for entry in lb.top("b")] == ["ann", "bob", "cid"]
        with pytest.raises(BoardExists):
            lb.create(board())
        with pytest.raises(PayoutsOpen):
            lb.delete("b")
        lb.check()
        if deployment.lasting:
            lb.snapshot()
            lb = deployment.reopen()
        lb.rebuild()
    cursor = lb.changes("b").cursor
    *others, last = every(lb, state="due")
    assert len(others) == 3
    for each in others:
        lb.confirm("b", each.id, "paid")
        assert names(lb) == ["b", "other"]
    clock.advance(HOUR)
    assert lb.confirm("b", last.id, "paid").state == "confirmed"
    assert names(lb) == ["other"]
    for query in (lb.top, lb.periods, lb.delete):
        with pytest.raises(UnknownBoard):
            query("b")
    assert {each.state for each in every(lb)} == {"confirmed"}
    assert lb.confirm("b", last.id, "paid").state == "confirmed"
    ended = list(lb.changes("b", after=cursor))
    assert [each.kind for each in ended] == ["confirm"] * 4 + ["delete"]
    assert ended[-1].at_ms == GONE + 2 * HOUR
    lb.create(board())
    assert lb.top("b").total == 0


@pytest.mark.parametrize("when", ["before its end", "after its end"])
def test_a_board_whose_prizes_were_taken_from_its_definition_waits_as_well(
    deployment: Deployment, clock: laurels.ManualClock, when: str
) -> None:
    lb = deployment.lb
    days = {"type": "day", "prizes": PRIZES}
    archived = {"type": "day", "archive": "forever"}
    lb.create(board(**SPRINT, windows=["all", days]))
    lb.submit("b", "ann", 9)
    clock.set(NOW_MS + 2 * DAY if when == "before its end" else ENDS + DAY)
    lb.seal()
    lb.change("b", windows=["all", archived])
    clock.set(GONE)
    lb.seal()
    clock.advance(HOUR)
    lb.seal()
    assert names(lb) == ["b"]
    assert [entry.member for entry in lb.top("b")] == ["ann"]
    if deployment.lasting:
        lb.snapshot()
        lb = deployment.reopen()
    for each in every(lb, state="due"):
        assert names(lb) == ["b"]
        lb.confirm("b", each.id, "paid")
    assert names(lb) == []


def test_a_board_without_winners_is_removed_by_retain(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board(**SPRINT, windows=[month({"list": [{"name": "m", "at_least": 100}]})]))
    lb.submit("b", "ann", 9)
    clock.set(GONE)
    lb.seal()
    assert names(lb) == []


def test_a_correction_that_leaves_nothing_to_pay_ends_the_wait(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board(**SPRINT, windows=[month({**PRIZES, "pay_after": "5d"})]))
    lb.submit("b", "ann", 9)
    clock.set(GONE)
    lb.seal()
    assert names(lb) == ["b"]
    lb.disqualify("b", "ann", "a bot", period="2026-11")
    assert names(lb) == []
    assert {each.state for each in every(lb)} == {"superseded"}


def test_the_retention_of_a_board_that_waits_for_its_payouts_can_change(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(board(**SPRINT))
    lb.submit("b", "ann", 9)
    clock.set(GONE)
    lb.seal()
    clock.advance(HOUR)
    lb.change("b", retain="5d")
    assert waits(lb) == {}
    for each in every(lb, state="due"):
        lb.confirm("b", each.id, "paid")
    assert names(lb) == ["b"]
    clock.set(ENDS + 5 * DAY)
    assert names(lb) == []


def test_a_board_that_stays_can_be_changed(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    lb = deployment.lb
    lb.create(board(**SPRINT))
    lb.submit_many("b", [("ann", 9), ("bob", 8)])
    clock.set(GONE)
    lb.seal()
    clock.advance(HOUR)
    assert lb.change("b", title="paid soon").title == "paid soon"
    assert names(lb) == ["b"]
    assert lb.top("b").total == 2
    assert lb.change("b", retain="").retain == ""
    for payout in lb.payouts("b"):
        lb.confirm("b", payout.id, "paid")
    assert names(lb) == ["b"]
    lb.check()
