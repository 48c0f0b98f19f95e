"""Finds the sealed period that a correction names. Pure."""

from msgspec import Struct

from laurels.model.labels import scope_named
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MIN_MS

from .board_state import BoardState
from .closing import SealedPeriod, ensure_sealed
from .commands import DisqualifyMember
from .named_windows import readable, window_named


class CorrectedPeriod(Struct, frozen=True):
    """The sealed period that a command names, and the scope to be corrected; None stands for all
    scopes."""

    window: str
    instance: int
    period: Period
    sealed: SealedPeriod
    scope: str | None


def corrected_period(state: BoardState, command: DisqualifyMember, now_ms: int) -> CorrectedPeriod:
    """Return the period that a command names at `now_ms`. Raises NotSealed, UnknownWindow,
    UnknownPeriod, PeriodExpired, UnknownScope."""
    window = window_named(state.rules, command.window)
    closing = state.closing.get(window.name)
    floor_ms = state.floors.get(window.name, MIN_MS)
    seen_ms = state.seen_ms(window, now_ms)
    period = readable(window, floor_ms, seen_ms, command.period, closing)
    instance = window.instance_of(period)
    sealed = ensure_sealed(state, window, instance)
    scope = None if command.labels is None else scope_named(state.rules, command.labels)
    return CorrectedPeriod(window.name, instance, period, sealed, scope)
