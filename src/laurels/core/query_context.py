"""The state of a board from which a query is planned."""

from collections.abc import Mapping

from msgspec import Struct

from laurels.model.labels import LabelPairs

from .board_state import BoardState
from .payouts import PayoutReads
from .reads import RankingView, cached_view


class QueryContext(Struct, frozen=True, gc=False):
    """A board's current state, and its time. `positions` are the positions of the board's sources,
    for a query that reads them. `payouts` are the payouts of the store; None if the store has
    none."""

    state: BoardState
    now_ms: int
    positions: Mapping[str, str] = {}
    payouts: PayoutReads | None = None

    def view(
        self,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: LabelPairs = (),
        by: str | None = None,
    ) -> RankingView:
        """Return the view of one ranking of the board, in the scope of some labels or by a label.
        The view of the running period in the scope of all events is cached while the period
        runs."""
        if period is not None or after is not None or by is not None or labels:
            return RankingView(self.state, self.now_ms, window, period, after, labels=labels, by=by)
        view = cached_view(self.state, window, self.now_ms)
        if view is None:
            view = self.state.views[window] = RankingView(self.state, self.now_ms, window, None)
        return view
