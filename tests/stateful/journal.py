"""A journal of operations. They can be repeated on another deployment, in the same commits or in
others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import laurels
from laurels.errors import LaurelsError


@dataclass(frozen=True)
class Done:
    """An operation on a deployment, which can be repeated on another one. `refreshes` is the number
    of refreshes that were written before it."""

    now_ms: int
    act: Callable[[laurels.Leaderboards], object]
    board: str = ""
    events: tuple[object, ...] = field(default=())
    refreshes: int = 0
    creates: bool = False


def gone_back(journal: Sequence[Done], now_ms: int) -> list[Done]:
    """Return a journal after its deployment was opened again at an earlier time than before.

    The later operations were refused, or had nothing to do: otherwise the time would not be
    earlier. Only the creation of a board advances no time.
    """
    return [
        replace(done, now_ms=min(done.now_ms, now_ms))
        for done in journal
        if done.now_ms <= now_ms or done.creates
    ]


def regrouped(journal: Sequence[Done], rng: Random) -> list[Done]:
    """Return the same events in the same order, grouped into other commits.

    A refresh shows the events that were counted before it. It is written after the first commit
    that finds it due. Such a commit is not regrouped, so the refresh keeps its position.
    """
    result: list[Done] = []
    group: list[Done] = []
    for i, done in enumerate(journal):
        stays = not done.events or _may_refresh(journal, i)
        if group and (stays or not _gathers(group[0], done)):
            result += _cut(group, rng)
            group = []
        if stays:
            result.append(done)
        else:
            group.append(done)
    return result + _cut(group, rng)


def _may_refresh(journal: Sequence[Done], i: int) -> bool:
    """Return whether a refresh may follow this commit. For the last commit this is unknown, so the
    answer is True."""
    return i + 1 == len(journal) or journal[i + 1].refreshes > journal[i].refreshes


def _gathers(done: Done, following: Done) -> bool:
    """Return whether the events of two writes may be in one commit: both have the same board and
    the same time."""
    return (following.board, following.now_ms) == (done.board, done.now_ms)


def _cut(group: Sequence[Done], rng: Random) -> list[Done]:
    """Return the events of these writes in commits of a few events each."""
    parts: list[Done] = []
    events = [event for done in group for event in done.events]
    while events:
        size = rng.randint(1, 4)
        part, events = events[:size], events[size:]
        parts.append(Done(group[0].now_ms, _submission(group[0].board, part)))
    return parts


def _submission(board: str, events: list[object]) -> Callable[[laurels.Leaderboards], object]:
    return lambda lb: lb.submit_many(board, events)


def replay(journal: Sequence[Done], lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    """Repeat all operations of a journal on another deployment."""
    for done in journal:
        clock.set(done.now_ms)
        try:
            done.act(lb)
        except LaurelsError:
            continue
