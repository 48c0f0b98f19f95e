"""Boundaries of rolling windows at which a board has nothing to show get no record."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

import laurels
from laurels.stores.local import sealing_thread

MINUTE = 60_000
NOW_MS = 1_795_186_800_000 + 5 * MINUTE  # 20 November 2026, 15:05 UTC
WINDOW = "45m=rolling:45m/15m"


@pytest.mark.parametrize("place", ["memory:", "folder"])
def test_a_rebuild_lists_no_boundary_that_was_empty(place: str, tmp_path: Path) -> None:
    """The board has a scope by the time of the rebuild, but had none at the boundary."""
    clock = laurels.ManualClock(NOW_MS)
    url = place if place == "memory:" else str(tmp_path / place)
    with (
        patch.object(sealing_thread.SealingThread, "start"),
        laurels.open(url, clock=clock) as lb,
    ):
        lb.create(laurels.Board("b", windows=["all", WINDOW], scopes=[[], ["team"]]))
        lb.change("b", windows=["all", f"{WINDOW},archive=forever,archive_every=15m"])
        clock.advance(20 * MINUTE)
        lb.seal()
        lb.submit("b", "ann", 1, labels={"team": "x"})
        clock.advance(15 * MINUTE)
        lb.seal()
        before = [(each.label, each.state) for each in lb.periods("b", "45m")]
        lb.rebuild()
        assert [(each.label, each.state) for each in lb.periods("b", "45m")] == before
        assert [each.period for each in lb.archived("b")] == ["2026-11-20T15:15Z"]
