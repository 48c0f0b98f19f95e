"""Accepts writes by the definitions that this process knows, and finds out whether these
definitions are outdated."""

from collections.abc import Sequence
from typing import Any, Unpack

from laurels.core.board_state import BoardState
from laurels.core.named_windows import window_named
from laurels.errors import UnknownWindow
from laurels.model.labels import has_scope
from laurels.stores.intake.accept import SubmitOptions, submission
from laurels.stores.intake.submission import Submission

from .catalog import BoardCatalog


def is_newer(
    state: BoardState, events: Sequence[Any], window: str | None, scope: Sequence[str] | None
) -> bool:
    """Return whether the arguments name a window, label or scope that is missing in this process's
    copy of the board, since another process may have added it."""
    rules = state.rules
    try:
        window_named(rules, window)
    except UnknownWindow:
        return True
    if scope is not None and not has_scope(rules, scope):
        return True
    labels = {*rules.labels}
    longer = (event for event in events if type(event) is not tuple or len(event) > 4)
    return any(not labels.issuperset(each) for each in map(_labels_of, longer) if each)


def _labels_of(event: Any) -> Any:
    """Return the labels of an event; None if its labels are not a dict. An event that is a tuple
    must have at least 5 items."""
    if type(event) is tuple:
        labels = event[4]
    else:
        labels = event.get("labels") if isinstance(event, dict) else getattr(event, "labels", None)
    return labels if isinstance(labels, dict) else None


class KnownBoards:
    """The boards as this process knows them. Unlike the methods of the store, these methods send
    nothing to the server, so that they may be called on the store's event loop."""

    def __init__(self, catalog: BoardCatalog) -> None:
        self._catalog = catalog

    def named(self, board: str) -> BoardState:
        """Return the board of that name. Raises UnknownBoard."""
        return self._catalog.boards.named(board)

    def submission(
        self, board: str, events: Any, window: str | None, **options: Unpack[SubmitOptions]
    ) -> Submission:
        """Accept events: check their form and turn them into columns."""
        is_replay = self._catalog.event_time
        return submission(self.named(board), events, window, event_time=is_replay, **options)
