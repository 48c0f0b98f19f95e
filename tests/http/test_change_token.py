"""While the change token of a board stays the same, every answer about the board stays the same."""

from __future__ import annotations

from datetime import UTC, datetime

import laurels
from laurels import config
from tests.calendar_by_scanning import HOUR, utc_ms


def test_a_boundary_changes_the_token_of_an_already_advanced_board() -> None:
    clock = laurels.ManualClock(utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC)))
    service = config.connect("memory:", clock, create=True)
    with laurels.Leaderboards(service) as lb:
        lb.create(laurels.Board("b", windows=["day"]))
        lb.submit("b", "ann", 1)
        assert lb.top("b").total == 1
        before = service.change_token("b")
        assert service.change_token("b") == before
        clock.advance(24 * HOUR)
        at_the_boundary = service.change_token("b")
        assert lb.top("b").total == 0
        after = service.change_token("b")
        assert len({before, at_the_boundary, after}) == 3
        assert service.change_token("b") == after
        lb.submit("b", "ann", 1)
        assert service.change_token("b") != after
