"""A board at some time: what a query is planned against."""

from msgspec import Struct

from laurels.model.labels import LabelPairs

from .board_state import BoardState
from .reads import RankingView, cached_view


class QueryContext(Struct, frozen=True, gc=False):
    """A board as it is, and the time that counts for it."""

    state: BoardState
    now_ms: int

    def view(
        self,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: LabelPairs = (),
        by: str | None = None,
    ) -> RankingView:
        """Return one ranking of the board, in the scope of some labels or by one. The running
        period over all events is made ready once for as long as it runs."""
        if period is not None or after is not None or by is not None or labels:
            return RankingView(self.state, self.now_ms, window, period, after, labels=labels, by=by)
        view = cached_view(self.state, window, self.now_ms)
        if view is None:
            view = self.state.views[window] = RankingView(self.state, self.now_ms, window, None)
        return view
