"""What time has made due for the scopes of a board, as an index on a server is told. Pure.

A scope has to be brought where it was brought last before a period or step began that runs now:
some of its rankings may be no longer kept, and its rolling windows stand at a step that has ended.
"""

from msgspec import Struct

from laurels.model.rules import Rules

from .plan import Floors, RollingState, oldest_stored, roll_of


class Due(Struct, frozen=True):
    """Scopes that were brought before `since_ms` are behind. By window, periods that begin before
    `oldest_ms` are no longer kept; `rolls` is where the rolling ones stand."""

    now_ms: int
    since_ms: int
    oldest_ms: dict[str, int]
    rolls: tuple[RollingState, ...]


def due_of(number: int, rules: Rules, floors: Floors, now_ms: int) -> Due:
    """What is due for the scopes of a board at `now_ms`."""
    rolls = [roll_of(number, window, now_ms) for window in rules.windows.values()]
    return Due(
        now_ms=now_ms,
        since_ms=since_ms(rules, now_ms),
        oldest_ms=oldest_stored(rules, floors, now_ms),
        rolls=tuple([roll for roll in rolls if roll is not None]),
    )


def since_ms(rules: Rules, now_ms: int) -> int:
    """When the last period or step of any window began."""
    return max([window.period_at(now_ms).start_ms for window in rules.windows.values()])
