"""Rounds of random writes to three boards in a short time, each followed by a comparison of random
answers with those of the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.stateful.background import worked_by_hand
from tests.stateful.choices import COMBINATIONS, report
from tests.stateful.clock import EpisodeClock
from tests.stateful.rules import Rule
from tests.stateful.world import World


@contextmanager
def three_boards(
    implementation: Implementation, folder: Path, rng: Random, hides_zero: Callable[[], bool]
) -> Iterator[World]:
    """Return a world with three random boards, which leave out scores of 0 if `hides_zero` returns
    true. No work is done in the background."""
    clock = EpisodeClock(NOW_MS)
    with (
        worked_by_hand() as background,
        Deployment(implementation, folder, clock) as deployment,
    ):
        world = World(deployment, clock, "UTC", background)
        for i, (columns, tie, rank) in enumerate(rng.sample(COMBINATIONS, 3)):
            is_served = rank != "dense" or not implementation.divided
            combination = (columns, tie, rank if is_served else "competition")
            chosen = world.chosen(rng, world.name(rng, i), combination)
            stays = replace(chosen, starts="", ends="", retain="")
            world.create(replace(stays, hide_zero=hides_zero()))
        yield world
        world.lb.check()


def play_round(world: World, rng: Random, steps: Sequence[Rule]) -> str:
    """Submit random events to one board, take a random step, and compare. Return the name of the
    board."""
    name = rng.choice(sorted(world.oracle.boards))
    board = world.oracle.boards[name]
    reports = [report(rng, board, world.now_ms()) for _ in range(rng.randint(1, 9))]
    world.submit_many(name, reports, None, ranks=True, all_or_nothing=False)
    rng.choice(steps)(world, rng)
    world.comparison.compare(world.lb, rng)
    for asked in world.oracle.boards:
        world.comparison.some_ranking(world.lb, asked, rng).every(rng)
    return name
