"""The effect of passing time on the rankings of a board: which periods expire, the step of its
rolling windows, when a refresh is due. Pure.

The store of this process and that on an index server follow the same rules; they differ in how they
do the due work: under a lock in shares, or by calls in shares.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from laurels.model.rules import Rules
from laurels.model.windows.kinds import Window
from laurels.model.windows.rolling import Rolling
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

from .ranking_key import RankingKey, Target, ranking_key

Floors = dict[str, int]
"""Per window: periods that began before this instant are gone, whatever `keep` says today."""


# Boundaries


def next_boundary(rules: Rules, now_ms: int) -> int:
    """Return the next instant at which a period or step of any window of the board ends."""
    return min((w.period_at(now_ms).end_ms for w in rules.windows.values()), default=MAX_MS)


def since_ms(rules: Rules, now_ms: int) -> int:
    """Return the latest start of a running period or step over all windows."""
    return max([window.period_at(now_ms).start_ms for window in rules.windows.values()])


# Expiry


def oldest_stored(rules: Rules, floors: Floors, now_ms: int) -> dict[str, int]:
    """By window the number of the oldest period that is stored at `now_ms`: those before it are
    dropped. Windows that count by steps are not named: theirs go as they turn."""
    found = {
        name: window.oldest_stored(floors.get(name, MIN_MS), now_ms)
        for name, window in rules.windows.items()
    }
    return {name: oldest for name, oldest in found.items() if oldest is not None}


def expired(oldest: dict[str, int], keys: Iterable[RankingKey]) -> list[RankingKey]:
    """Return those of some rankings that are no longer kept, by what `oldest_stored` says."""
    return [key for key in keys if key.instance < oldest.get(key.window, key.instance)]


def floors_at(rules: Rules, floors: Floors, now_ms: int) -> Floors:
    """Return the floors of a board at `now_ms`: a period that has expired stays expired, whatever
    `keep` the board is given."""
    return {
        name: window.floor_after(floors.get(name, MIN_MS), now_ms)
        for name, window in rules.windows.items()
    }


# Steps of rolling windows


class RollingState(NamedTuple):
    """The state of a rolling window: how many steps it counts, and the ranking of the running one.
    `shown` is the step it shows, if that is another."""

    steps: int
    ranking: Target
    shown: Period | None = None

    @property
    def running(self) -> int:
        """The number of the running step."""
        return self.ranking.key.instance

    def in_scope(self, scope: str) -> Target:
        """Return the ranking of the running step in a scope."""
        return Target(self.ranking.key._replace(scope=scope), self.shown or self.ranking.period)


def rolling_state(board: int, window: Window, now_ms: int, scope: str = "") -> RollingState | None:
    """Return the state at `now_ms` of a window that counts by steps; None for another window."""
    if not window.steps:
        return None
    step = window.period_at(now_ms)
    return RollingState(window.steps, Target(ranking_key(board, window, step, scope), step))


# What is due for scopes


class Due(Struct, frozen=True):
    """What stale scopes need: those last advanced before `since_ms` are stale. `oldest_ms` is, by
    window, the start of the oldest period that is kept; `rolling` is the state of each rolling
    window."""

    now_ms: int
    since_ms: int
    oldest_ms: dict[str, int]
    rolling: tuple[RollingState, ...]


def due_of(number: int, rules: Rules, floors: Floors, now_ms: int) -> Due:
    """Return what is due for the scopes of a board at `now_ms`."""
    rolls = [rolling_state(number, window, now_ms) for window in rules.windows.values()]
    return Due(
        now_ms=now_ms,
        since_ms=since_ms(rules, now_ms),
        oldest_ms=oldest_stored(rules, floors, now_ms),
        rolling=tuple([roll for roll in rolls if roll is not None]),
    )


# Refreshes


class Refreshed(Struct, frozen=True, array_like=True):
    """The state of a window that is refreshed.

    `now_ms` is when it was refreshed last, None before the first time. `offset` is the log entry
    that last changed what it shows: that refresh or, since then, a member removed or its data
    changed; of a board in several shards, one for each. `waiting` is whether another refresh may
    list anybody: members are listed, or something was counted since.
    """

    offset: int | tuple[int, ...] = 0
    now_ms: int | None = None
    waiting: bool = False

    def due_ms(self, window: Rolling) -> int:
        """From when on another refresh is due."""
        if not self.waiting:
            return MAX_MS
        return MIN_MS if self.now_ms is None else window.due_after(self.now_ms)


NEVER = Refreshed()


class RefreshState(Struct, frozen=True):
    """The state of a refreshed window in one shard of a board, after its change number `seen`.
    `since_ms` is when it was refreshed last or, with the other shards, skipped as there was nobody;
    the other fields are those of `Refreshed`."""

    offset: int = 0
    now_ms: int | None = None
    waiting: bool = False
    since_ms: int | None = None
    seen: int = 0

    def due_ms(self, window: Rolling) -> int:
        """From when on another refresh of this shard is due."""
        return Refreshed(self.offset, self.since_ms, self.waiting).due_ms(window)


def of_shards(states: Sequence[RefreshState]) -> Refreshed:
    """Return the state of a window from those of its board's shards, each with a refresh of its
    own: it is shown as of the newest."""
    offset = states[0].offset if len(states) == 1 else tuple([each.offset for each in states])
    shown = [each.now_ms for each in states if each.now_ms is not None]
    return Refreshed(offset, max(shown, default=None), any(each.waiting for each in states))
