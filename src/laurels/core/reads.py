"""A view: one ranking of a board at one moment, and what can be asked of it."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, TypeVar

import msgspec

from laurels.errors import (
    InvalidCursor,
    InvalidLimit,
    InvalidOffset,
    InvalidRadius,
    InvalidRank,
    PeriodExpired,
)
from laurels.model.event import member_bytes
from laurels.model.labels import labels_of, scope_named
from laurels.model.scale import Scale, Whole, faded_scale
from laurels.model.score import Score
from laurels.timeline.instants import MIN_MS

from . import cursor as cursors
from .between import Bound, between, between_faded, percentile_share
from .board_state import BoardState
from .index import Index, Offset, Slice
from .plan import ranking_key, readable, window_named
from .question import FAR, MAX_LIMIT, MAX_RADIUS, Question, whole
from .requests import Anchor, AtBound, AtMember, End, ReadRequest, ReadResult, Span, Start
from .standing import (
    FIRST,
    AsOf,
    Entry,
    Gap,
    Page,
    Standing,
    entries,
    public_rank,
    rank_or_none,
    ranks_or_none,
    standing,
    words_at,
)

PERCENTILE_MARGIN = 10
"""How far a ranking may grow or shrink between two looks at it."""

_BESIDE: tuple[Span, ...] = (Span(0, -1, 2),)

T = TypeVar("T")


class RankingView:
    """One ranking at one moment, and what can be asked of it."""

    def __init__(
        self,
        state: BoardState,
        now_ms: int,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> None:
        scope = scope_named(state.rules, labels, by)
        chosen = window_named(state.rules, window)
        floor_ms = state.floors.get(chosen.name, MIN_MS)
        self._after = (
            None if after is None else cursors.decode(after, state.number, chosen.name, scope)
        )
        if self._after is not None and period is None:
            period = chosen.cursor_label(self._after.key.instance)
        self._window = chosen.name
        self._refreshed = state.as_refreshed(chosen, scope)
        self._period = readable(chosen, floor_ms, state.seen_ms(chosen, now_ms, scope), period)
        self.key = ranking_key(state.number, chosen, self._period, scope)
        self._labels = labels_of(scope) if state.rules.scoped else None
        self._by = by
        if self._after is not None and chosen.steps:
            _ensure_running(self._after.key.instance, self.key.instance)
        self._now_ms = now_ms
        self._faded = faded_scale(state.rules, chosen.name, now_ms)
        self._scale: Scale = Whole(state.rules) if self._faded is None else self._faded
        steady = self._faded is None and self._refreshed is None
        self.rules, self.until_ms = state.rules, self._period.end_ms if steady else now_ms
        """By which rules and until when it is the view of the running period."""

    @property
    def _width(self) -> int:
        """How many words decide the order: the columns, and the tie stamp if there is one."""
        return self.rules.order_words(self._window)

    def top(self, limit: int, offset: int, reverse: bool, data: bool) -> Question[Page]:
        limit = whole(limit, 0, MAX_LIMIT, InvalidLimit)
        offset = self._offset(offset)
        anchor: Anchor = End() if reverse else Start()
        if self._after is not None:
            anchor = self._place(self._after, reverse)
        low, high = (-offset - limit, -offset) if reverse else (offset, offset + limit)
        return self._asked(
            lambda found, offset: self._page(found, offset, reverse=reverse),
            anchors=(anchor,),
            spans=(Span(0, low, high),),
            data=data,
        )

    def around(self, member: str, radius: int, data: bool) -> Question[Page | None]:
        radius = whole(radius, 0, MAX_RADIUS, InvalidRadius)

        def answer(found: ReadResult, offset: Offset) -> Page | None:
            if found.positions[0] < 0:
                return None
            return Page(self._entries(found), found.total, self._as_of(offset))

        return self._asked(
            answer,
            anchors=(AtMember(member_bytes(member)),),
            spans=(Span(0, -radius, radius + 1, fit=True),),
            data=data,
        )

    def standing(self, member: str, to_rank: int | None, data: bool) -> Question[Standing | None]:
        if to_rank is not None:
            to_rank = whole(to_rank, 1, None, InvalidRank)

        def answer(found: ReadResult, offset: Offset) -> Standing | None:
            position = found.positions[0]
            if position < 0:
                return None
            return self._standing(found, position, offset, to_rank)

        def here(index: Index, offset: Offset) -> Standing | None:
            found = index.beside(self.key, member)
            if found is None:
                return None
            own = found.position - found.part.start
            return standing(found.part, own, found.total, self._as_of(offset), self._scale)

        anchors: tuple[Anchor, ...] = (AtMember(member_bytes(member)),)
        if to_rank is None:
            ask = ReadRequest(self.key, anchors, _BESIDE, (), data)
            return Question((ask,), lambda found, at: answer(found[0], at), None if data else here)
        place = min(to_rank, FAR) - 1
        spans = (*_BESIDE, Span(1, place, place + 1))
        return self._asked(answer, anchors=(*anchors, Start()), spans=spans, data=data)

    def at_rank(self, rank: int, data: bool) -> Question[Standing | None]:
        position = min(whole(rank, 1, None, InvalidRank), FAR) - 1

        def answer(found: ReadResult, offset: Offset) -> Standing | None:
            if position >= found.total:
                return None
            return self._standing(found, position, offset)

        span = Span(0, position - 1, position + 2)
        return self._asked(answer, anchors=(Start(),), spans=(span,), data=data)

    def standings(self, asked: Sequence[str], data: bool) -> Question[Page]:
        """Those of the members who are ranked, in standing order, ranked among themselves."""

        def answer(found: ReadResult, offset: Offset) -> Page:
            return Page(self._friends(asked, found), found.total, self._as_of(offset))

        return self._asked(answer, members=tuple(asked), data=data)

    def ranks(self, asked: Sequence[str]) -> Question[list[int | None]]:
        key = self.key
        ask = ReadRequest(key, (), (), tuple(asked), False, None, True)
        return Question((ask,), _ranks, lambda index, _: index.ranks_from(key, asked, FIRST))

    def rank(self, member: str) -> Question[int | None]:
        key = self.key
        ask = ReadRequest(key, (), (), (member,), False, None, True)
        return Question((ask,), _rank, lambda index, _: rank_or_none(index.rank(key, member)))

    def _friends(self, asked: Sequence[str], found: ReadResult) -> list[Entry]:
        located = found.located
        if located is None:
            return []
        order = sorted(
            (i for i, position in enumerate(located.positions) if position >= 0),
            key=located.positions.__getitem__,
        )
        ranked = [asked[i] for i in order]
        ranks = [public_rank(located.ranks[i]) for i in order]
        words = [[column[i] for i in order] for column in located.words]
        scores = self._scale.scores(words)
        places = self._places(
            list(zip(*words[: self.rules.score_words(self._window)], strict=True))
        )
        carried: list[Any] = [None] * len(ranked)
        if found.data is not None:
            carried = _decoded([found.data[-1][i] for i in order])
        return list(map(Entry, ranked, ranks, scores, carried, places))

    def _places(self, scores: Sequence[tuple[int, ...]]) -> list[int]:
        """Ranks, from 1 and in the board's style, of members whose scores (words) are in order."""
        places: list[int] = []
        for i, score in enumerate(scores):
            if i and self.rules.rank != "ordinal" and score == scores[i - 1]:
                places.append(places[-1])
            elif i and self.rules.rank == "dense":
                places.append(places[-1] + 1)
            else:
                places.append(public_rank(i))
        return places

    def range(
        self, low: Bound | None, high: Bound | None, limit: int, offset: int, data: bool
    ) -> Question[Page]:
        limit = whole(limit, 0, MAX_LIMIT, InvalidLimit)
        offset = self._offset(offset)
        anchors: tuple[Anchor, ...] = self._between(low, high)
        if self._after is not None:
            anchors += (self._place(self._after, False),)

        def answer(found: ReadResult, at: Offset) -> Page:
            first, last = found.positions[:2]
            return self._page(found, at, end=max(first, last))

        span = Span(len(anchors) - 1 if self._after else 0, offset, offset + limit, 0, 1)
        return self._asked(answer, anchors=anchors, spans=(span,), data=data)

    def count(self, low: Bound | None, high: Bound | None) -> Question[int]:
        def answer(found: ReadResult, _: Offset) -> int:
            first, last = found.positions
            return max(0, last - first)

        return self._asked(answer, anchors=self._between(low, high))

    def score_at_percentile(self, percentile: object) -> Question[Score | None]:
        """The score that at least this percent of the members do not exceed (nearest rank)."""
        share = percentile_share(percentile)

        def look(total: int) -> Question[Score | None]:
            place = total - max(1, ceil(share * total))

            def answer(found: ReadResult, _: Offset) -> Score | Question[Score | None] | None:
                if not found.total:
                    return None
                wanted = found.total - max(1, ceil(share * found.total))
                part = found.slices[0]
                if not part.start <= wanted < part.start + len(part.members):
                    return look(found.total)
                return self._scale.score(words_at(part.words, wanted - part.start))

            near = Span(0, place - PERCENTILE_MARGIN, place + PERCENTILE_MARGIN)
            return self._asked(answer, anchors=(Start(),), spans=(near,))

        return self._asked(lambda found, _: look(found.total) if found.total else None)

    def _asked(
        self,
        answer: Callable[[ReadResult, Offset], "T | Question[T]"],
        *,
        anchors: tuple[Anchor, ...] = (),
        spans: tuple[Span, ...] = (),
        members: tuple[str, ...] = (),
        data: bool = False,
    ) -> Question[T]:
        """A question of this ranking."""
        ask = ReadRequest(self.key, anchors, spans, members, data)
        return Question((ask,), lambda found, offset: answer(found[0], offset))

    def _as_of(self, offset: Offset) -> AsOf:
        if self._refreshed is not None:
            offset = self._refreshed.offset
        now_ms = None if self._faded is None else self._now_ms
        label = self._period.label or None
        return AsOf(offset, self._window, label, now_ms, self._labels, self._by)

    def _standing(
        self, found: ReadResult, position: int, offset: Offset, to_rank: int | None = None
    ) -> Standing:
        part = found.slices[0]
        at = position - part.start
        return standing(
            part,
            at,
            found.total,
            self._as_of(offset),
            self._scale,
            to_rank=None if to_rank is None else self._gap(found, position, to_rank),
            data=None if found.data is None else _decoded([found.data[0][at]])[0],
        )

    def _gap(self, found: ReadResult, position: int, to_rank: int) -> Gap:
        part = found.slices[0]
        own = target = words_at(part.words, position - part.start)
        if to_rank - 1 < position:
            target = words_at(found.slices[1].words, 0)
        return Gap(to_rank, self._scale.gap(target, own))

    def _page(
        self, found: ReadResult, offset: Offset, *, reverse: bool = False, end: int | None = None
    ) -> Page:
        """The entries found; `end` is where there is nothing more to show."""
        part = found.slices[0]
        listed = self._entries(found)
        stop = part.start + len(listed)
        more = part.start > 0 if reverse else stop < (found.total if end is None else end)
        after = self._cursor(part, 0 if reverse else -1, reverse) if more and listed else None
        return Page(listed[::-1] if reverse else listed, found.total, self._as_of(offset), after)

    def _entries(self, found: ReadResult) -> list[Entry]:
        carried = None if found.data is None else _decoded(found.data[0])
        return entries(found.slices[0], self._scale, carried)

    def _cursor(self, part: Slice, i: int, reverse: bool) -> str:
        member = part.members[i].encode()
        return cursors.encode(self.key, reverse, words_at(part.words, i)[: self._width], member)

    def _offset(self, offset: int) -> int:
        """How many entries to pass over, where no cursor says it."""
        offset = whole(offset, 0, None, InvalidOffset)
        if offset and self._after is not None:
            raise InvalidOffset("an offset stands beside a cursor")
        return min(offset, FAR)

    def _place(self, cursor: cursors.Cursor, reverse: bool) -> AtBound:
        """Where a cursor was made: all up to and with its entry have been read."""
        if (cursor.key, cursor.reverse, len(cursor.words)) != (self.key, reverse, self._width):
            raise InvalidCursor("the cursor was made for another period or direction")
        return AtBound(cursor.words, cursor.member, right=not reverse)

    def _between(self, low: Bound | None, high: Bound | None) -> tuple[Anchor, Anchor]:
        if self._faded is not None:
            return between_faded(self._faded, low, high)
        return between(self.rules, low, high)


def cached_view(state: BoardState, window: str | None, now_ms: int) -> RankingView | None:
    """The view of a window's running period, over all events, that was kept ready; None where there
    is none, or where it no longer holds."""
    view: RankingView | None = None
    if window is None or type(window) is str:
        view = state.views.get(window)
    if view is None or now_ms >= view.until_ms or view.rules is not state.rules:
        return None
    return view


def _rank(found: Sequence[ReadResult], _: Offset) -> int | None:
    located = found[0].located
    return None if located is None else rank_or_none(located.ranks[0])


def _ranks(found: Sequence[ReadResult], _: Offset) -> list[int | None]:
    located = found[0].located
    return [] if located is None else ranks_or_none(located.ranks)


def _decoded(carried: Sequence[bytes | None]) -> list[Any]:
    """What members carry, as they gave it."""
    return [None if data is None else msgspec.json.decode(data) for data in carried]


def _ensure_running(step: int, running: int) -> None:
    """A list of a rolling window is gone with its step."""
    if step < running:
        raise PeriodExpired("the step in which the list was begun has passed")
