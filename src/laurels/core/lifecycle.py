"""The effect of passing time on the rankings of a board: which periods expire, the step of its
rolling windows, when a refresh is due. Pure.

The store in this process and the store on an index server follow the same rules. The due work is
done in shares. In this process each share runs under a lock; on an index server each share is one
call.
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
"""For each window, by name, an instant in milliseconds. Periods that began before this instant are
gone, even if `keep` was increased since."""


# Boundaries


def next_boundary(rules: Rules, now_ms: int) -> int:
    """Return the next instant at which a period or step of any window of the board ends, or the
    board starts or ends. After the board's end, return the instant of the board's removal, or
    MAX_MS if that has passed or the board is not removed."""
    if rules.has_ended(now_ms):
        return rules.gone_ms if now_ms < rules.gone_ms else MAX_MS
    ends_ms = min((w.period_at(now_ms).end_ms for w in rules.windows.values()), default=MAX_MS)
    return min(ends_ms, rules.starts_ms) if now_ms < rules.starts_ms else ends_ms


def since_ms(rules: Rules, now_ms: int) -> int:
    """Return the latest of the starts of the running periods and steps of all windows."""
    return max([window.period_at(now_ms).start_ms for window in rules.windows.values()])


# Expiry


def oldest_stored(rules: Rules, floors: Floors, now_ms: int) -> dict[str, int]:
    """Return, by window, the instance of the oldest period that is stored at `now_ms`. Earlier
    periods are dropped. Rolling windows are left out, since their steps are dropped as they rotate.
    """
    instances = {
        name: window.oldest_stored(floors.get(name, MIN_MS), now_ms)
        for name, window in rules.windows.items()
    }
    return {name: oldest for name, oldest in instances.items() if oldest is not None}


def expired(oldest: dict[str, int], keys: Iterable[RankingKey]) -> list[RankingKey]:
    """Return the keys of the rankings that are no longer kept; `oldest` is the result of
    `oldest_stored`."""
    return [key for key in keys if key.instance < oldest.get(key.window, key.instance)]


def floors_at(rules: Rules, floors: Floors, now_ms: int) -> Floors:
    """Return the floors of a board at `now_ms`. A period that has expired stays expired, even if
    `keep` is increased."""
    return {
        name: window.floor_after(floors.get(name, MIN_MS), now_ms)
        for name, window in rules.windows.items()
    }


# Steps of rolling windows


class RollingState(NamedTuple):
    """The state of a rolling window: the number of `steps` that it spans, and the ranking of the
    running step. A refreshed window may still show the ranking of an earlier step, `shown`."""

    steps: int
    ranking: Target
    shown: Period | None = None

    @property
    def running(self) -> int:
        """The number of the running step."""
        return self.ranking.key.instance

    def in_scope(self, scope: str) -> Target:
        """Return the window's ranking of the running step in a scope."""
        return Target(self.ranking.key._replace(scope=scope), self.shown or self.ranking.period)


def rolling_state(board: int, window: Window, now_ms: int, scope: str = "") -> RollingState | None:
    """Return the state of a rolling window at `now_ms`; None if the window is of another kind."""
    if not window.steps:
        return None
    step = window.period_at(now_ms)
    return RollingState(window.steps, Target(ranking_key(board, window, step, scope), step))


# Due work in scopes


class Due(Struct, frozen=True):
    """The work due in the scopes of a board. A scope that was last advanced before `since_ms` is
    stale. `oldest_ms` is, by window, the start of the oldest period that is kept; `rolling` is the
    state of each rolling window."""

    now_ms: int
    since_ms: int
    oldest_ms: dict[str, int]
    rolling: tuple[RollingState, ...]


def due_of(number: int, rules: Rules, floors: Floors, now_ms: int) -> Due:
    """Return the work due in the scopes of a board at `now_ms`."""
    rolls = [rolling_state(number, window, now_ms) for window in rules.windows.values()]
    return Due(
        now_ms=now_ms,
        since_ms=since_ms(rules, now_ms),
        oldest_ms=oldest_stored(rules, floors, now_ms),
        rolling=tuple([roll for roll in rolls if roll is not None]),
    )


# Refreshes


class Refreshed(Struct, frozen=True, array_like=True):
    """The state of a refreshed window.

    `now_ms` is the time of its last refresh, None before the first refresh. `offset` is the log
    entry that last changed the window's list: the last refresh, or a later removal of a member or
    change of member data. On a board in several shards it is a tuple with a number for each shard.
    `waiting` is True if the list has members, or if an event was counted since the last refresh.
    Otherwise another refresh would find no members, so none is due.
    """

    offset: int | tuple[int, ...] = 0
    now_ms: int | None = None
    waiting: bool = False

    def due_ms(self, window: Rolling) -> int:
        """Return the time from which another refresh is due."""
        if not self.waiting:
            return MAX_MS
        return MIN_MS if self.now_ms is None else window.due_after(self.now_ms)


NEVER = Refreshed()


class RefreshState(Struct, frozen=True):
    """The state of a refreshed window in one shard of a board, after the shard's change number
    `seen`. `since_ms` is the time of the last refresh, even if that was skipped because this shard
    had no members; `now_ms` is the time of the last one that was not skipped. The other fields are
    as in `Refreshed`."""

    offset: int = 0
    now_ms: int | None = None
    waiting: bool = False
    since_ms: int | None = None
    seen: int = 0

    def due_ms(self, window: Rolling) -> int:
        """Return the time from which another refresh of this shard is due."""
        return Refreshed(self.offset, self.since_ms, self.waiting).due_ms(window)


def of_shards(states: Sequence[RefreshState]) -> Refreshed:
    """Combine the states of a window in the shards of its board, which are refreshed separately.
    The combined time is the time of the newest refresh."""
    offset = states[0].offset if len(states) == 1 else tuple([each.offset for each in states])
    times = [each.now_ms for each in states if each.now_ms is not None]
    return Refreshed(offset, max(times, default=None), any(each.waiting for each in states))
