"""Views: one ranking of a board at one time, with methods that plan the reads of queries."""

from collections.abc import Callable, Sequence
from copy import copy
from math import ceil
from typing import Any, TypeVar

from laurels.errors import (
    InvalidCursor,
    InvalidOffset,
    MemberHidden,
    NotLive,
    PeriodExpired,
)
from laurels.model.event import member_bytes
from laurels.model.labels import LabelPairs, labels_of, scope_named
from laurels.model.scale import Scale, Whole, decayed_scale
from laurels.model.score import Score
from laurels.model.validation import quoted
from laurels.timeline.instants import MAX_MS, MIN_MS

from . import cursor as cursors
from .among import among
from .between import Bound, between, between_decayed, percentile_share
from .board_state import BoardState
from .closing import ensure_sealed
from .head import beyond, certain_of, ensure_listed, known_positions, listed, rank_at
from .index import Index, Offset, Slice
from .named_windows import readable, window_named
from .needed import NeededPlan, plan_needed
from .rank import Rank
from .ranking_key import ranking_key
from .read_plan import FAR, ReadPlan
from .requests import Anchor, AtBound, AtMember, End, ReadRequest, ReadResult, Span, Start, Walk
from .standing import (
    FIRST,
    AsOf,
    Entry,
    Gap,
    Needed,
    Page,
    Standing,
    decode_data,
    entries,
    rank_or_none,
    ranks_or_none,
    standing,
    words_at,
)
from .zeros import zeros_in

PERCENTILE_MARGIN = 10
"""How many entries before and after the expected position a percentile query reads. A third read is
needed only if the ranking has grown or shrunk by about as many members since its size was read."""

_BESIDE: tuple[Span, ...] = (Span(0, -1, 2),)

T = TypeVar("T")


class RankingView:
    """One ranking at one time. Its methods plan the reads of queries."""

    def __init__(
        self,
        state: BoardState,
        now_ms: int,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: LabelPairs = (),
        by: str | None = None,
    ) -> None:
        scope = scope_named(state.rules, dict(labels), by)
        chosen = window_named(state.rules, window)
        floor_ms = state.floors.get(chosen.name, MIN_MS)
        self._after = (
            None if after is None else cursors.decode(after, state.number, chosen.name, scope)
        )
        if self._after is not None and period is None:
            period = chosen.cursor_label(self._after.key.instance)
        self._window = chosen.name
        self._revision: int | None = None
        self._refreshed = state.as_refreshed(chosen, scope)
        seen_ms, closing = state.seen_ms(chosen, now_ms, scope), state.closing.get(chosen.name)
        self.period = readable(chosen, floor_ms, seen_ms, period, closing)
        self.key = ranking_key(state.number, chosen, self.period, scope)
        self._labels = labels_of(scope) if state.rules.scoped else None
        self._by = by
        if self._after is not None and chosen.steps:
            _ensure_running(self._after.key.instance, self.key.instance)
        self._now_ms = min(now_ms, state.rules.ends_ms)
        self._state = state
        self._decayed = decayed_scale(state.rules, chosen.name, now_ms)
        self._scale: Scale = Whole(state.rules) if self._decayed is None else self._decayed
        self._head = state.rules.head
        self._zeros = zeros_in(state, chosen.name, self.key.instance, now_ms)
        self._hidden = state.hidden_in(self.key, now_ms)
        self._lists_all = self._zeros is None and self._hidden is None
        """Whether the lists have all entries of the ranking."""
        steady = self._decayed is None and self._refreshed is None and self._lists_all
        self._width = state.rules.order_words(chosen.name)
        """The number of words that decide the order: the columns, and the tie stamp if there is
        one."""
        until_ms = MAX_MS if state.rules.has_ended(now_ms) else self.period.end_ms
        self.rules, self.until_ms = state.rules, until_ms if steady else now_ms
        """While the board has these `rules`, and until `until_ms`, this view shows the running
        period."""

    def with_all_members(self) -> "RankingView":
        """Return a view that also lists hidden members, and the members whose score is 0."""
        view = copy(self)
        view._zeros, view._hidden, view._lists_all = None, None, True
        return view

    def of_revision(self, revision: int) -> "RankingView":
        """Return a view of a revision of this period. Raises NotSealed, UnknownRevision."""
        ensure_sealed(self._state, self.rules.windows[self._window], self.key.instance, revision)
        view = copy(self)
        view._revision = revision
        return view

    def walk(self, after: str, limit: int) -> ReadRequest:
        """Return a request that reads members in any order, with their data."""
        return ReadRequest(self.key, data=True, walk=Walk(after, limit, self._width))

    def walked(self, result: ReadResult, offset: Offset) -> tuple[AsOf, Sequence[Score], list[Any]]:
        """Return the scores and the data of the members that a walk (`walk`) has read."""
        assert result.data is not None
        scores = self._scale.scores(result.slices[0].words)
        return self.as_of(offset), scores, decode_data(result.data[0])

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

    def around(self, member: str, radius: int, data: bool) -> ReadPlan[Page | None]:
        def finish(result: ReadResult, offset: Offset) -> Page | None:
            if result.positions[0] < 0:
                return None
            if result.positions[0] >= listed(self._head, result):
                raise beyond(self._head, result)
            certain = certain_of(self._head, result)
            return Page(self._entries(result), result.total, self.as_of(offset), None, certain)

        return self._plan(
            finish,
            anchors=(AtMember(member_bytes(member)),),
            spans=(Span(0, -radius, radius + 1, fit=True),),
            data=data,
        )

    def standing(
        self, member: str, to_rank: int | None, data: bool, now_ms: int
    ) -> ReadPlan[Standing | None]:
        aim = to_rank or self._head
        needs = self._needed_in_standing(member, aim, now_ms) if aim else None

        def finish(results: Sequence[ReadResult], offset: Offset) -> Standing | None:
            result = results[0]
            position = result.positions[0]
            if position < 0:
                return None
            if position >= listed(self._head, result):
                return self._standing_below(results, offset, aim, needs, member)
            needed = None
            if to_rank is not None and needs is not None:
                needed = needs.needed(results[1:])
            return self._standing(result, position, offset, to_rank, needed)

        def read_index(index: Index, offset: Offset) -> Standing | None:
            result = index.neighbourhood(self.key, member)
            if result is None:
                return None
            if self._head and result.position >= self._head - 1:
                return ReadPlan(requests, finish).run_local(index, offset)
            own = result.position - result.part.start
            return standing(result.part, own, result.total, self.as_of(offset), self._scale)

        anchors: tuple[Anchor, ...] = (AtMember(member_bytes(member)),)
        if not aim:
            requests = (self._request(anchors, _BESIDE, data=data),)
            return ReadPlan(requests, finish, read_index if self._lists_all and not data else None)
        place = min(aim, FAR) - 1
        spans = (*_BESIDE, Span(1, place, place + 1))
        members = (member,) if self._head else ()
        request = self._request((*anchors, Start()), spans, members, data=data)
        return ReadPlan((request, *(() if needs is None else needs.requests)), finish)

    def needed(
        self, member: str, rank: int, column: str | None, now_ms: int
    ) -> ReadPlan[Needed | None]:
        """Plan the query for the value of one event that moves a member to a position. Raises
        UnknownColumn, NotLive if events do not count at once in the window, and MemberHidden."""
        if self._refreshed is not None:
            raise NotLive(f"the window {quoted(self._window)} is refreshed at intervals")
        if self._hidden is not None and member.encode() in self._hidden.members:
            raise MemberHidden(f"{quoted(member)} is hidden, so no event moves it to a position")
        needs = self._needs(member, rank, now_ms, column)
        return ReadPlan(needs.requests, lambda results, _: needs.needed(results))

    def _needs(self, member: str, rank: int, now_ms: int, column: str | None = None) -> NeededPlan:
        """Return the plan of the needed value at an instant, which may be later than the time of
        this view."""
        labels = tuple((self._labels or {}).items())
        return plan_needed(self._state, self.key, now_ms, member, min(rank, FAR), column, labels)

    def _needed_in_standing(self, member: str, rank: int, now_ms: int) -> NeededPlan | None:
        """Return the plan of the needed value; None if no event of the member changes this ranking
        now."""
        window = self.rules.windows[self._window]
        is_running = window.period_at(now_ms) == self.period
        if self._refreshed is not None or self._by is not None or not is_running:
            return None
        return self._needs(member, rank, now_ms)

    def at_rank(self, rank: int, data: bool) -> ReadPlan[Standing | None]:
        position = min(rank, FAR) - 1

        def finish(result: ReadResult, offset: Offset) -> Standing | None:
            if position >= result.total:
                return None
            ensure_listed(self._head, position, result)
            return self._standing(result, position, offset)

        span = Span(0, position - 1, position + 2)
        return self._plan(finish, anchors=(Start(),), spans=(span,), data=data)

    def standings(self, members: Sequence[str], data: bool) -> ReadPlan[Page]:
        """Plan the query for the entries of the given members that are ranked, in ranking order,
        each with its rank among these members."""

        def finish(result: ReadResult, offset: Offset) -> Page:
            entries = among(members, result, self.rules, self._window, self._scale)
            return Page(entries, result.total, self.as_of(offset))

        return self._plan(finish, members=tuple(members), data=data)

    def ranks(self, members: Sequence[str]) -> ReadPlan[Sequence[Rank | None]]:
        key = self.key
        request = self._rank_request(tuple(members))
        if not self._lists_all:
            return ReadPlan((request,), _ranks)
        return ReadPlan((request,), _ranks, lambda index, _: index.ranks_from(key, members, FIRST))

    def rank(self, member: str) -> ReadPlan[Rank | None]:
        key = self.key
        request = self._rank_request((member,))
        if not self._lists_all:
            return ReadPlan((request,), _rank)
        return ReadPlan((request,), _rank, lambda index, _: rank_or_none(index.rank(key, member)))

    def _rank_request(self, members: tuple[str, ...]) -> ReadRequest:
        return ReadRequest(
            self.key,
            members=members,
            ranks=True,
            zeros=self._zeros,
            hidden=self._hidden,
            revision=self._revision,
        )

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
        the members have this score or a worse one."""
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

    def _plan(
        self,
        finish: Callable[[ReadResult, Offset], "T | ReadPlan[T]"],
        *,
        anchors: tuple[Anchor, ...] = (),
        spans: tuple[Span, ...] = (),
        members: tuple[str, ...] = (),
        data: bool = False,
    ) -> ReadPlan[T]:
        """Return a plan that reads this ranking."""
        request = self._request(anchors, spans, members, data=data)
        return ReadPlan((request,), lambda result, offset: finish(result[0], offset))

    def _request(
        self,
        anchors: tuple[Anchor, ...],
        spans: tuple[Span, ...],
        members: tuple[str, ...] = (),
        *,
        data: bool = False,
    ) -> ReadRequest:
        """Return a request for this ranking."""
        return ReadRequest(
            self.key,
            anchors,
            spans,
            members,
            data,
            head=self._head,
            zeros=self._zeros,
            hidden=self._hidden,
            revision=self._revision,
        )

    @property
    def request(self) -> ReadRequest:
        """A request for this ranking, without anchors and spans."""
        return self._request((), ())

    def as_of(self, offset: Offset) -> AsOf:
        """Return the state that an answer from this ranking shows."""
        if self._refreshed is not None:
            offset = self._refreshed.offset
        now_ms = None if self._decayed is None else self._now_ms
        label = self.period.label or None
        return AsOf(offset, self._window, label, now_ms, self._labels, self._by)

    def _standing(
        self,
        result: ReadResult,
        position: int,
        offset: Offset,
        to_rank: int | None = None,
        needed: Needed | None = None,
    ) -> Standing:
        part = result.slices[0]
        at = position - part.start
        return standing(
            part,
            at,
            result.total,
            self.as_of(offset),
            self._scale,
            to_rank=None if to_rank is None else self._gap(result, position, to_rank),
            data=None if result.data is None else decode_data([result.data[0][at]])[0],
            needed=needed,
        )

    def _standing_below(
        self,
        results: Sequence[ReadResult],
        offset: Offset,
        aim: int,
        needs: NeededPlan | None,
        member: str,
    ) -> Standing:
        """Return the standing of a member that is below the listed positions. The standing has
        neither a gap nor `needed` while the entry at the position to reach cannot be listed."""
        result = results[0]
        located = result.located
        assert located is not None
        rank = rank_at(located, 0)
        assert rank is not None
        low, high = (rank, rank) if isinstance(rank, int) else (rank.low, rank.high)
        if aim > self._head:
            ensure_listed(self._head, aim - 1, result)
        gap, needed = None, None
        if aim <= listed(self._head, result):
            target, own = words_at(result.slices[1].words, 0), words_at(located.words, 0)
            gap = Gap(aim, self._scale.gap(target, own))
            needed = None if needs is None else needs.needed(results[1:])
        middle = (low + high) // 2
        return Standing(
            member,
            middle,
            self._scale.scores(located.words)[0],
            result.total,
            100 * middle / result.total,
            self.as_of(offset),
            low,
            high,
            exact=low == high,
            to_rank=gap,
            data=None if result.data is None else decode_data(result.data[-1])[0],
            needed=needed,
            grid_age=None if low == high else result.grid_age,
        )

    def _gap(self, result: ReadResult, position: int, to_rank: int) -> Gap:
        part = result.slices[0]
        own = target = words_at(part.words, position - part.start)
        if to_rank - 1 < position:
            target = words_at(result.slices[1].words, 0)
        return Gap(to_rank, self._scale.gap(target, own))

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

    def _entries(self, result: ReadResult) -> list[Entry]:
        data_of_members = None if result.data is None else decode_data(result.data[0])
        return entries(result.slices[0], self._scale, data_of_members)

    def _cursor(self, part: Slice, i: int, reverse: bool) -> str:
        member = part.members[i].encode()
        return cursors.encode(self.key, reverse, words_at(part.words, i)[: self._width], member)

    def _offset(self, offset: int) -> int:
        """Return how many entries to skip. Raises InvalidOffset if there is a cursor, too."""
        if offset and self._after is not None:
            raise InvalidOffset("expected an offset or a cursor, got both")
        return min(offset, FAR)

    def _place(self, cursor: cursors.Cursor, reverse: bool) -> AtBound:
        """Decode a cursor, and return the anchor after the entry that the cursor was made from."""
        if (cursor.key, cursor.reverse, len(cursor.words)) != (self.key, reverse, self._width):
            raise InvalidCursor("the cursor was made for another period or direction")
        return AtBound(cursor.words, cursor.member, right=not reverse)

    def _between(self, low: Bound | None, high: Bound | None) -> tuple[Anchor, Anchor]:
        if self._decayed is not None:
            return between_decayed(self._decayed, low, high)
        return between(self.rules, low, high)


def cached_view(state: BoardState, window: str | None, now_ms: int) -> RankingView | None:
    """Return the cached view of a window's running period, in the scope of all events; None if no
    view is cached, or if the cached view is outdated. No valid view is cached while the board hides
    members."""
    view: RankingView | None = None
    if window is None or type(window) is str:
        view = state.views.get(window)
    if view is None or now_ms >= view.until_ms or view.rules is not state.rules:
        return None
    return view


def _rank(result: Sequence[ReadResult], _: Offset) -> Rank | None:
    located = result[0].located
    return None if located is None else rank_at(located, 0)


def _ranks(result: Sequence[ReadResult], _: Offset) -> Sequence[Rank | None]:
    located = result[0].located
    return [] if located is None else ranks_or_none(located.ranks, located.highs)


def _ensure_running(step: int, running: int) -> None:
    """Raise PeriodExpired for a list that began in an earlier step. A list in a rolling window can
    be continued only within its step."""
    if step < running:
        raise PeriodExpired("the step of the window in which the list was begun has ended")
