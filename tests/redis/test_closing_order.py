"""Periods are frozen before they are searched for entries, so no entry is missed."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any
from unittest.mock import patch

import pytest

from laurels.errors.index_server import LedgerRequired, UnknownLedger
from laurels.stores.redis.sharding.closings import ShardedClosings
from tests.internals import remote
from tests.redis.test_closing import (
    FIRST,
    HOUR,
    NOW_MS,
    AnyClock,
    Open,
    clock,
    create,
    periods,
    scores,
)

__all__ = ["clock"]
MINUTE = 60_000
SECOND = "2026-11-20T16+00:00"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_period_that_is_filled_first_while_others_are_closed_is_closed_as_well(
    opened: Open, clock: AnyClock, moment: str
) -> None:
    fast, slow = opened(), opened()
    create(fast, "all", "hour:archive=forever", grace="30m")
    slow.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR + MINUTE)  # 16:31; the clock of the other process shows 17:31
    remote(fast)._catalog.latest_ms = NOW_MS + 2 * HOUR + MINUTE
    freeze, counted = ShardedClosings.freeze, list[bool]()
    index: Any = remote(fast)._catalog.index

    async def submit_meanwhile(self: ShardedClosings, *arguments: Any) -> None:
        """Freeze periods, while the slow process counts an event in one of them."""
        if self is not index:
            await freeze(self, *arguments)
            return
        if moment == "after":
            await freeze(self, *arguments)
        receipt = await asyncio.to_thread(slow.submit, "b", "ben", 5, at=NOW_MS + HOUR)
        counted.append("hour" not in receipt.refused_windows)
        if moment == "before":
            await freeze(self, *arguments)

    with patch.object(ShardedClosings, "freeze", submit_meanwhile):
        remote(fast).work(100)
    assert counted == [moment == "before"]
    closed = [("hour", FIRST), *[("hour", SECOND)] * counted[0]]
    assert periods(fast, "close") == closed
    fast.seal()
    assert periods(fast, "seal") == closed


def test_an_event_of_a_source_in_an_empty_frozen_period_is_refused(
    opened: Open, clock: AnyClock
) -> None:
    """The process that sends the event has not seen that another process froze the period."""
    fast, slow = opened(), opened()
    create(fast)
    passed = json.dumps({"passed_ms": NOW_MS})
    slow.submit_many("b", [("ann", 1, NOW_MS)], position=("s", passed))
    clock.set(NOW_MS + 2 * HOUR)
    later = json.dumps({"passed_ms": NOW_MS + 2 * HOUR})
    fast.submit_many("b", [], position=("s", later))
    remote(fast).work(100)
    receipts = slow.submit_many(
        "b", [("ben", 1, NOW_MS + HOUR)], position=("t", passed, ""), arrived=NOW_MS + HOUR
    )
    assert receipts[0].refused_windows == ("hour",)
    fast.seal()
    assert scores(fast) == {"ann": 1}
    assert periods(fast, "close") == [("hour", FIRST)]


def test_a_title_is_changed_by_a_process_without_the_ledger(opened: Open) -> None:
    lb = opened()
    create(lb)
    url = os.environ.pop("LAURELS_LEDGER_MAIN")
    other = opened()
    os.environ["LAURELS_LEDGER_MAIN"] = url
    assert other.change("b", title="Gifts").title == "Gifts"
    with pytest.raises(UnknownLedger):
        other.change("b", windows=["all", "hour:keep=2,archive=forever"])
    with pytest.raises(LedgerRequired):
        other.change("b", ledger="")
