"""Boards with windows of every kind, a history of events for them, and everything that they
answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

from laurels import Board, Column, Leaderboards, ManualClock

HALF_DAY_MS = 43_200_000
START_MS = 1_795_215_600_000
ROOMS = [[], ["room"], ["room", "sex"]]

BOARDS = [
    Board(
        "sums",
        windows=["all", "day", "hour", "7d=rolling:7d/1d", "6h=rolling:6h/1h"],
        scopes=ROOMS,
        rank_by=["room"],
        changes="1d",
    ),
    Board("by-member", tie="member", windows=["all", "day", "3d=rolling:3d/1d"]),
    Board(
        "bests",
        columns=[Column("a", op="best", order="asc"), Column("b", op="best")],
        windows=["all", "5d=rolling:5d/1d", "month"],
        rank="dense",
        scopes=[[], ["room"]],
    ),
    Board("best", columns=[Column("a", op="best")], windows=["5d=rolling:5d/1d", "week"]),
    Board(
        "lasts",
        columns=[Column("a", op="last", scale=2), Column("b", op="sum")],
        windows=["all", "5d=rolling:5d/1d"],
        tie="last",
        tie_resolution="1s",
    ),
    Board("refreshed", windows=["all", "10d=rolling:10d/1d,refresh=1h"], scopes=[[], ["room"]]),
    Board(
        "refreshed-bests",
        columns=[Column("a", op="best")],
        windows=["10d=rolling:10d/1d,refresh=1h"],
    ),
    Board("decays", windows=["all", "f=decay:1d"], scopes=[[], ["room"]]),
    Board(
        "packed",
        columns=[Column("a", min=0, max=1_000_000)],
        tie_resolution="1h",
        windows=["all", "5d=rolling:5d/1d"],
        rank="competition",
    ),
    Board(
        "zeros",
        hide_zero=True,
        windows=["all", "day", "5d=rolling:5d/1d"],
        scopes=[[], ["room"]],
    ),
    Board("heads", head=100, windows=["all", "day"], tie="last", changes="1d"),
    Board("ends", windows=["all", "day"], ends=START_MS + 5 * 86_400_000, retain="30d"),
]
VALUES: dict[str, Callable[[Random], Any]] = {
    "bests": lambda random: (random.randrange(50), random.randrange(50)),
    "lasts": lambda random: (f"{random.randrange(50)}.25", random.randrange(9)),
    "zeros": lambda random: random.randrange(-2, 3),
}


def _number(random: Random) -> int:
    return random.randrange(30)


def labels_of(names: Collection[str], random: Random) -> dict[str, str]:
    """Return random values for the labels of a board."""
    if not names:
        return {}
    labels = {"room": str(random.randrange(3))}
    return {**labels, "sex": random.choice("fm")} if "sex" in names else labels


def events_of(board: Board, random: Random, count: int, day: int) -> list[tuple[Any, ...]]:
    """Return events with ids and labels; the ids of some members are hard to store."""
    names = [f"m{i}" for i in range(20)] + ["é ∑", "a/b", "q\"u'o", "x" * 128, "\x1f:\x00"]
    value, labels = VALUES.get(board.name, _number), board.rules().labels
    return [
        (random.choice(names), value(random), None, f"{day}/{i}", labels_of(labels, random))
        for i in range(count)
    ]


def play(
    lb: Leaderboards, clock: ManualClock, boards: Sequence[Board] = BOARDS, *, days: int = 13
) -> None:
    """Create the boards, and submit a history of this many half days."""
    random = Random(19)
    for board in boards:
        lb.create(board)
    for day in range(days):
        for board in boards:
            events = events_of(board, random, 40, day)
            lb.submit_many(board.name, events, position=("feed", str(day)))
        clock.advance(HALF_DAY_MS + 1_234_567)
    for board in boards:
        lb.submit_many(board.name, events_of(board, random, 30, days))
        lb.set_data(board.name, "m1", {"name": "Em"})
        lb.set_data(board.name, "absent", [1, None])
        lb.remove(board.name, "m2")


def answers(lb: Leaderboards, board: Board) -> dict[Any, Any]:
    """Return everything that a board shows: the entries of each window, period and scope that can
    be read."""
    answered: dict[Any, Any] = {}
    rules = board.rules()
    scopes: list[dict[str, Any]] = [{}]
    for labels in rules.scopes:
        if labels:
            scopes += [{"labels": each} for each in lb.scopes(board.name, *labels)]
    scopes += [{"by": label} for label in rules.rank_by]
    for window in rules.windows:
        for period in [each.label or None for each in lb.periods(board.name, window=window)]:
            for scope in scopes:
                page = lb.top(
                    board.name, window=window, limit=1_000, period=period, with_data=True, **scope
                )
                answered[window, period, repr(scope)] = page.entries, page.total
    answered["position"] = lb.position(board.name, "feed")
    answered["definition"] = lb.get(board.name)
    answered["remembered"] = lb.stats(board.name).remembered
    return answered
