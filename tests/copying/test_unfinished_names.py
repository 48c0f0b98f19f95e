"""The name of an unfinished copy is taken until the copy is finished or given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from laurels import Board, ManualClock
from laurels.errors.copies import NameTaken
from tests.internals import copies_of

from .pairs import opened_pair
from .seasons import SEASONS, START_MS, play_seasons


@pytest.mark.parametrize("name", ["memory", "folder", "http", "redis", "cluster-shards"])
def test_a_board_with_the_name_of_an_unfinished_copy_is_refused(name: str, tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with opened_pair(("memory", name), tmp_path, clock) as (source, target):
        play_seasons(source.lb, clock)
        own, other = copies_of(source.lb), copies_of(target.lb)
        other.begin(own.origin("seasons"))
        for board in (Board("seasons"), SEASONS):
            with pytest.raises(NameTaken):
                target.lb.create(board)
            with pytest.raises(NameTaken):
                target.lb.create(board, exist_ok=True)
        other.give_up("seasons")
        target.lb.create(Board("seasons"))
        assert target.lb.top("seasons").entries == []


@pytest.mark.parametrize("name", ["folder", "redis"])
def test_a_finished_copy_that_was_deleted_leaves_its_name(name: str, tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with opened_pair(("memory", name), tmp_path, clock) as (source, target):
        source.lb.create(Board("b"))
        own, other = copies_of(source.lb), copies_of(target.lb)
        other.begin(own.origin("b"))
        for piece in own.pieces("b"):
            other.put("b", [piece])
        other.finish("b")
        target.lb.delete("b")
        target.lb.create(Board("b"))
