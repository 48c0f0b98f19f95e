"""What the memory index holds of one board."""

from msgspec import Struct

from laurels.engine.fold import Shape
from laurels.engine.ranked_set import RankedSet
from laurels.engine.rolling import RollingSet
from laurels.engine.roster import Roster
from laurels.engine.tally import Tally
from laurels.plan import RankingKey
from laurels.rules import Rules
from laurels.score import step_bounds

from .remembered import Remembered


class Held(Struct):
    """One board: its rankings by key and its rolling windows by name, the event ids it remembers,
    what its members carry. `stamped` says that entries carry the exact time of their newest
    event beside the tie stamp."""

    rules: Rules
    shape: Shape
    stamped: bool
    rankings: dict[RankingKey, RankedSet]
    rolling: dict[str, RollingSet]
    remembered: Remembered
    data: dict[bytes, bytes]

    def open_ranking(self, key: RankingKey, roster: Roster) -> RankedSet:
        """The ranking of a period; made, empty, where there is none."""
        if key not in self.rankings:
            self.rankings[key] = RankedSet(
                roster,
                columns=self.rules.score_words(key.window),
                tie=self.rules.tie != 0,
                stamped=self.stamped,
                dense=self.rules.rank == "dense",
            )
        return self.rankings[key]

    def open_rolling(self, window: str, steps: int, running: int, roster: Roster) -> RollingSet:
        """The tallies and rankings of a rolling window; made, empty, where there are none."""
        if window not in self.rolling:
            bounds = [step_bounds(c.low, c.high, steps) for c in self.rules.columns]
            signed = [
                sorted((c.sign * low, c.sign * high))
                for c, (low, high) in zip(self.rules.columns, bounds, strict=True)
            ]
            self.rolling[window] = RollingSet(
                roster,
                self.shape,
                steps=steps,
                lows=[low for low, _ in signed],
                highs=[high for _, high in signed],
                dense=self.rules.rank == "dense",
                running=running,
            )
        return self.rolling[window]

    def structures(self) -> list[RankedSet | Tally]:
        """All rankings and tallies that count, but the prepared rankings."""
        found: list[RankedSet | Tally] = list(self.rankings.values())
        for rolling in self.rolling.values():
            found.append(rolling.live)
            found += tallies_of(rolling)
        return found

    def drop_empty(self) -> None:
        """Forgets the rankings and rolling windows that hold nobody."""
        for key in [key for key, ranking in self.rankings.items() if not len(ranking)]:
            del self.rankings[key]
        for name in [n for n, r in self.rolling.items() if not len(r.live) and not r.numbers()]:
            del self.rolling[name]


def tallies_of(rolling: RollingSet) -> list[Tally]:
    """The tallies of the steps that count, those that hold nobody any more included."""
    found = map(rolling.tally, range(rolling.leaving, rolling.running + 1))
    return [tally for tally in found if tally is not None]


def changed_with(rolling: RollingSet, *, best: bool) -> list[RankedSet | Tally]:
    """What an event may change besides the tally of its step: the live ranking, and on best boards
    the cells of other steps, which may be beaten."""
    return [rolling.live, *(tallies_of(rolling) if best else ())]
