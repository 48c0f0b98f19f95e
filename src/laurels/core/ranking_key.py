"""The names of rankings, by which plans, queries and indexes mean the same one. Pure."""

from typing import NamedTuple

from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period


class RankingKey(NamedTuple):
    """Names one ranking, or the tally of a step.

    `instance` is the start of the period in milliseconds, in a rolling window the number of the
    step; `scope` the labels of those it ranks, empty where it ranks all.
    """

    board: int
    window: str
    instance: int
    scope: str = ""


class Target(NamedTuple):
    """A ranking or tally a batch touches and the period or step it stands for."""

    key: RankingKey
    period: Period


def ranking_key(board: int, window: Window, period: Period, scope: str = "") -> RankingKey:
    """Return the name of what a window keeps for a period or step."""
    return RankingKey(board, window.name, window.instance_of(period), scope)
