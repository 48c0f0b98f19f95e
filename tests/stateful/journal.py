"""What was done to a deployment, and doing it again: in the same commits or in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import laurels
from laurels.errors import LaurelsError


@dataclass(frozen=True)
class Done:
    """Something that was done to the deployment, to be done again to another one."""

    now_ms: int
    act: Callable[[laurels.Leaderboards], object]
    board: str = ""
    events: tuple[object, ...] = field(default=())


def regrouped(journal: Sequence[Done], rng: Random) -> list[Done]:
    """The same events in the same order, gathered into other commits."""
    found: list[Done] = []
    held: list[object] = []
    for i, done in enumerate(journal):
        if not done.events:
            found.append(done)
            continue
        held.extend(done.events)
        following = journal[i + 1] if i + 1 < len(journal) else None
        if following is None or not _gathers(done, following):
            found.extend(_cut(held, done, rng))
            held = []
    return found


def _gathers(done: Done, following: Done) -> bool:
    """Whether events of both may share a commit: the same board at the same time."""
    same = (following.board, following.now_ms) == (done.board, done.now_ms)
    return same and bool(following.events)


def _cut(events: list[object], done: Done, rng: Random) -> list[Done]:
    parts: list[Done] = []
    while events:
        size = rng.randint(1, 4)
        part, events = events[:size], events[size:]
        parts.append(Done(done.now_ms, _submission(done.board, part)))
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
