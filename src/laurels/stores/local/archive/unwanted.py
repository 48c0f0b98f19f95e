"""Finds archived periods and payouts that the log of a folder does not have, since a kill, a rewind
or a backup has left them behind."""

from collections.abc import Callable, Iterable, Iterator

from laurels.core.board_state import BoardState

from .segment import PeriodKey


def unwanted(periods: Iterable[PeriodKey], boards: Iterable[BoardState]) -> Iterator[PeriodKey]:
    """Yield the periods of these boards that are not sealed: they have left the archive, or were
    written to it just before the process died. Periods of other boards are kept, since the archive
    outlives a board."""
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
    if the period is not sealed. For the periods of other boards, and for those that have left the
    archive, it returns None."""
    states = {state.uid: state for state in boards}

    def newest(uid: str, window: str, instance: int) -> int | None:
        closing = states[uid].closing.get(window) if uid in states else None
        if closing is None:
            return None
        if (sealed := closing.sealed.get(instance)) is not None:
            return sealed.revision
        return None if closing.is_closed(instance) and instance not in closing.closed else -1

    return newest
