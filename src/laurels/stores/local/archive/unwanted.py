"""Which periods of an archive no board refers to: what a kill has left behind."""

from collections.abc import Iterable, Iterator

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
