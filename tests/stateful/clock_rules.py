"""The steps of the random tests that concern the clock: leaps that are not believed, leaps that
are, and restarts with an earlier clock."""

from __future__ import annotations

from random import Random

from tests.calendar_by_scanning import HOUR, MINUTE
from tests.stateful import moments
from tests.stateful.clock import HOLD_MS, MAX_STEP_MS
from tests.stateful.world import World


def leap(world: World, rng: Random) -> None:
    """Let the wall clock leap so far that the deployment does not believe it: time goes on as
    before. If it has leapt already, set it right, accept the leap, or let it last until it is
    followed."""
    now_ms, leapt = world.now_ms(), world.clock.leap()
    if leapt is None:
        by_ms = rng.choice([1, 1, 1, -1]) * _distance(world, rng)
        world.clock.let_leap(max(by_ms, MAX_STEP_MS + 1) if by_ms > 0 else -2 * HOUR)
        assert world.now_ms() == now_ms
        _within_a_leap(world, rng)
        return
    end = rng.randrange(4)
    if end == 0:
        world.clock.let_leap(-leapt.by_ms)
        assert world.now_ms() == now_ms
    elif end == 1:
        assert world.lb.accept_clock().leap_ms == 0
    else:
        world.clock.set(now_ms + HOLD_MS)
    assert world.clock.leap() is None


def _within_a_leap(world: World, rng: Random) -> None:
    """Let some time pass within a leap, but not so much that it is believed."""
    leapt = world.clock.leap()
    assert leapt is not None
    status = world.lb.clock_status()
    assert (status.now_ms, status.leap_ms) == (world.now_ms(), leapt.by_ms)
    if rng.random() < 0.5:
        world.clock.set(world.clock.now_ms() + rng.choice([1, 1_000, MINUTE]))
        assert world.clock.leap() is not None


def set_back(world: World, rng: Random) -> None:
    """Restart the deployment after its machine was started anew with an earlier clock, as far as
    the data outlives that. Time stands still until the clock reaches the last commit.

    An index server knows only the times of its boards, and a process learns the time of a board
    when it matters. So what it answers before the last commit is not compared: its clock is set
    back to the last commit, or visits an earlier time and returns.
    """
    deployment = world.deployment
    if not deployment.lasting:
        return
    by_ms = rng.choice([1, 1_000, 5 * MINUTE, HOUR, _distance(world, rng)])
    earlier_ms = world.clock.now_ms() - by_ms
    if deployment.exclusive:
        world.restart(earlier_ms)
    elif deployment.divides_time or rng.random() < 0.5:
        world.visit(earlier_ms)
    else:
        world.restart(max(earlier_ms, world.oracle.latest_ms))


def _distance(world: World, rng: Random) -> int:
    """Return how far a clock is off: often by some periods of a window, sometimes by more than
    ten."""
    board = world.oracle.boards[world.pick(rng)]
    timed = moments.timed_windows(board)
    if not timed or rng.random() < 0.3:
        return rng.choice([2, 26, 11 * 24]) * HOUR
    span = rng.choice(timed).back(0, world.now_ms())
    length_ms = min(span.end_ms - span.start_ms, moments.DAY_MS)
    return rng.choice([1, 2, 11]) * length_ms + rng.choice([-1, 0, 1])
