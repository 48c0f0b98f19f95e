"""One run of random steps over one deployment, and the conditions that must hold at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import laurels
from laurels.stores.local import committing, queries, reading, store
from tests.comparison import everything
from tests.contract.deployments import IMPLEMENTATIONS, Deployment, Implementation
from tests.redis.writing import patient
from tests.stateful import choices
from tests.stateful.background import Background, worked_by_hand
from tests.stateful.clock import EpisodeClock
from tests.stateful.journal import regrouped, replay
from tests.stateful.rules import RULES, Rule
from tests.stateful.world import Combination, World


@dataclass(frozen=True)
class Tally:
    """The number of steps of an episode, and the number of rankings that it compared."""

    steps: int
    rankings: int


@contextmanager
def shares(rng: Random) -> Iterator[Background]:
    """Limit each write to a small share of the due work, so that the work takes several writes even
    if there are few members. Let no work be done in the background."""
    after_write, at_once = rng.choice([-2, -1, 0, 256]), rng.choice([1, 3, 4096])
    with (
        patient(),
        patch.object(store, "MIN_SHARE", after_write),
        patch.object(queries, "SHARE", at_once),
        patch.object(reading, "SHARE", at_once),
        patch.object(committing, "SHARE", at_once),
        worked_by_hand() as background,
    ):
        yield background


def begin(
    rng: Random,
    implementation: Implementation,
    folder: Path,
    combinations: Sequence[Combination],
    background: Background,
) -> World:
    """Return a world with one board for each of these combinations of columns, tie rule and rank
    style. If the deployment has several stores, there is another board."""
    tz, start_ms = choices.start(rng)
    clock = EpisodeClock(start_ms)
    world = World(Deployment(implementation, folder, clock), clock, tz, background)
    more = [rng.choice(choices.COMBINATIONS)] if len(implementation.beginnings) > 1 else []
    for i, combination in enumerate([*combinations, *more]):
        world.create(world.chosen(rng, world.name(rng, i), combination))
    return world


def step(world: World, rng: Random, rule: Rule) -> None:
    """Apply one rule, and let a server do a share of the work that is due. Then compare
    everything."""
    rule(world, rng)
    world.background.work(rng)
    world.comparison.compare(world.lb, rng)


def finish(world: World, rng: Random) -> None:
    """Assert that folding the log again gives the same state. Assert that another deployment also
    gets this state if the events are grouped into other commits, with the refreshes at the same
    positions."""
    world.seal()
    for name in world.oracle.boards:  # a write, with which a store records the ends of hidings
        world.set_data(name, choices.MEMBERS[0], None)
    before = everything(world.lb)
    world.lb.check()
    world.lb.rebuild()
    assert everything(world.lb) == before
    if world.deployment.lasting:
        world.restart(world.now_ms())
        assert everything(world.lb) == before
    world.comparison.compare(world.lb, rng)
    for name in world.oracle.boards:
        world.comparison.changes(world.lb, name, rng, complete=True)
    clock = laurels.ManualClock(world.journal[0].now_ms)
    with laurels.open("memory:", clock=clock) as other:
        replay(regrouped(world.journal, rng), other, clock)
        clock.set(world.now_ms())
        assert everything(other) == before


def run(
    seed: int,
    combinations: Sequence[Combination],
    steps: int,
    implementations: Sequence[Implementation] = IMPLEMENTATIONS,
) -> Tally:
    """Run a whole episode on one of these implementations. The same arguments repeat it exactly."""
    rng = Random(seed)
    rules, weights = zip(*RULES, strict=True)
    implementation = implementations[seed % len(implementations)]
    with TemporaryDirectory() as folder, shares(rng) as background:
        world = begin(rng, implementation, Path(folder), combinations, background)
        with world.deployment:
            for _ in range(steps):
                step(world, rng, rng.choices(rules, weights)[0])
            finish(world, rng)
    return Tally(steps, world.comparison.rankings)
