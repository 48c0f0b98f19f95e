"""Which requests of a query are answered by the archive instead of by an index."""

from collections.abc import Iterable

from .board_state import BoardState
from .closing import ensure_sealed, is_archived
from .requests import ReadRequest

PeriodPlace = tuple[str, int]
"""The window and the instance of a period of a board."""


def place_of(request: ReadRequest) -> PeriodPlace:
    """Return the period that a request reads."""
    return request.key.window, request.key.instance


def archived_periods(
    state: BoardState, requests: Iterable[ReadRequest], now_ms: int
) -> dict[PeriodPlace, int]:
    """Return the periods that requests read from the archive, each with the revision that is read.
    Raises NotSealed, UnknownRevision."""
    archived: dict[PeriodPlace, int] = {}
    for request in requests:
        window, instance = place = place_of(request)
        known = None if request.tally else state.rules.windows.get(window)
        if known is None or place in archived:
            continue
        if request.revision is not None:
            ensure_sealed(state, known, instance, request.revision)
            archived[place] = request.revision
        elif is_archived(state, known, instance, now_ms):
            archived[place] = state.closing[window].sealed[instance].revision
    return archived
