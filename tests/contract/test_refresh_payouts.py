"""A confirmation and a disqualification refresh the windows that are due, like other writes."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.contract.deployments import ARCHIVING, Implementation
from tests.contract.reading import scores

WITHOUT_LOOP = [each for each in ARCHIVING if each.refreshes]


@pytest.fixture(params=WITHOUT_LOOP, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each implementation that awards prizes and has no event loop, so that only writes
    cause a refresh."""
    chosen: Implementation = request.param
    return chosen


@pytest.fixture
def sealed(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> laurels.Leaderboards:
    """Return boards on which an hour is sealed whose payouts are due. The window with refresh shows
    ann. It was refreshed some minutes ago, and bob has been counted since then."""
    prizes = {"list": [{"name": "gold", "ranks": [1, 2]}], "pay_after": "1m"}
    hour = {"name": "hour", "type": "hour", "archive": "forever", "prizes": prizes}
    windows: list[Any] = ["rolling:3h/1h,refresh=10m", hour]
    lb.create(laurels.Board("b", windows=windows, ledger="main", grace="1m", tie="member"))
    lb.submit("b", "ann", 5)
    lb.submit("b", "cid", 0)
    clock.advance(HOUR)
    lb.seal()
    lb.remove("b", "cid")
    lb.submit("b", "bob", 7)
    clock.advance(2 * MINUTE)
    assert scores(lb.top("b")) == {"ann": 5}
    return lb


def test_a_confirmation_refreshes_the_windows_that_are_due(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    payout = sealed.payouts("b")[0]
    sealed.confirm("b", payout.id, "bank-1")
    assert scores(sealed.top("b")) == {"ann": 5}, "no refresh was due"
    clock.advance(10 * MINUTE)
    sealed.confirm("b", payout.id, "bank-1")
    assert scores(sealed.top("b")) == {"ann": 5}, "nothing was recorded"
    sealed.confirm("b", sealed.payouts("b")[1].id, "bank-2")
    assert scores(sealed.top("b")) == {"ann": 5, "bob": 7}


def test_a_disqualification_refreshes_the_windows_that_are_due(
    sealed: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    period = sealed.payouts("b")[0].period
    clock.advance(10 * MINUTE)
    sealed.disqualify("b", "ann", "a bot", window="hour", period=period)
    assert scores(sealed.top("b")) == {"ann": 5, "bob": 7}
