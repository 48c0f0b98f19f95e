"""Boundaries of rolling windows at which a board has nothing to show get no record."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

import laurels
from laurels.stores.local import sealing_thread
from laurels.stores.local.index.board_store import ScopeStore

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


def test_reads_of_a_due_boundary_do_not_search_all_scopes_again() -> None:
    clock = laurels.ManualClock(NOW_MS)
    looked_at = ScopeStore.has_entries
    looks = 0

    def counted(scope: ScopeStore, window: str, instance: int) -> bool:
        nonlocal looks
        looks += 1
        return looked_at(scope, window, instance)

    with (
        patch.object(sealing_thread.SealingThread, "start"),
        patch.object(ScopeStore, "has_entries", counted),
        laurels.open("memory:", clock=clock) as lb,
    ):
        windows = ["all", f"{WINDOW},archive=forever,archive_every=15m"]
        lb.create(laurels.Board("b", windows=windows, scopes=[["team"]]))
        for team in range(100):
            lb.submit("b", "ann", 1, labels={"team": str(team)})
        clock.advance(120 * MINUTE)
        lb.submit("b", "ann", 1, labels={"team": "5"})
        looks = 0
        for _ in range(5):
            clock.advance(15 * MINUTE if not looks else 0)
            lb.top("b", labels={"team": "1"})
        assert looks <= 101 + 5
