"""The data of one board in the memory index."""

from array import array
from collections.abc import Iterator
from itertools import chain

from msgspec import Struct, field

from laurels.core.ranking_key import RankingKey
from laurels.engine.batch.fold import Shape
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tally.tally import Tally
from laurels.engine.tree.ranked_set import ORDINAL, RankedSet
from laurels.errors import CheckFailed
from laurels.model.rules import Rules
from laurels.model.score import word_bounds

from .directory import Directory
from .remembered import Remembered


class ScopeStore(Struct, eq=False, gc=False):
    """The data of one scope of a board: rankings by window and instance, rolling windows by name.

    `generation` is the generation of the board when the scope was last advanced. `refreshes` is the
    number of the board's refreshes that the scope has followed (see `deferred`).
    """

    rankings: dict[tuple[str, int], RankedSet] = field(default_factory=dict)
    rolling: dict[str, RollingSet] = field(default_factory=dict)
    generation: int = 0
    refreshes: int = 0

    def __bool__(self) -> bool:
        """Return whether there are rankings or rolling windows."""
        return bool(self.rankings or self.rolling)

    @property
    def nbytes(self) -> int:
        """The size of all rankings and tallies in bytes. O(windows * steps)."""
        rankings_nbytes = sum([ranking.nbytes for ranking in self.rankings.values()])
        return rankings_nbytes + sum([rolling.nbytes for rolling in self.rolling.values()])

    def holds(self, id: int) -> bool:
        """Return whether a member is in any ranking, or in a tally of a refreshed window. The
        ranking of such a window may have the member only after the next refresh."""
        rankings = chain(self.rankings.values(), [each.live for each in self.rolling.values()])
        if any(ranking.rank(id, ORDINAL) >= 0 for ranking in rankings):
            return True
        ids = array("I", [id])
        deferred = [each for each in self.rolling.values() if each.deferred]
        return any(tally.words(ids)[0][0] for each in deferred for tally in tallies_of(each))

    def has_entries(self, window: str, instance: int) -> bool:
        """Return whether the ranking of a period, or of a rolling window at the end of a step, has
        a member. If the window is not rotated over the end of the step yet, its tallies decide: it
        has the members that have a cell in any of the steps that count then. O(steps)."""
        if (ranking := self.rankings.get((window, instance))) is not None:
            return len(ranking) > 0
        rolling = self.rolling.get(window)
        if rolling is None or rolling.running > instance:
            return False
        return any(instance - rolling.steps < step <= instance for step in rolling.numbers())

    def keys(self, board: int, scope: str) -> list[RankingKey]:
        """Return the keys of the rankings that have members: those of periods, copies of rolling
        windows at boundaries, and for each rolling window its live ranking, under the running
        step."""
        kept = [RankingKey(board, *name, scope) for name in self.rankings]
        running = [
            RankingKey(board, name, rolling.running, scope)
            for name, rolling in self.rolling.items()
            if len(rolling.live)
        ]
        return kept + running

    def tallies(self, board: int, scope: str) -> Iterator[tuple[RankingKey, Tally]]:
        """Yield the tallies that have members and belong to steps that still count, each with its
        key."""
        for window, rolling in self.rolling.items():
            for step in rolling.numbers():
                if step >= rolling.leaving and (tally := rolling.tally(step)) is not None:
                    yield RankingKey(board, window, step, scope), tally

    def structures(self) -> list[RankedSet | Tally]:
        """Return all rankings except prepared ones, and the tallies of the steps that still
        count."""
        structures: list[RankedSet | Tally] = list(self.rankings.values())
        for rolling in self.rolling.values():
            structures.append(rolling.live)
            structures += tallies_of(rolling)
        return structures

    def drop_empty(self) -> None:
        """Drop empty rankings and rolling windows."""
        for name in [name for name, ranking in self.rankings.items() if not len(ranking)]:
            del self.rankings[name]
        for window in [name for name, rolling in self.rolling.items() if is_empty(rolling)]:
            del self.rolling[window]


class BoardStore(Struct, eq=False):
    """The data of one board.

    - `stamped`: whether an entry has the exact time of its newest event in addition to the tie
      stamp.
    - `parts`: a `ScopeStore` for each scope. The scope "" ranks all events and always exists.
    - `scopes`: the other scopes.
    - `remembered`: the remembered event ids.
    - `data`: the members' data.
    - `building`: the windows whose next refresh is being built, each with the scopes in which that
      refresh will have members. In a new scope, the build starts with the first event.
    - `refreshes`: the number of refreshes that were completely built when they were due.
    - `refreshed`: for each window, the value of `refreshes` after the window's last refresh. If it
      is greater than the `refreshes` of a scope, the scope has not followed the refresh yet: the
      ranking to be shown is still its prepared one.
    - `frozen`: the windows and instances of the rankings that do not change any more, in any scope.
    """

    rules: Rules
    shape: Shape
    stamped: bool
    parts: dict[str, ScopeStore]
    remembered: Remembered
    data: dict[bytes, bytes]
    scopes: Directory = field(default_factory=Directory)
    building: dict[str, set[str]] = field(default_factory=dict)
    refreshes: int = 0
    refreshed: dict[str, int] = field(default_factory=dict)
    frozen: set[tuple[str, int]] = field(default_factory=set)

    @property
    def whole(self) -> ScopeStore:
        """The data of the scope of all events."""
        return self.parts[""]

    def open_ranking(self, key: RankingKey, roster: Roster) -> RankedSet:
        """Return the ranking of a period, or the copy of a rolling window's ranking at the end of a
        step. Create it if it is missing."""
        _, window, instance, scope = key
        part = self.parts.get(scope)
        if part is None:
            part = self.open_part(scope)
        ranking = part.rankings.get((window, instance))
        if ranking is None:
            ranking = part.rankings[window, instance] = RankedSet(
                roster,
                columns=self.rules.score_words(window),
                tie=self.rules.tie != 0,
                stamped=self.stamped,
                dense=self.rules.rank == "dense",
                stepped=self.rules.windows[window].steps > 0,
            )
        return ranking

    def changing(self, part: ScopeStore) -> list[RankedSet]:
        """Return the rankings of periods in a scope that are neither frozen nor copies of a rolling
        window's ranking."""
        return [
            each
            for name, each in part.rankings.items()
            if name not in self.frozen and not each.stepped
        ]

    def moving(self, part: ScopeStore) -> list[RollingSet]:
        """Return the rolling windows of a scope, without frozen ones. A rolling window is frozen
        when the board has ended, since it no longer moves."""
        return [
            rolling
            for window, rolling in part.rolling.items()
            if not self.frozen or (window, rolling.running) not in self.frozen
        ]

    def open_rolling(
        self, scope: str, window: str, steps: int, running: int, roster: Roster
    ) -> RollingSet:
        """Return a rolling window of a scope. Create it if it is missing."""
        rolling = self.open_part(scope).rolling
        if window not in rolling:
            lows, highs = word_bounds(self.rules, steps)
            rolling[window] = RollingSet(
                roster,
                self.shape,
                steps=steps,
                lows=lows,
                highs=highs,
                dense=self.rules.rank == "dense",
                running=running,
                deferred=window in self.rules.refreshed,
            )
            if window in self.building:
                rolling[window].build(1)
        return rolling[window]

    def open_part(self, scope: str) -> ScopeStore:
        """Return the data of a scope. Create it if it is missing."""
        if (part := self.parts.get(scope)) is None:
            part = self.parts[scope] = ScopeStore(refreshes=self.refreshes)
            self.scopes.add(scope)
        return part

    def stale_windows(self, part: ScopeStore) -> list[RollingSet]:
        """Return the rolling windows whose last refresh the scope has not followed yet."""
        return [
            part.rolling[window]
            for window, number in self.refreshed.items()
            if number > part.refreshes and window in part.rolling
        ]

    def schedule(self, window: str, scope: str) -> None:
        """If a window's next refresh is being built, record whether that refresh will have members
        in a scope. Must be called when the scope gets its first cell or loses cells. O(steps)."""
        if (listed := self.building.get(window)) is None:
            return
        part = self.parts.get(scope)
        rolling = None if part is None else part.rolling.get(window)
        if rolling is not None and rolling.cells:
            listed.add(scope)
        else:
            listed.discard(scope)

    def check(self) -> None:
        """Check three things: every stored scope is listed once and is not empty; a scope that has
        not followed the last refresh has built the ranking for it; and `building` has the right
        scopes."""
        if sorted(self.scopes) != sorted(scope for scope in self.parts if scope):
            raise CheckFailed(
                f"expected the scopes {list(self.parts)} to be listed, got {list(self.scopes)}"
            )
        for scope, part in self.parts.items():
            if scope and not part:
                raise CheckFailed(f"the scope {scope} exists but has no members")
            if not all(rolling.built for rolling in self.stale_windows(part)):
                raise CheckFailed(f"expected the scope {scope} to have built the last refresh")
        for window, listed in self.building.items():
            self._check_listed(window, listed)

    def _check_listed(self, window: str, listed: set[str]) -> None:
        rolling_sets = {
            scope: p.rolling[window] for scope, p in self.parts.items() if window in p.rolling
        }
        if not listed <= {scope for scope, rolling in rolling_sets.items() if rolling.cells}:
            raise CheckFailed(
                f"expected members in the next refresh of {window} in each of the scopes {listed}"
            )
        following = {scope for scope in rolling_sets if not self.stale_windows(self.parts[scope])}
        if any(rolling_sets[s].built and rolling_sets[s].cells for s in following - listed):
            raise CheckFailed(
                f"expected members in the next refresh of {window} only in the scopes {listed}"
            )

    def drop_empty(self, scope: str) -> None:
        """Drop the empty structures of a scope, and the scope if nothing is left."""
        if (part := self.parts.get(scope)) is None:
            return
        part.drop_empty()
        if scope and not part:
            del self.parts[scope]
            self.scopes.discard(scope)


def is_empty(rolling: RollingSet) -> bool:
    """Return whether a rolling window has no members in its live ranking and, if it is a refreshed
    window, none in its tallies."""
    return not len(rolling.live) and not (rolling.deferred and rolling.numbers())


def tallies_of(rolling: RollingSet) -> list[Tally]:
    """Return the tallies of the steps that still count, including empty ones."""
    tallies = map(rolling.tally, range(rolling.leaving, rolling.running + 1))
    return [tally for tally in tallies if tally is not None]


def changed_structures(rolling: RollingSet, *, best: bool) -> list[RankedSet | Tally]:
    """Return the structures that an event may change besides the tally of its step: the live
    ranking and, with best columns, the tallies of other steps, in which the event may replace worse
    candidates. For a deferred window return none, since its ranking is changed only by
    refreshes."""
    if rolling.deferred:
        return []
    return [rolling.live, *(tallies_of(rolling) if best else ())]
