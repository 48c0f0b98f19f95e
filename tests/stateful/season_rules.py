"""The steps of the random tests that concern seasons: payouts and corrections."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.definitions import Scope
from tests.oracle_rolling import RollingWindow
from tests.stateful import choices
from tests.stateful.moments import timed_windows
from tests.stateful.world import World


def query(world: World, rng: Random) -> None:
    """Compare the archive of a board, its payouts, and what its members win."""
    world.comparison.seasons.some(world.lb, world.pick(rng), rng)


def end_a_period(world: World, rng: Random) -> None:
    """Count events, and let a period become final that a window closes. Then mostly seal it, and
    confirm and correct some of it."""
    name = world.pick(rng)
    board = world.oracle.boards[name]
    closing = [window for window in timed_windows(board) if window.closings.archive]
    if not closing or not world.deployment.archives:
        return
    now_ms = world.now_ms()
    reports = [choices.report(rng, board, now_ms) for _ in range(rng.randint(2, 7))]
    reports = [replace(report, at=None) for report in reports]
    world.submit_many(name, reports, None, ranks=False, all_or_nothing=False)
    window = min(closing, key=lambda each: each.back(0, now_ms).end_ms)
    grace_ms = 0 if isinstance(window, RollingWindow) else window.grace_ms
    final_ms = window.back(0, now_ms).end_ms + grace_ms
    world.clock.set(max(now_ms, final_ms + rng.choice([0, 1, 1, 2])))
    following = (confirm, disqualify, disqualify, query)
    if rng.random() < 0.8:
        world.seal()
        for _ in range(rng.randint(0, 3)):
            rng.choice(following)(world, rng)


def undelete(world: World, rng: Random) -> None:
    """Restore a removed board, mostly one that can be restored. Sometimes delete a board first."""
    if not world.deployment.archives:
        return
    world.seal()
    world.comparison.seasons.restorable(world.lb)
    names = world.names()
    if names and rng.random() < 0.4:
        world.delete(rng.choice(names))
    removed = [board.definition.name for board in world.oracle.removed]
    name = rng.choice([*removed * 9, world.name(rng, 0), world.name(rng, 1)])
    world.undelete(name, rng.choice([name, name, name, world.name(rng, 1), world.name(rng, 2)]))


def confirm(world: World, rng: Random) -> None:
    """Confirm payouts: sometimes one, due or not, and sometimes all that are due."""
    payouts = list(world.oracle.payouts)
    if not payouts:
        return
    now_ms = world.oracle.now_ms()
    chosen = [rng.choice(payouts)]
    if rng.random() < 0.5:
        chosen = [payout for payout in payouts if payout.state(now_ms) == "due"]
    for payout in chosen:
        newest = [each for each in payouts if each.id == payout.id][-1]
        world.confirm(newest.place.board, newest, rng.choice(["bank-1", "bank-1", "bank-2"]))


def disqualify(world: World, rng: Random) -> None:
    """Disqualify a member, mostly one that is ranked in a sealed period."""
    world.pick(rng)
    named = [
        (name, window)
        for name, board in sorted(world.oracle.boards.items())
        for window in board.windows
    ]
    archived = [
        (name, window)
        for name, window in named
        if world.oracle.boards[name].windows[window].archived()
    ]
    name, window = rng.choice([*archived * 5, *named])
    board = world.oracle.boards[name]
    queried = board.windows[window]
    sealed = queried.archived()
    spans = world.oracle.periods(name, window)
    periods = [*sealed * 4, *(span.label for span in spans)]
    period = rng.choice(periods) if periods else None
    scopes = [scope for scope in board.known_scopes() if scope.by is None]
    scope = rng.choice(scopes) if scopes and rng.random() < 0.5 else None
    ranked = []
    if period in sealed:
        within = scope or (rng.choice(scopes) if scopes else Scope())
        places = world.oracle.places(name, window, period, within)
        ranked = [place.member for place in places[:3]]
    member = rng.choice([*ranked * 4, *choices.MEMBERS])
    world.disqualify(name, member, window, period, scope)
