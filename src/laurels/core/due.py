"""What is due for the scopes of a board, in the form an index on a server is sent. Pure.

A scope is stale if it was last advanced before the start of a period or step that is running now:
some of its rankings may no longer be kept, and its rolling windows are at a step that has ended.
"""

from msgspec import Struct

from laurels.model.rules import Rules

from .plan import Floors, RollingState, oldest_stored, rolling_state


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


def since_ms(rules: Rules, now_ms: int) -> int:
    """Return the latest start of a running period or step over all windows."""
    return max([window.period_at(now_ms).start_ms for window in rules.windows.values()])
