"""The status of the clock of an index server, and the acceptance of a leap of that clock."""

from __future__ import annotations

import pytest

import laurels
from laurels.errors import InvalidClock
from laurels.timeline.clock import ManualClock
from tests.redis.servers import Server


def test_the_clock_status_is_that_of_the_server() -> None:
    with Server() as server:
        with laurels.open(server.url, max_clock_step="30m") as lb:
            lb.create(laurels.Board("b"))
            lb.submit("b", "a", 1)
            status = lb.clock_status()
            assert (status.leap_ms, status.leaps, status.problem) == (0, 0, None)
            assert abs(status.now_ms - status.source_ms) < 60_000
            assert lb.accept_clock().problem is None
            assert lb.stats().clock is not None
        with (
            laurels.open(server.url, clock=ManualClock(1_795_176_000_000)) as lb,
            pytest.raises(InvalidClock),
        ):
            lb.accept_clock()
