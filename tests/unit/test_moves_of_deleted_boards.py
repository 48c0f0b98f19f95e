"""Boards that are deleted while they are moved, or right after: no store keeps anything of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.config.placing import placed
from laurels.errors import LaurelsError
from laurels.stores.routed.moving import Mover
from laurels.stores.routed.store import RoutedStore


def run_with_two_stores(folder: Path, check: Callable[[RoutedStore], None]) -> None:
    """Call `check` in a thread, with a store that routes boards to two folders."""

    async def run() -> None:
        one, two = str(folder / "one"), str(folder / "two")
        backing = await placed(one, {"b-*": two}, max_clock_step=None, warn=print)
        assert isinstance(backing.store, RoutedStore)
        backing.store.start()
        try:
            await asyncio.to_thread(check, backing.store)
        finally:
            await backing.store.close_async()

    asyncio.run(run())


def names(store: RoutedStore) -> list[list[str]]:
    """Return the names of the boards of each store."""
    return [[board.name for board in each.store.definitions()] for each in store._stores]


def test_a_board_that_is_deleted_right_after_its_move_is_gone(tmp_path: Path) -> None:
    def check(store: RoutedStore) -> None:
        lb = laurels.Leaderboards(store)
        lb.create(laurels.Board("x"))
        lb.submit("x", "ann", 1)
        store.move("x", 2)
        lb.delete("x")
        assert names(store) == [[], []]
        lb.create(laurels.Board("x"))
        assert names(store) == [["x"], []]
        assert len(lb.top("x")) == 0

    run_with_two_stores(tmp_path, check)


def test_a_board_that_is_deleted_while_it_is_copied_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(store: RoutedStore) -> None:
        lb = laurels.Leaderboards(store)
        lb.create(laurels.Board("y"))
        lb.submit("y", "ann", 1)
        copy: Any = Mover._copy_in_rounds

        def deleting(*arguments: Any) -> Any:
            copied = copy(*arguments)
            lb.delete("y")
            return copied

        monkeypatch.setattr(Mover, "_copy_in_rounds", deleting)
        with pytest.raises(LaurelsError):
            store.move("y", 2)
        assert names(store) == [[], []]
        assert store._stores[1].store.copies.unfinished("y") is None

    run_with_two_stores(tmp_path, check)
