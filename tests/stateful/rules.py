"""What can happen to a deployment, one function each, with how often it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.definitions import Report
from tests.stateful import choices
from tests.stateful.world import World

Rule = Callable[[World, Random], None]


def submit(world: World, rng: Random) -> None:
    name = pick(world, rng)
    report = choices.report(rng, world.oracle.boards[name], world.clock.now_ms())
    world.submit(name, report, window(world, rng, name))


def set_score(world: World, rng: Random) -> None:
    name = pick(world, rng)
    board = world.oracle.boards[name]
    report = choices.report(rng, board, world.clock.now_ms(), absolute=True)
    world.submit(name, report, window(world, rng, name))


def submit_many(world: World, rng: Random) -> None:
    name = pick(world, rng)
    board = world.oracle.boards[name]
    now_ms = world.clock.now_ms()
    world.submit_many(
        name,
        [choices.report(rng, board, now_ms) for _ in range(rng.randint(0, 6))],
        window(world, rng, name),
        ranks=rng.random() < 0.5,
        all_or_nothing=rng.random() < 0.3,
    )


def hammer(world: World, rng: Random) -> None:
    """Many events of one member in one batch: verdicts follow each other closely."""
    name = pick(world, rng)
    board = world.oracle.boards[name]
    now_ms = world.clock.now_ms()
    member = rng.choice(choices.MEMBERS)
    reports: list[Report] = [
        replace(choices.report(rng, board, now_ms), member=member) for _ in range(8)
    ]
    world.submit_many(name, reports, window(world, rng, name), ranks=True, all_or_nothing=False)


def pass_time(world: World, rng: Random) -> None:
    board = world.oracle.boards[pick(world, rng)]
    world.clock.set(choices.later(rng, board, world.clock.now_ms()))


def ask(world: World, rng: Random) -> None:
    world.comparison.some_ranking(world.lb, pick(world, rng), rng).every(rng)


def read_on(world: World, rng: Random) -> None:
    """The next page of a ranking, after whatever happened since the last one."""
    ranking = world.comparison.some_ranking(world.lb, pick(world, rng), rng)
    ranking.next_page(world.comparison.bookmarks, rng)


def remove(world: World, rng: Random) -> None:
    world.remove(pick(world, rng), rng.choice(choices.MEMBERS))


def set_data(world: World, rng: Random) -> None:
    profile = rng.choice([None, {"name": "Zoë"}, [1, "x", None], "x"])
    world.set_data(pick(world, rng), rng.choice(choices.MEMBERS), profile)


def restart(world: World, rng: Random) -> None:  # noqa: ARG001 (a rule like the others)
    if world.deployment.lasting:
        world.deployment.reopen()


def change(world: World, rng: Random) -> None:
    """A new title, another keep for the board or a window, or one window more."""
    definition = world.definition(pick(world, rng))
    kind = rng.randint(0, 2)
    windows = list(definition.windows)
    if kind == 0:
        i = rng.randrange(len(windows))
        if windows[i].unit != "all" and windows[i].name is not None:
            windows[i] = replace(windows[i], keep=rng.randint(1, 4))
    elif kind == 1 and len(windows) < 6:
        unit = rng.choice(["all", "hour", "day", "week"])
        windows.append(replace(choices.calendar(rng, unit, definition.tz), name=f"w{len(windows)}"))
        if unit == "all":
            windows[-1] = replace(windows[-1], keep=None, tz=None, grace=None)
    keep = rng.choice([definition.keep, 1, 3])
    title = rng.choice(["", "Gifts", "Geschenke 🎁"])
    world.change(replace(definition, title=title, keep=keep, windows=tuple(windows)))


def begin_anew(world: World, rng: Random) -> None:
    """A board is deleted and another one gets its name."""
    name = pick(world, rng)
    combination = rng.choice(choices.COMBINATIONS)
    world.delete(name)
    world.create(choices.definition(rng, name, combination, world.tz))


def pick(world: World, rng: Random) -> str:
    return rng.choice(sorted(world.oracle.boards))


def window(world: World, rng: Random, name: str) -> str | None:
    return rng.choice([None, *world.oracle.boards[name].windows])


RULES: tuple[tuple[Rule, int], ...] = (
    (submit, 30),
    (set_score, 8),
    (submit_many, 20),
    (hammer, 4),
    (pass_time, 20),
    (ask, 8),
    (read_on, 8),
    (remove, 3),
    (set_data, 2),
    (restart, 1),
    (change, 2),
    (begin_anew, 1),
)
