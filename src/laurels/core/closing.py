"""The closing of periods: which ones are due, and what has been closed and sealed. Pure.

A window with `archive` or `prizes` *closes* its periods. A period is due when it is final, so that
no event can change its standings any more (`stream_time.finality`). The ranking of a rolling window
at the end of a step is due at once. The record `close` freezes the rankings of the period in all
scopes. Later they are written to the archive, and the record `seal` says so.

Before a write, the due periods of its board are closed; a read answers as if they were closed. So
no answer depends on the time at which the record is written. A period in which nothing was counted
is closed without a record.

The object that is kept for each period is never part of a reference cycle, so the garbage collector
does not track it (`gc=False`): when many boards close at one midnight, collecting would stop all
threads for long.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from laurels.errors import NotSealed, UnknownRevision
from laurels.model.rules import Rules
from laurels.model.validation import safe_repr
from laurels.model.windows.closing import FOREVER
from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MAX_MS, MIN_MS

from .stream_time import Finality, finality, passed_times

PeriodState = Literal["open", "grace", "final", "closed", "sealed"]


class ClosedPeriod(Struct, frozen=True, array_like=True, gc=False):
    """A period that was closed at `closed_ms` and is not sealed yet. `hide_zero` is whether the
    board did not rank members whose score is 0 when the period was closed. `definition` is the
    definition that the board had then, if it has been changed since; otherwise it is empty.
    `hidden` are the members that were hidden when the period became final."""

    closed_ms: int
    hide_zero: bool = False
    hidden: tuple[bytes, ...] = ()
    definition: bytes = b""


class SealedPeriod(Struct, frozen=True, array_like=True, gc=False):
    """A period whose standings are in the archive: the number of entries in all scopes, and their
    digest. `revision` counts the corrections. `hide_zero` and `hidden` are as in `ClosedPeriod`,
    and `prizes` are those of the definition at its closing, as text; empty if there were none. With
    `archive_only` the rankings in memory have lost members since, so that only the archive has the
    standings. `entry` is the offset of the log entry that sealed it; 0 if it is not known."""

    sealed_ms: int
    entries: int
    digest: bytes
    revision: int = 0
    hide_zero: bool = False
    hidden: tuple[bytes, ...] = ()
    prizes: str = ""
    archive_only: bool = False
    entry: int = 0


class WindowClosing(Struct, array_like=True):
    """The closed periods of a window, by instance.

    Periods that were final before `since_ms` are not closed, since the window did not close periods
    then. `open` has the instances in which something may have been counted, and which are not
    closed yet. `closed` has those that are not sealed yet, `sealed` those in the archive. `trimmed`
    is the newest instance that has left the archive. On an index server the closing of all
    instances up to and including `floor` is recorded. If the board was cleared, `cleared` is the
    `floor` of that time: of the instances up to it, only the archive has the standings.
    """

    since_ms: int = MIN_MS
    open: set[int] = set()
    closed: dict[int, ClosedPeriod] = {}
    sealed: dict[int, SealedPeriod] = {}
    trimmed: int | None = None
    floor: int | None = None
    cleared: int | None = None

    def is_closed(self, instance: int) -> bool:
        """Return whether a period was closed by a record."""
        if instance in self.closed or instance in self.sealed:
            return True
        return self.trimmed is not None and instance <= self.trimmed

    def record_of(self, instance: int) -> ClosedPeriod | SealedPeriod | None:
        """Return the record of a closed or sealed period; None if there is none."""
        return self.closed.get(instance) or self.sealed.get(instance)

    def is_archive_only(self, instance: int) -> bool:
        """Return whether only the archive has the standings of a sealed period, as its rankings in
        memory have lost members since."""
        sealed = self.sealed.get(instance)
        is_cleared = self.cleared is not None and instance <= self.cleared
        return sealed is not None and (sealed.archive_only or is_cleared)

    def has(self, instance: int) -> bool:
        """Return whether a period is in memory or in the archive, whatever the window keeps."""
        return instance in self.sealed or self.is_unsealed(instance)

    def is_unsealed(self, instance: int) -> bool:
        """Return whether a period stays in memory whatever the window keeps."""
        return instance in self.open or instance in self.closed

    def trim(self, archive: int) -> list[tuple[int, SealedPeriod]]:
        """Remove all but the newest `archive` sealed periods, and return the removed ones."""
        if archive == FOREVER or len(self.sealed) <= archive:
            return []
        gone = sorted(self.sealed)[: len(self.sealed) - archive]
        self.trimmed = gone[-1] if self.trimmed is None else max(self.trimmed, gone[-1])
        return [(instance, self.sealed.pop(instance)) for instance in gone]


class ClosingBoard(Protocol):
    """The state of a board, as far as closing needs it."""

    @property
    def rules(self) -> Rules: ...
    @property
    def floors(self) -> Mapping[str, int]: ...
    @property
    def closing(self) -> Mapping[str, WindowClosing]: ...


class DuePeriod(Struct, frozen=True):
    """A period that is due to be closed."""

    window: str
    instance: int
    period: Period
    final_ms: int


def final_ms_of(window: Window, period: Period) -> int:
    """Return the first instant at which a period is final, unless sources lag; MAX_MS if it never
    is."""
    return min(window.closes_after(period) + 1, MAX_MS)


def period_finality(
    rules: Rules, window: Window, period: Period, positions: Mapping[str, str], now_ms: int
) -> Finality:
    """Return whether a period is final at `now_ms`, and which sources it waits for. `positions` are
    those of the board's sources."""
    if window.name in rules.closing and _is_boundary(rules, window, period):
        return Finality(now_ms > window.closes_after(period))
    until_ms = window.taken_until(period)
    return finality(passed_times(positions), until_ms, now_ms, rules.close_wait_ms)


def due_periods(board: ClosingBoard, positions: Mapping[str, str], now_ms: int) -> list[DuePeriod]:
    """Return the periods of a board that are due to be closed at `now_ms`, in the order of their
    ends. O(open periods)."""
    due = []
    for name in board.rules.closing:
        window, closing = board.rules.windows[name], board.closing.get(name)
        for instance in () if closing is None else sorted(closing.open):
            period = window.period_of(instance)
            final_ms = final_ms_of(window, period)
            if final_ms > now_ms:
                break
            if period_finality(board.rules, window, period, positions, now_ms).final:
                # the period may have been final only from now on, if it waited for sources
                waited = positions and not _is_boundary(board.rules, window, period)
                due.append(DuePeriod(name, instance, period, now_ms if waited else final_ms))
    return sorted(due, key=lambda each: each.period.end_ms)


def next_final_ms(board: ClosingBoard) -> int:
    """Return the first instant at which an open period of a board may be final; MAX_MS if there is
    none."""
    times = [
        final_ms_of(window := board.rules.windows[name], window.period_of(min(closing.open)))
        for name in board.rules.closing
        if (closing := board.closing.get(name)) is not None and closing.open
    ]
    return min(times, default=MAX_MS)


def is_closed(
    board: ClosingBoard,
    window: Window,
    period: Period,
    positions: Mapping[str, str],
    now_ms: int,
) -> bool:
    """Return whether a period counts as closed at `now_ms`, even if the record is not written
    yet."""
    closing = board.closing.get(window.name)
    if closing is not None and closing.is_closed(window.instance_of(period)):
        return True
    return (
        closing is not None
        and window.name in board.rules.closing
        and closes_at_all(window, period)
        and final_ms_of(window, period) > closing.since_ms
        and period_finality(board.rules, window, period, positions, now_ms).final
    )


def is_recorded(board: ClosingBoard, window: Window, period: Period) -> bool:
    """Return whether the closing of a period is recorded, or needs no record any more. In a rolling
    window, the step at the board's end decides this for all steps, since they take events until
    that step is closed."""
    closing = board.closing.get(window.name)
    if closing is None or (window.steps and board.rules.ends_ms == MAX_MS):
        return False
    decisive = window.period_at(board.rules.ends_ms) if window.steps else period
    instance = window.instance_of(decisive)
    return closing.is_closed(instance) or (closing.floor is not None and instance <= closing.floor)


def _is_boundary(rules: Rules, window: Window, period: Period) -> bool:
    """Return whether a period is the ranking that a rolling window shows at a boundary. Late events
    do not change such a ranking, so its closing waits for no source. The ranking at the end of the
    board does not count as a boundary, since late events change it."""
    return window.steps > 0 and period.end_ms < rules.ends_ms


def takes_no_events(
    board: ClosingBoard,
    window: Window,
    period: Period,
    positions: Mapping[str, str],
    now_ms: int,
) -> bool:
    """Return whether a period or step takes no more events because it is closed. All steps of a
    rolling window take events until the step at the board's end is closed."""
    if window.steps and board.rules.ends_ms == MAX_MS:
        return False
    decisive = window.period_at(board.rules.ends_ms) if window.steps else period
    return is_closed(board, window, decisive, positions, now_ms)


def closes_at_all(window: Window, period: Period) -> bool:
    """Return whether a period will ever be closed. The window must be one that closes periods; a
    rolling window closes only some of its steps."""
    return window.is_archived(period)


def unsealed_periods(board: ClosingBoard, window: Window, running: Period) -> list[Period]:
    """Return the ended periods of a window that are not sealed yet, newest first. `running` is the
    running period."""
    closing = board.closing.get(window.name)
    if closing is None:
        return []
    unsealed = sorted({*closing.open, *closing.closed}, reverse=True)
    periods = map(window.period_of, unsealed)
    return [period for period in periods if period.end_ms <= running.start_ms]


def state_of(
    board: ClosingBoard, window: Window, period: Period, finality: Finality, now_ms: int
) -> PeriodState:
    """Return the state of a period at `now_ms`. `finality` is the finality of the period."""
    if now_ms < period.end_ms:
        return "open"
    closing = board.closing.get(window.name)
    instance = window.instance_of(period)
    if closing is not None and closing.is_closed(instance):
        return "closed" if instance in closing.closed else "sealed"
    if not finality.final:
        return "grace"
    if (
        closing is None
        or window.name not in board.rules.closing
        or final_ms_of(window, period) <= closing.since_ms
        or not window.is_archived(period)
    ):
        return "final"
    return "closed" if instance in closing.open else "sealed"


def is_archived(board: ClosingBoard, window: Window, instance: int, now_ms: int) -> bool:
    """Return whether the archive, and not the index, answers queries about a period. It does if the
    period is sealed, and the index does not have its present standings: the period was corrected,
    its rankings in the index have lost members, or the index does not keep it any more."""
    closing = board.closing.get(window.name)
    sealed = None if closing is None else closing.sealed.get(instance)
    if closing is None or sealed is None:
        return False
    oldest = window.oldest_stored(board.floors.get(window.name, MIN_MS), now_ms)
    if sealed.revision > 0 or closing.is_archive_only(instance):
        return True
    return oldest is None or instance < oldest


def seal_of(board: ClosingBoard, window: Window, period: Period) -> SealedPeriod | None:
    """Return the seal of a period; None if it is not sealed, or no longer in the archive."""
    closing = board.closing.get(window.name)
    return None if closing is None else closing.sealed.get(window.instance_of(period))


def hides_zero(board: ClosingBoard, window: str, instance: int) -> bool:
    """Return whether members whose score is 0 are not ranked in a period: as the board is defined
    or, for a closed period, as it was defined at its closing."""
    closing = board.closing.get(window)
    if closing is None:
        return board.rules.hide_zero
    closed = closing.record_of(instance)
    return board.rules.hide_zero if closed is None else closed.hide_zero


def ensure_sealed(
    board: ClosingBoard, window: Window, instance: int, revision: int | None = None
) -> SealedPeriod:
    """Return a sealed period. Raises NotSealed, and UnknownRevision if it has no such
    revision."""
    closing = board.closing.get(window.name)
    sealed = None if closing is None else closing.sealed.get(instance)
    if sealed is None:
        label = window.period_of(instance).label
        period = f"period {label}" if label else "period"
        raise NotSealed(f"the archive has no {period} of the window {window.name}")
    if revision is not None and not 0 <= revision <= sealed.revision:
        raise UnknownRevision(
            f"expected a revision from 0 to {sealed.revision}, got {safe_repr(revision)}"
        )
    return sealed
