"""A counted batch and the ranks of its members, from which receipts are built."""

from collections.abc import Sequence

from msgspec import Struct

from laurels.model.batch import Batch
from laurels.model.rules import Rules
from laurels.model.scale import scale_of
from laurels.model.score import Score

from .fold import Folded
from .index import Scores
from .rank import Rank
from .standing import ranks_or_none


class Ranks(Struct, frozen=True):
    """The ranks of a batch's members before and after its commit, counted from 0; -1 for a member
    that is not ranked.

    If ranks are estimated, `before` and `after` have the lowest possible ranks, and `highs` has the
    highest possible ranks before and after.
    """

    before: Sequence[int]
    after: Sequence[int]
    highs: tuple[Sequence[int], Sequence[int]] | None = None


Row = tuple[str, Score | None, Score | None, Rank | None, Rank | None]
"""A member, its scores before and after, its ranks before and after."""


class ReceiptSegment:
    """A counted batch of submitted events, and the ranks that were requested. For each event of the
    segment, `places` has its position among all accepted events; `places` is None if the segment's
    events directly follow those of the previous segment."""

    def __init__(
        self, folded: Folded, ranks: Ranks | None, places: Sequence[int] | None = None
    ) -> None:
        self.folded = folded
        self.ranks = ranks
        self.places = places
        self._rows: list[Row] | None = None
        self._late: dict[str, int] | None = None

    def rows(self, rules: Rules, window: str) -> list[Row]:
        """Return the scores and ranks of each event, as shown when the batch was counted. The
        result is cached, so every call must pass the same rules and window."""
        if self._rows is None:
            batch, outcomes = self.folded.batch, self.folded.outcomes
            before: Sequence[Rank | None] = [None] * batch.size
            after = before
            if (ranks := self.ranks) is not None:
                least, most = (None, None) if ranks.highs is None else ranks.highs
                before = ranks_or_none(ranks.before, least)
                after = ranks_or_none(ranks.after, most)
            columns = (
                list(map(bytes.decode, batch.member_list())),
                _scores(rules, window, batch, outcomes.before),
                _scores(rules, window, batch, outcomes.after),
                before,
                after,
            )
            self._rows = list(zip(*columns, strict=True))
        return self._rows

    @property
    def late(self) -> dict[str, int]:
        """The number of events that each window refused as too late, by the window's name."""
        if self._late is None:  # `cached_property` takes a lock, which costs more than all this
            self._late = dict(self.folded.plan.late_by_window(self.folded.batch.size))
        return self._late


def _scores(
    rules: Rules, window: str, batch: Batch, stored: Scores | None
) -> Sequence[Score | None]:
    """Convert the `stored` words of events to scores, each as shown when its event was accepted;
    None for an event without an entry."""
    if stored is None:
        return [None] * batch.size
    if batch.nows is None or rules.weighing(window) is None:
        scores = scale_of(rules, window, batch.now_ms).scores(stored.words)
    else:
        each = zip(batch.nows, zip(*stored.words, strict=True), strict=True)
        scores = [scale_of(rules, window, now_ms).score(words) for now_ms, words in each]
    if 0 not in stored.present:
        return scores
    return [score if ranked else None for ranked, score in zip(stored.present, scores, strict=True)]
