"""Views: one ranking of a board at one time, with methods that plan the reads of queries."""

from collections.abc import Sequence
from math import ceil

from laurels.model.score import Score

from . import cursor as cursors
from .between import Bound, between, between_decayed, percentile_share
from .board_state import BoardState
from .head import ensure_listed, known_positions, listed
from .index import Index, Offset, Slice
from .member_reads import MemberReads
from .read_plan import ReadPlan
from .requests import Anchor, End, ReadResult, Span, Start
from .standing import Page, words_at

PERCENTILE_MARGIN = 10
"""How many entries before and after the expected position a percentile query reads. A third read is
needed only if the ranking has grown or shrunk by about as many members since its size was read."""


class RankingView(MemberReads):
    """One ranking at one time. Its methods plan the reads of queries."""

    def top(self, limit: int, offset: int, reverse: bool, data: bool) -> ReadPlan[Page]:
        offset, head = self._offset(offset), self._head
        anchor: Anchor = End() if reverse else Start()
        if self._after is not None:
            anchor = self._place(self._after, reverse)
        low, high = (-offset - limit, -offset) if reverse else (offset, offset + limit)
        request = self._request((anchor,), (Span(0, low, high),), data=data)

        def finish(results: Sequence[ReadResult], at: Offset) -> Page:
            result = results[0]
            if head and reverse:
                ensure_listed(head, result.total - 1, result)
            elif head and self._after is None and offset >= head:
                ensure_listed(head, offset, result)
            return self._page(result, at, head, reverse=reverse)

        def read_index(index: Index, at: Offset) -> Page:
            """Read the page from an index in this process; its positions are known without a
            search."""
            total = index.size(self.key)
            first, last = min(offset, total), min(offset + limit, total)
            part = index.slice(self.key, first, last)
            return self._page(ReadResult(total, [], [part], None, None), at, 0)

        is_plain = self._after is None and not reverse and not data and not head
        is_plain = is_plain and self._lists_all
        return ReadPlan((request,), finish, read_index if is_plain else None)

    def range(
        self, low: Bound | None, high: Bound | None, limit: int, offset: int, data: bool
    ) -> ReadPlan[Page]:
        offset = self._offset(offset)
        anchors: tuple[Anchor, ...] = self._between(low, high)
        if self._after is not None:
            anchors += (self._place(self._after, False),)

        def finish(result: ReadResult, at: Offset) -> Page:
            first, last = result.positions[:2]
            if self._head and self._after is None:
                place = max(first, min(first + offset, last - 1))
                if place >= self._head:
                    ensure_listed(self._head, min(place, result.total - 1), result)
            return self._page(result, at, self._head, end=max(first, last))

        span = Span(len(anchors) - 1 if self._after else 0, offset, offset + limit, 0, 1)
        return self._plan(finish, anchors=anchors, spans=(span,), data=data)

    def count(self, low: Bound | None, high: Bound | None) -> ReadPlan[int]:
        anchors = self._between(low, high)

        def finish(result: ReadResult, _: Offset) -> int:
            first, last = known_positions(self._head, anchors, result)
            return max(0, last - first)

        return self._plan(finish, anchors=anchors)

    def score_at_percentile(self, percentile: object) -> ReadPlan[Score | None]:
        """Plan the query for the score at a percentile (nearest rank): at least this percentage of
        the members have this score or a worse one. The result is None for an empty ranking."""
        share = percentile_share(percentile)

        def read_index(total: int) -> ReadPlan[Score | None]:
            place = total - max(1, ceil(share * total))

            def finish(result: ReadResult, _: Offset) -> Score | ReadPlan[Score | None] | None:
                if not result.total:
                    return None
                wanted = result.total - max(1, ceil(share * result.total))
                ensure_listed(self._head, wanted, result)
                part = result.slices[0]
                if not part.start <= wanted < part.start + len(part.members):
                    return read_index(result.total)
                return self._scale.score(words_at(part.words, wanted - part.start))

            near = Span(0, place - PERCENTILE_MARGIN, place + PERCENTILE_MARGIN)
            return self._plan(finish, anchors=(Start(),), spans=(near,))

        return self._plan(lambda result, _: read_index(result.total) if result.total else None)

    def _page(
        self,
        result: ReadResult,
        offset: Offset,
        head: int,
        *,
        reverse: bool = False,
        end: int | None = None,
    ) -> Page:
        """Return the page of a result. The list ends at position `end`; by default this is the end
        of the ranking or of its head."""
        part, most = result.slices[0], listed(head, result)
        entries = self._entries(result)
        stop = part.start + len(entries)
        more = part.start > 0 if reverse else stop < (most if end is None else min(end, most))
        after = self._cursor(part, 0 if reverse else -1, reverse) if more and entries else None
        certain = most if most < result.total else None
        return Page(
            entries[::-1] if reverse else entries, result.total, self.as_of(offset), after, certain
        )

    def _cursor(self, part: Slice, i: int, reverse: bool) -> str:
        member = part.members[i].encode()
        return cursors.encode(self.key, reverse, words_at(part.words, i)[: self._width], member)

    def _between(self, low: Bound | None, high: Bound | None) -> tuple[Anchor, Anchor]:
        if self._decayed is not None:
            return between_decayed(self._decayed, low, high)
        return between(self.rules, low, high)


def cached_view(state: BoardState, window: str | None, now_ms: int) -> RankingView | None:
    """Return the cached view of a window's running period, in the scope of all events; None if no
    view is cached, or if the cached view is outdated. No valid view is cached while the board hides
    members, and none is used while members are hidden on all boards."""
    view: RankingView | None = None
    if window is None or type(window) is str:
        view = state.views.get(window)
    if (
        view is None
        or now_ms >= view.until_ms
        or view.rules is not state.rules
        or state.hidden.shared
    ):
        return None
    return view
