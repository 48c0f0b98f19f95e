"""The world of the random tests: its clock when it is set back, and its stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from laurels.stores.local.sealing_thread import SealingThread
from tests.calendar_by_scanning import HOUR
from tests.changes import all_changes
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import EMBEDDED, IMPLEMENTATIONS, Deployment
from tests.definitions import Definition, Report, WindowDef
from tests.prize_definitions import PrizeDef, PrizesDef
from tests.stateful.background import worked_by_hand
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


def test_payouts_of_the_last_store_are_in_the_changes_of_their_board(tmp_path: Path) -> None:
    [routed] = [each for each in IMPLEMENTATIONS if each.name == "routed"]
    prizes = PrizesDef((PrizeDef("top", ranks=(1, 2)),), pay_after="1s")
    clock, window = EpisodeClock(NOW_MS), WindowDef("day", grace="0s", prizes=prizes)
    with worked_by_hand() as background, Deployment(routed, tmp_path, clock) as deployment:
        world = World(deployment, clock, "UTC", background)
        names = [f"{beginning}-0" for beginning in routed.beginnings]
        for name in names:
            ledger = routed.ledger_of(name)
            world.create(Definition(name, windows=(window,), changes="1d", ledger=ledger))
            for member in ("ann", "bob"):
                world.submit(name, Report(member, 1), None)
        clock.set(NOW_MS + 24 * HOUR)
        world.seal()
        clock.set(world.now_ms() + 1_000)
        for name in names:
            world.comparison.seasons.changes(world.lb, name)
            payouts = [each for each in all_changes(world.lb, name, 1_000) if each.kind == "payout"]
            assert len(payouts) == 2
