"""The keys by which plans, queries and indexes name rankings. Pure."""

from typing import NamedTuple

from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period


class RankingKey(NamedTuple):
    """The name of a ranking, or of the tally of a step.

    `instance` is the start of the period in milliseconds, or in a rolling window the number of the
    step. `scope` is the text of the scope, empty for the scope of all events.
    """

    board: int
    window: str
    instance: int
    scope: str = ""


class Target(NamedTuple):
    """A ranking or tally that a batch writes to, and its period or step."""

    key: RankingKey
    period: Period


def ranking_key(board: int, window: Window, period: Period, scope: str = "") -> RankingKey:
    """Return the key of a window's ranking for a period, or of its tally for a step."""
    return RankingKey(board, window.name, window.instance_of(period), scope)
