"""A clock that is set back between operations of which nothing was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from laurels.stores.local.sealing_thread import SealingThread
from tests.calendar_by_scanning import HOUR
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import EMBEDDED, Deployment
from tests.definitions import Definition, Report, WindowDef
from tests.stateful.clock import EpisodeClock
from tests.stateful.world import World

WINDOW = WindowDef("rolling", span="2h", step="1h", archive="forever", archive_every="1h")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a world of a folder with a board, at half past an hour."""
    [folder] = [each for each in EMBEDDED if each.name == "folder"]
    clock = EpisodeClock(NOW_MS)
    with (
        patch.object(SealingThread, "start"),
        Deployment(folder, tmp_path, clock) as deployment,
    ):
        world = World(deployment, clock, "UTC")
        world.create(Definition("board-0", windows=(WINDOW,)))
        yield world


def test_a_change_to_the_same_definition_does_not_advance_the_time(world: World) -> None:
    world.clock.set(NOW_MS + HOUR)
    world.change(world.definition("board-0"))
    world.restart(NOW_MS)
    assert world.now_ms() == NOW_MS


def test_a_boundary_that_was_read_before_the_clock_was_set_back_comes_again(world: World) -> None:
    world.clock.set(NOW_MS + HOUR)
    world.comparison.compare(world.lb, Random(0))
    world.restart(NOW_MS)
    world.submit("board-0", Report("ann", 1), None)
    world.clock.set(NOW_MS + HOUR)
    world.seal()
    world.comparison.compare(world.lb, Random(0))
    world.comparison.seasons.some(world.lb, "board-0", Random(0))
    assert len(world.lb.archived("board-0")) == 1
