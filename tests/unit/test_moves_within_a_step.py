"""Moves of boards whose rolling windows have short steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import laurels
from laurels.config.placing import placed
from laurels.core.contents import Piece
from laurels.errors.placement import MoveRefused
from laurels.stores.local.copies import TrackedLocalBoard
from laurels.stores.routed.store import RoutedStore
from laurels.timeline.clock import ManualClock

NOON_MS = 1_795_262_400_000


@pytest.mark.parametrize(("seconds", "copies"), [(5, 1), (40, 2), (70, 1)])
def test_a_move_that_takes_longer_than_a_step_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, copies: int
) -> None:
    """A copy that ends within a step is completed, if need be by a second attempt that begins with
    the step. A copy that takes longer than the step is refused after its first attempt."""
    clock, begun = ManualClock(NOON_MS + 30_000), list[int]()

    async def run() -> None:
        one, two = str(tmp_path / "one"), str(tmp_path / "two")
        backing = await placed(one, {"b-*": two}, clock, max_clock_step=None, warn=print)
        assert isinstance(backing.store, RoutedStore)
        backing.store.start()
        try:
            await asyncio.to_thread(check, backing.store)
        finally:
            await backing.store.close_async()

    def check(store: RoutedStore) -> None:
        monkeypatch.setattr(store._mover, "_clock", lambda: clock.now_ms() / 1_000)
        pieces = TrackedLocalBoard.pieces

        def slow(tracked: TrackedLocalBoard) -> Iterator[Piece]:
            begun.append(clock.now_ms())
            yield from pieces(tracked)
            clock.advance(seconds * 1_000)

        monkeypatch.setattr(TrackedLocalBoard, "pieces", slow)
        lb = laurels.Leaderboards(store)
        lb.create(laurels.Board("x", windows=["all", "r=rolling:3m/1m"]))
        lb.submit("x", "ann", 1)
        if seconds < 60:
            assert store.move("x", 2).store == 2
        else:
            with pytest.raises(MoveRefused, match=r"of its window .r., which lasts 60 s"):
                store.move("x", 2)
        assert len(begun) == copies
        assert lb.submit("x", "ann", 1).score == 2

    asyncio.run(run())
