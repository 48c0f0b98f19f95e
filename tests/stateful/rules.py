"""The steps of the random tests, as one function per kind of step, with their frequencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from tests.calendar_by_scanning import HOUR
from tests.definitions import ALL, Definition, Report, Scope, WindowDef
from tests.oracle_rolling import RollingWindow
from tests.stateful import choices, clock_rules, limits, moments, season_rules, window_choices
from tests.stateful.world import World

Rule = Callable[[World, Random], None]


def submit(world: World, rng: Random) -> None:
    name = world.pick(rng)
    report = choices.report(rng, world.oracle.boards[name], world.now_ms())
    world.submit(name, report, window(world, rng, name), scope(world, rng, name))


def set_score(world: World, rng: Random) -> None:
    name = world.pick(rng)
    board = world.oracle.boards[name]
    report = choices.report(rng, board, world.now_ms(), absolute=True)
    world.submit(name, report, window(world, rng, name), scope(world, rng, name))


def submit_many(world: World, rng: Random) -> None:
    name = world.pick(rng)
    board = world.oracle.boards[name]
    now_ms = world.now_ms()
    world.submit_many(
        name,
        [choices.report(rng, board, now_ms) for _ in range(rng.randint(0, 6))],
        window(world, rng, name),
        ranks=rng.random() < 0.5,
        all_or_nothing=rng.random() < 0.3 and not world.deployment.divided,
        scope=scope(world, rng, name),
    )


def hammer(world: World, rng: Random) -> None:
    """Submit many events of one member in one batch, so that the result of each event depends on
    the events before it."""
    name = world.pick(rng)
    board = world.oracle.boards[name]
    now_ms = world.now_ms()
    member = rng.choice(choices.MEMBERS)
    reports: list[Report] = [
        replace(choices.report(rng, board, now_ms), member=member) for _ in range(8)
    ]
    world.submit_many(
        name,
        reports,
        window(world, rng, name),
        ranks=True,
        all_or_nothing=False,
        scope=scope(world, rng, name),
    )


def scatter(world: World, rng: Random) -> None:
    """Submit late events of two members in several steps of a rolling window. Sometimes move the
    clock to the end of the running step afterwards."""
    name = world.pick(rng)
    board = world.oracle.boards[name]
    rolling = [w for w in board.windows.values() if isinstance(w, RollingWindow)]
    if not rolling:
        return
    now_ms = world.now_ms()
    window = rng.choice(rolling)
    pair = rng.sample(choices.MEMBERS, 2)
    reports = [
        replace(
            choices.report(rng, board, now_ms),
            member=rng.choice(pair),
            at=moments.in_a_step(rng, window, now_ms),
            id=None,
        )
        for _ in range(rng.randint(1, 8))
    ]
    called = rng.choice([None, *board.windows])
    world.submit_many(
        name,
        reports,
        called,
        ranks=True,
        all_or_nothing=rng.random() < 0.2 and not world.deployment.divided,
        scope=scope(world, rng, name),
    )
    if rng.random() < 0.5:
        world.clock.set(window.back(0, now_ms).end_ms)


def pass_time(world: World, rng: Random) -> None:
    board = world.oracle.boards[world.pick(rng)]
    world.clock.set(moments.later(rng, board, world.now_ms()))


def cross(world: World, rng: Random) -> None:
    """Move the clock to a boundary of a period or step. Then write or restart before anything is
    read."""
    board = world.oracle.boards[world.pick(rng)]
    world.clock.set(moments.beyond(rng, board, world.now_ms()))
    first: tuple[Rule, ...] = (submit, submit, submit_many, set_score, remove, set_data, restart)
    for _ in range(rng.randint(1, 2)):
        rng.choice(first)(world, rng)


def be_down(world: World, rng: Random) -> None:
    """Move the clock over several periods of a window at once, sometimes over more than ten, as
    after a downtime. Often write or restart before anything is read."""
    name = world.pick(rng)
    now_ms = world.now_ms()
    timed = moments.timed_windows(world.oracle.boards[name])
    hours = rng.choice([2, 11, 26, 24 * 11])
    if timed and rng.random() < 0.7:
        window = rng.choice(timed)
        span = window.back(0, now_ms)
        length_ms = min(span.end_ms - span.start_ms, moments.DAY_MS)
        world.clock.set(now_ms + rng.choice([2, 3, 11, 12]) * length_ms + rng.choice([-1, 0, 1]))
    else:
        world.clock.set(now_ms + hours * HOUR)
    first: tuple[Rule, ...] = (submit, submit_many, remove, hide, show, restart, seal, change)
    for _ in range(rng.randint(0, 2)):
        rng.choice(first)(world, rng)


def query(world: World, rng: Random) -> None:
    world.comparison.some_ranking(world.lb, world.pick(rng), rng).every(rng)


def read_on(world: World, rng: Random) -> None:
    """Read the next page of a ranking, which may have changed since the previous page."""
    ranking = world.comparison.some_ranking(world.lb, world.pick(rng), rng)
    ranking.next_page(world.comparison.bookmarks, rng)


def query_unreadable(world: World, rng: Random) -> None:
    """Query a random period or step, which usually cannot be read."""
    name = world.pick(rng)
    board = world.oracle.boards[name]
    called, window = rng.choice(list(board.windows.items()))
    now_ms = world.now_ms()
    labels = [None, "yesterday", "2026-11-20", "2026-11-20T15:00Z", "2026-11-20T15:00:30Z"]
    if window in moments.timed_windows(board):
        by = rng.choice([0, 1, 2, window.depth(now_ms) - 1])
        labels += [window.back(min(by, window.depth(now_ms) - 1), now_ms).label] * 4
    if isinstance(window, RollingWindow):
        aside = window.back(rng.choice([-1, 1, window.steps, -2]), now_ms)
        labels += [aside.label] * 4
    world.count(name, called, rng.choice(labels), _amiss(world, rng, name))


def _amiss(world: World, rng: Random, name: str) -> Scope:
    """Return a scope that the board may or may not have."""
    if not world.definition(name).labels:
        return ALL
    names = rng.sample(choices.LABELS, rng.randint(0, 2))
    odd = [Scope(by=rng.choice([*choices.LABELS, "nope"])), Scope((("nope", "x"),)), ALL]
    odd.append(Scope(tuple((label, rng.choice(choices.VALUES)) for label in sorted(names))))
    return rng.choice([*odd, choices.some_scope(rng, world.oracle.boards[name])])


def read_on_anyway(world: World, rng: Random) -> None:
    """Continue from an old page in the period of that page, even if the period has ended."""
    world.comparison.read_on(world.lb, rng)


def read_changes(world: World, rng: Random) -> None:
    """Read all changes of a board, in pages of some size."""
    world.comparison.changes(world.lb, world.pick(rng), rng)


def remove(world: World, rng: Random) -> None:
    world.remove(world.pick(rng), rng.choice(choices.MEMBERS))


def hide(world: World, rng: Random) -> None:
    """Hide a member, for a time or until it is shown."""
    name, until_ms = world.pick(rng), end_of_hiding(world, rng)
    world.hide(name, rng.choice(choices.MEMBERS), rng.choice(["bot", "abuse"]), until_ms)


def hide_everywhere(world: World, rng: Random) -> None:
    """Hide a member on all boards, for a time or until it is shown, or show one again that is
    hidden on all boards."""
    hidden = sorted(world.oracle.hidden_everywhere)
    if hidden and rng.random() < 0.5:
        world.show_everywhere(rng.choice([*hidden, rng.choice(choices.MEMBERS)]))
    else:
        until_ms = end_of_hiding(world, rng)
        world.hide_everywhere(rng.choice(choices.MEMBERS), rng.choice(["bot", "abuse"]), until_ms)
    world.hidden(world.pick(rng))


def end_of_hiding(world: World, rng: Random) -> int | None:
    """Return the end of a new hiding, or None for a hiding without an end."""
    lengths_ms = [1, 5_000, 60_000, 3_600_000]
    return rng.choice([None, world.now_ms() + rng.choice(lengths_ms)])


def show(world: World, rng: Random) -> None:
    name = world.pick(rng)
    hidden = sorted(world.oracle.boards[name].hidden)
    world.show(name, rng.choice(hidden or choices.MEMBERS))
    world.hidden(name)


def erase(world: World, rng: Random) -> None:
    """Erase a member."""
    world.erase(rng.choice(choices.MEMBERS))


def clear(world: World, rng: Random) -> None:
    """Remove all members of a board."""
    world.clear(world.pick(rng))


def set_data(world: World, rng: Random) -> None:
    profile = rng.choice([None, {"name": "Zoë"}, [1, "x", None], "x"])
    world.set_data(world.pick(rng), rng.choice(choices.MEMBERS), profile)


def restart(world: World, rng: Random) -> None:  # noqa: ARG001 (a rule like the others)
    if world.deployment.lasting:
        world.restart()
    else:
        world.lb.rebuild()


def snapshot(world: World, rng: Random) -> None:
    """Take a snapshot. Sometimes restart the store, so that it opens from the snapshot and the
    later log."""
    if not world.deployment.exclusive:
        return
    world.lb.snapshot()
    if rng.random() < 0.5:
        world.restart()


def check(world: World, rng: Random) -> None:  # noqa: ARG001 (a rule like the others)
    world.lb.check()


def seal(world: World, rng: Random) -> None:  # noqa: ARG001 (a rule like the others)
    if world.deployment.archives:
        world.seal()


def change(world: World, rng: Random) -> None:
    """Change the title, `hide_zero` and the `keep` of a board. Sometimes also change the `keep` or
    the archive of a window, or add a window. In other cases, only add a scope or a label whose
    values are ranked."""
    definition = world.definition(world.pick(rng))
    if rng.random() < 0.3:
        count_by_more(world, rng, definition)
        return
    kind = rng.randint(0, 3)
    windows = list(definition.windows)
    if kind == 0:
        i = rng.randrange(len(windows))
        if windows[i].unit not in {"all", "rolling", "decay"} and windows[i].name is not None:
            windows[i] = replace(windows[i], keep=rng.randint(1, 4))
    elif kind == 2 and can_archive(world, definition):
        i = rng.randrange(len(windows))
        unarchived = replace(windows[i], archive=None, archive_every=None, prizes=None)
        windows[i] = window_choices.prized(
            rng,
            window_choices.archived(rng, unarchived),
            definition.columns,
            definition.scopes,
        )
    elif kind == 1 and len(windows) < 6:
        added = rng.choice(
            [
                WindowDef(),
                window_choices.calendar(rng, rng.choice(["hour", "day", "week"]), definition.tz),
                replace(window_choices.rolling(rng, 0, definition.tz), grace=None),
                replace(window_choices.rolling(rng, 0, definition.tz), grace=None),
            ]
        )
        if world.deployment.refreshes:
            added = window_choices.refreshed(rng, added)
        windows.append(replace(added, name=f"w{len(windows)}"))
    keep = rng.choice([definition.keep, 1, 3])
    title = rng.choice(["", "Gifts", "Geschenke 🎁"])
    hide_zero = definition.hide_zero != (rng.random() < choices.HIDDEN)
    places = len(windows) * (len(definition.scopes) + len(definition.rank_by))
    changed = replace(
        definition, title=title, keep=keep, windows=tuple(windows), hide_zero=hide_zero
    )
    if places <= choices.MOST_PLACES:
        world.change(changed)


def count_by_more(world: World, rng: Random, definition: Definition) -> None:
    """Add a scope, or a label whose values are ranked, to a board."""
    scopes, rank_by = definition.scopes, definition.rank_by
    if rng.random() < 0.6 or world.deployment.divided:
        some = sorted(rng.sample(choices.LABELS, rng.randint(0, 2)))
        scopes = tuple(dict.fromkeys([*scopes, tuple(some)]))
    else:
        rank_by = tuple(dict.fromkeys([*rank_by, rng.choice(choices.LABELS)]))
    if len(definition.windows) * (len(scopes) + len(rank_by)) <= choices.MOST_PLACES:
        world.change(replace(definition, scopes=scopes[:8], rank_by=rank_by))


def change_limits(world: World, rng: Random) -> None:
    """Change the start, the end or the `retain` of a board, mostly of one that has some of them. If
    the board has ended and stays as it is, sometimes create another board in its place."""
    now_ms, names = world.now_ms(), world.names()
    ending = [name for name in names if world.definition(name).ends] or names
    name = rng.choice(ending) if ending and rng.random() < 0.8 else world.pick(rng)
    world.change(limits.changed(rng, world.definition(name), now_ms))
    ends = world.definition(name).ends
    if isinstance(ends, int) and ends <= now_ms and rng.random() < 0.5 and world.delete(name):
        world.create(world.chosen(rng, name, rng.choice(choices.COMBINATIONS)))


def begin_anew(world: World, rng: Random) -> None:
    """Delete a board. Create another board with the same name."""
    name = world.pick(rng)
    combination = rng.choice(choices.COMBINATIONS)
    if world.delete(name):
        world.create(world.chosen(rng, name, combination))


def can_archive(world: World, definition: Definition) -> bool:
    """Return whether the windows of a board may have an archive."""
    deployment = world.deployment
    return deployment.archives and (not definition.ledger or () in definition.scopes)


def window(world: World, rng: Random, name: str) -> str | None:
    return rng.choice([None, *world.oracle.boards[name].windows])


def scope(world: World, rng: Random, name: str) -> Sequence[str] | None:
    """Return the label names of a scope whose scores and ranks the receipts are to show, or None
    for no such request."""
    definition = world.definition(name)
    return rng.choice([None, *definition.scopes]) if definition.labels else None


RULES: tuple[tuple[Rule, int], ...] = (
    (submit, 30),
    (set_score, 8),
    (submit_many, 20),
    (hammer, 4),
    (scatter, 10),
    (pass_time, 14),
    (cross, 8),
    (be_down, 3),
    (clock_rules.leap, 3),
    (clock_rules.set_back, 2),
    (query, 8),
    (query_unreadable, 3),
    (read_on, 8),
    (read_on_anyway, 3),
    (read_changes, 5),
    (remove, 3),
    (hide, 4),
    (show, 2),
    (hide_everywhere, 3),
    (erase, 2),
    (clear, 1),
    (set_data, 2),
    (restart, 2),
    (snapshot, 2),
    (check, 3),
    (seal, 4),
    (season_rules.end_a_period, 12),
    (season_rules.confirm, 3),
    (season_rules.disqualify, 3),
    (season_rules.query, 3),
    (season_rules.undelete, 2),
    (change, 3),
    (change_limits, 3),
    (begin_anew, 1),
)
