"""The reads that decide who wins prizes of one ranking: three requests, whatever the size of the
ranking.

The first request counts the members, and those who have reached the scores of prizes. The second
reads the members at positions for which there are prizes. The third finds where tie groups begin
and end, and reads the members who win only because their columns equal those of a winner.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from laurels.errors import BeyondHead, NotReady
from laurels.model.prizes import Prize, Prizes
from laurels.model.rules import Rules
from laurels.model.scale import DecayedScale, Scale, Whole, decayed_scale
from laurels.model.score import Score

from .between import between, between_decayed
from .head import has_exact_position
from .index import Offset, Slice
from .prizes import PrizeSpan, TieGroup, Win, end_of, prize_spans, wins
from .read_plan import ReadPlan
from .requests import Anchor, AtBound, ReadRequest, ReadResult, Span, Start

ATTEMPTS = 20
"""How often the plan is begun again if the index has changed between its requests."""

T = TypeVar("T")
_Row = tuple[tuple[int, ...], str, Score]
"""The columns of an entry as words, its member and its score."""


class PrizeReading(Struct, frozen=True):
    """The prizes of a ranking, and how the ranking is read.

    `bounds` has, for each prize with `at_least`, the anchor after the members who have reached its
    score. The first `columns` words of an entry are its score; `scale` converts them. `ranking` is
    a request for the ranking without anchors and spans.
    """

    ranking: ReadRequest
    prizes: Prizes
    bounds: tuple[Anchor, ...]
    columns: int
    scale: Scale

    def request(self, anchors: tuple[Anchor, ...], spans: tuple[Span, ...] = ()) -> ReadRequest:
        """Return a request for anchors and spans of the ranking."""
        return replace(self.ranking, anchors=anchors, spans=spans)

    def rows(self, part: Slice) -> list[_Row]:
        """Return the entries of a slice."""
        words = zip(*part.words[: self.columns], strict=True)
        return list(zip(words, part.members, self.scale.scores(part.words), strict=True))


def prize_reading(rules: Rules, ranking: ReadRequest, prizes: Prizes, now_ms: int) -> PrizeReading:
    """Return how the winners of prizes of a ranking are read. In a window with decay the scores are
    those at `now_ms`. Positions below the head of a board are read as well, as far as they are
    certain, since the columns of members there may equal those of a winner."""
    window = ranking.key.window
    decayed = decayed_scale(rules, window, now_ms)
    return PrizeReading(
        replace(ranking, head=0),
        prizes,
        tuple([_reached(rules, prize, decayed) for prize in prizes.list if prize.least]),
        rules.score_words(window),
        Whole(rules) if decayed is None else decayed,
    )


def _reached(rules: Rules, prize: Prize, decayed: DecayedScale | None) -> Anchor:
    """Return the anchor after the entries that have reached the score of a prize."""
    more_is_better = rules.columns[0].sign < 0
    low, high = (prize.least, None) if more_is_better else (None, prize.least)
    if decayed is not None:
        return between_decayed(decayed, low, high)[1]
    return between(rules, low, high)[1]


class WinPage(Struct, frozen=True):
    """The prizes that some consecutive members win, each with the member's score.

    Only the first `winners` of the `total` members may win something. `next` is the position after
    the page, None if nobody from there on wins.
    """

    wins: list[tuple[Win, Score]]
    winners: int
    total: int
    next: int | None


def plan_wins(
    reading: PrizeReading, start: int, limit: int, answer: Callable[[WinPage, Offset], T]
) -> ReadPlan[T]:
    """Return the plan that finds the prizes of the members at positions `start` to `start + limit`,
    and passes them to `answer`. The module's docstring describes its requests. O(log n + limit). If
    the index changes between the requests, the plan begins again. Raises NotReady after ATTEMPTS
    repetitions, BeyondHead if a position that decides who wins is not certain."""
    return _plan(reading, start, limit, answer, ATTEMPTS)


def _plan(
    reading: PrizeReading,
    start: int,
    limit: int,
    answer: Callable[[WinPage, Offset], T],
    attempts: int,
) -> ReadPlan[T]:
    def finish(results: Sequence[ReadResult], offset: Offset) -> "T | ReadPlan[T]":
        total = results[0].total
        spans = prize_spans(reading.prizes, total, results[0].positions)
        if (end := end_of(spans)) == 0:
            return answer(WinPage([], 0, total, None), offset)
        if results[0].certain is not None and results[0].certain < end:
            raise _uncertain(end, results[0])
        winners = _Winners(reading, spans, end, total, start, start + limit, answer, attempts)
        return winners.plan()

    return ReadPlan((reading.request(reading.bounds),), finish)


class _Winners(Struct, Generic[T], frozen=True):
    """The second and the third request. There are prizes for the first `end` positions; the page
    has the members at positions `start` to `stop`."""

    reading: PrizeReading
    spans: list[PrizeSpan]
    end: int
    total: int
    start: int
    stop: int
    answer: Callable[[WinPage, Offset], T]
    attempts: int

    def plan(self) -> ReadPlan[T]:
        page = Span(0, self.start, max(self.start, min(self.stop, self.end)))
        request = self.reading.request((Start(),), (page, Span(0, self.end - 1, self.end)))
        return ReadPlan((request,), self._read)

    def _read(self, results: Sequence[ReadResult], offset: Offset) -> T | ReadPlan[T]:
        page, last = results[0].slices
        rows = self.reading.rows(page)
        if len(rows) < min(self.stop, self.end) - self.start or not last.members:
            return self._again()
        if self.reading.prizes.ties == "first":
            groups = [(TieGroup(at, at + 1), [row]) for at, row in enumerate(rows, self.start)]
            return self.answer(self._page(groups, self.end), offset)
        [last_row] = self.reading.rows(last)
        ends_in_page = bool(rows) and self.stop <= self.end
        request = self.reading.request(
            (
                Start(),
                AtBound(last_row[0], None, right=True),
                AtBound((rows[0] if rows else last_row)[0], None, right=False),
                AtBound((rows[-1] if ends_in_page else last_row)[0], None, right=True),
            ),
            (Span(0, max(self.start, self.end), max(self.start, self.end, self.stop), last=1),),
        )

        def finish(results: Sequence[ReadResult], offset: Offset) -> "T | ReadPlan[T]":
            _, winners, first, past = results[0].positions
            if not has_exact_position(results[0], winners):
                raise _uncertain(winners + 1, results[0])
            tied = rows + self.reading.rows(results[0].slices[0])
            if tied and not (first <= self.start and self.start + len(tied) <= past):
                return self._again()
            return self.answer(self._page(_groups(tied, self.start, first, past), winners), offset)

        return ReadPlan((request,), finish)

    def _again(self) -> ReadPlan[T]:
        """Return the plan from its beginning, since the index has changed between its requests.
        Raise NotReady if this has happened too often."""
        if not self.attempts:
            raise NotReady("the ranking kept changing while its winners were read")
        limit = self.stop - self.start
        return _plan(self.reading, self.start, limit, self.answer, self.attempts - 1)

    def _page(self, groups: Iterable[tuple[TieGroup, list[_Row]]], winners: int) -> WinPage:
        found: list[tuple[Win, Score]] = []
        at = self.start
        for group, rows in groups:
            scores = {member: score for _, member, score in rows}
            members = list(scores)
            won = wins(self.reading.prizes, self.spans, group, members, at)
            found += [(win, scores[win.member]) for win in won]
            at += len(rows)
        return WinPage(found, winners, self.total, at if at < winners else None)


def _uncertain(end: int, result: ReadResult) -> BeyondHead:
    """Return the error for prizes that depend on positions that are not certain."""
    return BeyondHead(
        f"the prizes depend on the first {end:,} positions of {result.total:,}, of which only "
        f"{result.certain:,} are known"
    )


def _groups(
    rows: Sequence[_Row], start: int, first: int, past: int
) -> Iterator[tuple[TieGroup, list[_Row]]]:
    """Yield the tie groups of consecutive entries, each with those of its entries that are among
    `rows`. The first row is at position `start`. Its group begins at position `first`, which may be
    before `start`; the group of the last row ends before position `past`, which may be after the
    rows."""
    at = start
    for _, tied in groupby(rows, key=itemgetter(0)):
        group = list(tied)
        end = at + len(group)
        yield (
            TieGroup(
                first if at == start else at,
                past if end == start + len(rows) else end,
            ),
            group,
        )
        at = end
