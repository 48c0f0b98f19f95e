"""What was done to a deployment, and doing it again: in the same commits or in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import laurels
from laurels.errors import LaurelsError


@dataclass(frozen=True)
class Done:
    """Something that was done to the deployment, to be done again to another one; `refreshes` are
    those that were written before it."""

    now_ms: int
    act: Callable[[laurels.Leaderboards], object]
    board: str = ""
    events: tuple[object, ...] = field(default=())
    refreshes: int = 0


def regrouped(journal: Sequence[Done], rng: Random) -> list[Done]:
    """The same events in the same order, gathered into other commits.

    A refresh shows what was counted before it, and is written behind the first commit that finds it
    due: such a commit stays as it was, and so the refresh where it was.
    """
    found: list[Done] = []
    held: list[Done] = []
    for i, done in enumerate(journal):
        stays = not done.events or _may_refresh(journal, i)
        if held and (stays or not _gathers(held[0], done)):
            found += _cut(held, rng)
            held = []
        if stays:
            found.append(done)
        else:
            held.append(done)
    return found + _cut(held, rng)


def _may_refresh(journal: Sequence[Done], i: int) -> bool:
    """Whether a refresh was written behind this; of the last one nobody knows."""
    return i + 1 == len(journal) or journal[i + 1].refreshes > journal[i].refreshes


def _gathers(done: Done, following: Done) -> bool:
    """Whether events of both may share a commit: the same board at the same time."""
    return (following.board, following.now_ms) == (done.board, done.now_ms)


def _cut(held: Sequence[Done], rng: Random) -> list[Done]:
    """The events of these, in commits of a few."""
    parts: list[Done] = []
    events = [event for done in held for event in done.events]
    while events:
        size = rng.randint(1, 4)
        part, events = events[:size], events[size:]
        parts.append(Done(held[0].now_ms, _submission(held[0].board, part)))
    return parts


def _submission(board: str, events: list[object]) -> Callable[[laurels.Leaderboards], object]:
    return lambda lb: lb.submit_many(board, events)


def replay(journal: Sequence[Done], lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    """Does everything in a journal to another deployment."""
    for done in journal:
        clock.set(done.now_ms)
        try:
            done.act(lb)
        except LaurelsError:
            continue
