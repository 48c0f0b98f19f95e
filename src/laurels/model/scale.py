"""Scales convert the words of a window's entries to the scores that are shown. Pure. (The `scale`
of a column is something else: its number of decimal places.)

In most windows the words of a score are its columns, each times its sign. With decay they are the
two words of a total (see `windows/weighing.py`), both times the sign of the only column. The score
shown then depends on the time.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import neg
from typing import Protocol

from msgspec import Struct

from laurels.model.windows.weighing import DecayedTotals

from .rules import Rules
from .score import Score, exact_units, score_of, to_value, units_of

MOST_UNITS = 10**60
"""Greater than every decayed score."""


class Scale(Protocol):
    """Converts the words of one window's entries to scores."""

    def score(self, words: Sequence[int]) -> Score:
        """Return the score that an entry's words represent."""

    def scores(self, words: Sequence[Sequence[int]]) -> list[Score]:
        """Return the scores of many entries, from their words stored column by column."""

    def gap(self, better: Sequence[int], worse: Sequence[int]) -> Score:
        """Return how far one entry is ahead of another, column by column, from the words of both.

        The gap is negative in a column in which the entry is behind. This is possible in columns
        after the one that decides the order.
        """

    def gaps(self, words: Sequence[Sequence[int]]) -> list[Score]:
        """Return how far each of many entries is ahead of the next, from their words in columns."""


class Whole(Struct, frozen=True, gc=False):
    """Converts the words of entries in windows without decay."""

    rules: Rules

    def score(self, words: Sequence[int]) -> Score:
        return score_of(units_of(words, self.rules), self.rules)

    def scores(self, words: Sequence[Sequence[int]]) -> list[Score]:
        columns = self.rules.columns
        if len(columns) > 1:
            own = zip(*words[: len(columns)], strict=True)
            return [score_of(units_of(entry, self.rules), self.rules) for entry in own]
        column = columns[0]
        if not column.scale:
            return list(words[0] if column.sign > 0 else map(neg, words[0]))
        return [to_value(column.sign * word, column.scale) for word in words[0]]

    def gap(self, better: Sequence[int], worse: Sequence[int]) -> Score:
        columns = self.rules.columns
        if len(columns) == 1:
            return to_value(worse[0] - better[0], columns[0].scale)
        ahead = [w - b for b, w, _ in zip(better, worse, columns, strict=False)]
        return score_of(ahead, self.rules)

    def gaps(self, words: Sequence[Sequence[int]]) -> list[Score]:
        columns = self.rules.columns
        if len(columns) == 1:
            scale = columns[0].scale
            return [to_value(worse - better, scale) for better, worse in pairwise(words[0])]
        entries = zip(*words[: len(columns)], strict=True)
        return [self.gap(better, worse) for better, worse in pairwise(entries)]


class DecayedScale(Struct, frozen=True):
    """Converts the words of entries in a window with decay to the scores shown at one instant."""

    totals: DecayedTotals
    sign: int
    name: str

    def score(self, words: Sequence[int]) -> Score:
        return to_value(self._units(words[0], words[1]), self.totals.places)

    def scores(self, words: Sequence[Sequence[int]]) -> list[Score]:
        places, sign = self.totals.places, self.sign
        totals = [
            (sign * first, sign * mantissa) for first, mantissa in zip(*words[:2], strict=True)
        ]
        return [to_value(units, places) for units in self.totals.units_of_many(totals)]

    def gap(self, better: Sequence[int], worse: Sequence[int]) -> Score:
        ahead = self._units(*worse[:2]) - self._units(*better[:2])
        return to_value(self.sign * ahead, self.totals.places)

    def gaps(self, words: Sequence[Sequence[int]]) -> list[Score]:
        totals = zip(*words[:2], strict=True)
        return [self.gap(better, worse) for better, worse in pairwise(totals)]

    def bound(self, score: object) -> int | None:
        """Return `score`, an argument of a query, in units; None for None. Raise the error of an
        invalid score."""
        if score is None:
            return None
        if isinstance(score, (tuple, list)) and len(score) == 1:
            [score] = score
        return exact_units(score, self.totals.places, self.name, MOST_UNITS)

    def words(self, units: int) -> tuple[int, int]:
        """Return the words of the least total that is shown as `units` or more."""
        first, mantissa = self.totals.least(units)
        return self.sign * first, self.sign * mantissa

    def _units(self, first: int, mantissa: int) -> int:
        return self.totals.units((self.sign * first, self.sign * mantissa))


def scale_of(rules: Rules, window: str, now_ms: int) -> Scale:
    """Return the object that converts the words of a window to the scores shown at `now_ms`."""
    decayed = decayed_scale(rules, window, now_ms) if rules.weighings else None
    return Whole(rules) if decayed is None else decayed


def decayed_scale(rules: Rules, window: str, now_ms: int) -> DecayedScale | None:
    """Return the object that converts the words of a window with decay to the scores shown at
    `now_ms`; None for other windows. After the end of the board, these are the scores at that
    end."""
    if (weighing := rules.weighing(window)) is None:
        return None
    column = rules.columns[0]
    return DecayedScale(
        weighing.decayed_at(column.scale, min(now_ms, rules.ends_ms)), column.sign, column.name
    )
