"""A service with several stores erases a member from all of them or from none."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import StorageFailed
from laurels.errors.payouts import InvalidReference, PayoutsOpen
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.erasing import LocalErasing
from laurels.stores.local.sealing_thread import SealingThread
from laurels.stores.redis.erasing import ServerErasing
from tests.calendar_by_scanning import HOUR
from tests.contract.deployments import IMPLEMENTATIONS, Deployment
from tests.contract.test_erase import DAY, PRIZES, listed

[ROUTED] = [each for each in IMPLEMENTATIONS if each.name == "routed"]
IN_STORES = ("a", "e", "z")
"""The names of boards that are in different stores of a service: on an index server, and in two
folders."""


def archived_days(lb: laurels.Leaderboards) -> dict[str, str]:
    """Create a board in each store, with two members in a day that is archived. Return the labels
    of these days by board."""
    labels = {}
    for board in IN_STORES:
        ledger = ROUTED.ledger if board == "a" else ""
        lb.create(laurels.Board(board, windows=["all", "day:archive=forever"], ledger=ledger))
        lb.submit_many(board, [("zoe", 1), ("ann", 1)])
        labels[board] = lb.periods(board, "day")[0].label
    return labels


def test_a_service_with_several_stores_erases_from_each(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    with Deployment(ROUTED, tmp_path, clock) as deployment:
        lb = deployment.lb
        labels = archived_days(lb)
        clock.advance(DAY)
        erasure = lb.erase("zoe", "asked for it")
        assert (erasure.boards, erasure.periods) == (3, 3)
        for board in IN_STORES:
            assert listed(lb, board) == ["ann"]
            assert erasure.token in listed(lb, board, window="day", period=labels[board])


@pytest.mark.parametrize("paid", IN_STORES)
def test_an_erasure_that_one_of_several_stores_refuses_erases_nothing(
    tmp_path: Path, clock: laurels.ManualClock, paid: str
) -> None:
    """What is due is sealed in all stores, as in a single store."""
    with Deployment(ROUTED, tmp_path, clock) as deployment:
        lb = deployment.lb
        for board in IN_STORES:
            more: dict[str, Any] = {"prizes": PRIZES} if board == paid else {"archive": "forever"}
            windows: list[Any] = ["all", {"type": "day", **more}]
            ledger = ROUTED.ledger if board == "a" else ""
            lb.create(laurels.Board(board, windows=windows, ledger=ledger))
            lb.submit_many(board, [("zoe", 2), ("ann", 1)])
        clock.advance(DAY)
        with pytest.raises(PayoutsOpen, match="not confirmed: 1"):
            lb.erase("zoe", "asked for it")
        assert [listed(lb, board) for board in IN_STORES] == [["zoe", "ann"]] * 3
        assert [lb.periods(board, "day")[1].state for board in IN_STORES] == ["sealed"] * 3
        clock.advance(2 * HOUR)
        [payout] = lb.payouts(paid, member="zoe")
        lb.confirm(paid, payout.id, "waived")
        assert lb.erase("zoe", "asked for it").boards == 3
        assert [listed(lb, board) for board in IN_STORES] == [["ann"]] * 3


@pytest.mark.parametrize("reason", ["", "x" * 501])
def test_an_invalid_reason_erases_from_none_of_several_stores(
    tmp_path: Path, clock: laurels.ManualClock, reason: str
) -> None:
    with Deployment(ROUTED, tmp_path, clock) as deployment:
        lb = deployment.lb
        for board in IN_STORES:
            lb.create(laurels.Board(board))
            lb.submit(board, "zoe", 1)
        with pytest.raises(InvalidReference):
            lb.erase("zoe", reason)
        assert [listed(lb, board) for board in IN_STORES] == [["zoe"]] * 3


@pytest.mark.parametrize("fails", [ServerErasing, Archive, LocalErasing])
def test_an_erasure_that_fails_in_one_of_several_stores_is_completed_by_a_call(
    tmp_path: Path, clock: laurels.ManualClock, fails: type
) -> None:
    """As if the service had ended before or within the erasure of a store."""
    with Deployment(ROUTED, tmp_path, clock) as deployment, patch.object(SealingThread, "start"):
        lb = deployment.lb
        labels = archived_days(lb)
        clock.advance(DAY)
        lb.seal()
        full = StorageFailed("no space left")
        with patch.object(fails, "erase", side_effect=full), pytest.raises(StorageFailed):
            lb.erase("zoe", "asked for it")
        lb = deployment.reopen()
        token = lb.erase("zoe", "asked for it").token
        for board in IN_STORES:
            assert listed(lb, board) == ["ann"]
            places = listed(lb, board, window="day", period=labels[board])
            assert len(places) == 2
            assert "zoe" not in places
        assert "'zoe'" not in str(list(lb.audit()))
        assert token in str(list(lb.audit()))
