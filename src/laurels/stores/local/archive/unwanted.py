"""Finds archived periods and payouts that are not in the log of their folder. A kill, a rewind of
the log or a restored backup can leave such data behind."""

from collections.abc import Callable, Iterable, Iterator

from laurels.core.board_state import BoardState

from .segment import PeriodKey


def unwanted(periods: Iterable[PeriodKey], boards: Iterable[BoardState]) -> Iterator[PeriodKey]:
    """Yield those of `periods` that their boards do not record as sealed. They can be removed from
    the archive: a process died before it had sealed them, or before it could remove them. Periods
    of boards that are not among `boards` are not yielded, since the archive outlives a board."""
    states = {state.uid: state for state in boards}
    for key in periods:
        if (state := states.get(key.uid)) is None:
            continue
        closing = state.closing.get(key.window)
        sealed = None if closing is None else closing.sealed.get(key.instance)
        if sealed is None or key.revision > sealed.revision:
            yield key


def newest_revision(boards: Iterable[BoardState]) -> Callable[[str, str, int], int | None]:
    """Return a function of a period (uid, window, instance) that returns its newest revision, or -1
    if the period is not sealed. The function returns None for periods of boards that are not among
    `boards`, and for periods that have left the archive."""
    states = {state.uid: state for state in boards}

    def newest(uid: str, window: str, instance: int) -> int | None:
        closing = states[uid].closing.get(window) if uid in states else None
        if closing is None:
            return None
        if (sealed := closing.sealed.get(instance)) is not None:
            return sealed.revision
        return None if closing.is_closed(instance) and instance not in closing.closed else -1

    return newest
