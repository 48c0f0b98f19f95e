"""Questions: from what a user asks to what is read of an index, and back to what the user sees.

A board as it is at some time is a `Moment`; a window and a period of it name one ranking, a `View`.
Every method of these makes a `Question`: the asks, which an index answers from one state, and how
the answer is made of what it finds. Nothing here reads an index itself, so it does not matter
whether that is in this process.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import islice
from math import ceil
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct

from . import cursor as cursors
from .boards import BoardState
from .errors import (
    InvalidCursor,
    InvalidLimit,
    InvalidMember,
    InvalidOffset,
    InvalidPercentile,
    InvalidRadius,
    InvalidRange,
    InvalidRank,
    LaurelsError,
    PeriodExpired,
)
from .event import member_bytes
from .given import shown
from .index.asking import Anchor, Ask, AtBound, AtMember, End, Found, Span, Start, find
from .index.base import Index, Offset, Slice
from .periods import Period
from .plan import kept_periods, ranking_key, readable, window_named
from .scale import Faded, faded_scale, scale_of
from .score import Score, exact_units
from .standing import (
    AsOf,
    Entry,
    Gap,
    Page,
    PeriodInfo,
    Standing,
    entries,
    public_rank,
    standing,
    words_at,
)
from .windows import MIN_MS, Calendar, Rolling, Window

MAX_LIMIT = 10_000
MAX_RADIUS = 5_000
PERCENTILE_MARGIN = 10
"""How far a ranking may grow or shrink between two looks at it."""
FAR = 2**52
"""A position beyond every ranking."""

_BESIDE: tuple[Span, ...] = (Span(0, -1, 2),)

T = TypeVar("T")
Bound = int | Decimal | str | tuple[int | Decimal | str, ...]


def whole(value: object, low: int, high: int | None, refusal: Callable[[str], LaurelsError]) -> int:
    """An integer argument within its bounds, ends included, or the refusal."""
    if type(value) is not int:
        raise refusal(f"{shown(value)} is no whole number")
    if value < low:
        raise refusal(f"{shown(value)} is below {low}")
    if high is not None and value > high:
        raise refusal(f"{shown(value)} is above {high:,}")
    return value


class Question(Struct, Generic[T], frozen=True):
    """What is to be read, all of one state, and what the answer is: made of what was found and of
    the offset of that state. Where it takes another look, the answer is the next question."""

    asks: tuple[Ask, ...]
    answer: Callable[[Sequence[Found], Offset], "T | Question[T]"]


def answered(question: Question[T], index: Index, offset: Offset) -> T:
    """The answer to a question by an index that stands still meanwhile, as of an offset."""
    while True:
        found = [find(index, ask) for ask in question.asks]
        answer = question.answer(found, offset)
        if not isinstance(answer, Question):
            return answer
        question = answer


class Moment:
    """A board at some time, and what can be asked of it."""

    def __init__(self, state: BoardState, now_ms: int) -> None:
        self._state = state
        self._now_ms = now_ms

    def view(self, window: str | None, period: str | None, after: str | None = None) -> "View":
        """One ranking of the board."""
        return View(self._state, self._now_ms, window, period, after)

    def card(
        self, member: str, to_rank: int | None, data: bool
    ) -> Question[dict[str, Standing | None]]:
        """A member's standing in every window."""
        asked = [
            self.view(window, None).standing(member, to_rank, data)
            for window in self._state.rules.windows
        ]

        def answer(found: Sequence[Found], offset: Offset) -> dict[str, Standing | None]:
            each = zip(self._state.rules.windows, asked, found, strict=True)
            return {
                window: cast("Standing | None", one.answer([part], offset))
                for window, one, part in each
            }

        return Question(tuple([one.asks[0] for one in asked]), answer)

    def periods(self, window: str | None) -> Question[list[PeriodInfo]]:
        """The periods of a window that can be read, newest first; a rolling window has one, from
        the beginning of the oldest step it counts to the end of the one that runs."""
        state = self._state
        chosen = window_named(state.rules, window)
        kept = kept_periods(chosen, state.floors.get(chosen.name, MIN_MS), self._now_ms)

        def answer(found: Sequence[Found], _: Offset) -> list[PeriodInfo]:
            return [
                PeriodInfo(
                    label=period.label,
                    start_ms=_start_ms(chosen, period),
                    end_ms=period.end_ms,
                    total=part.total,
                    current=period is kept[0],
                )
                for period, part in zip(kept, found, strict=True)
            ]

        keys = [ranking_key(state.number, chosen, period) for period in kept]
        return Question(tuple([Ask(key) for key in keys]), answer)


def _start_ms(window: Window, period: Period) -> int:
    if isinstance(window, Rolling):
        return window.span(window.number_at(period.start_ms))[0]
    return period.start_ms


def friends(members: Iterable[str]) -> list[str]:
    """The members asked for, each once; refused when they are too many or none."""
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise InvalidMember(f"{shown(members)} is no list of members")
    asked = list(islice(members, MAX_LIMIT + 1))
    whole(len(asked), 0, MAX_LIMIT, InvalidLimit)
    for member in asked:
        member_bytes(member)
    return list(dict.fromkeys(asked))


class View:
    """One ranking at one moment, and what can be asked of it."""

    def __init__(
        self,
        state: BoardState,
        now_ms: int,
        window: str | None,
        period: str | None,
        after: str | None = None,
    ) -> None:
        chosen = window_named(state.rules, window)
        floor_ms = state.floors.get(chosen.name, MIN_MS)
        self._after = None if after is None else cursors.decode(after, state.number, chosen.name)
        if self._after is not None and period is None and isinstance(chosen, Calendar):
            period = chosen.period_at(self._after.key.instance).label
        self._window = chosen.name
        self._period = readable(chosen, floor_ms, now_ms, period)
        self._key = ranking_key(state.number, chosen, self._period)
        if self._after is not None and isinstance(chosen, Rolling):
            _ensure_running(self._after.key.instance, self._key.instance)
        self._rules = state.rules
        self._now_ms = now_ms
        self._scale = scale_of(state.rules, chosen.name, now_ms)
        self._faded = faded_scale(state.rules, chosen.name, now_ms)

    @property
    def _width(self) -> int:
        """How many words decide the order: the columns, and the tie stamp if there is one."""
        return self._rules.order_words(self._window)

    def top(self, limit: int, offset: int, reverse: bool, data: bool) -> Question[Page]:
        whole(limit, 0, MAX_LIMIT, InvalidLimit)
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
        whole(radius, 0, MAX_RADIUS, InvalidRadius)

        def answer(found: Found, offset: Offset) -> Page | None:
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
            whole(to_rank, 1, None, InvalidRank)

        def answer(found: Found, offset: Offset) -> Standing | None:
            position = found.positions[0]
            if position < 0:
                return None
            return self._standing(found, position, offset, to_rank)

        anchors: tuple[Anchor, ...] = (AtMember(member_bytes(member)),)
        spans = _BESIDE
        if to_rank is not None:
            place = min(to_rank, FAR) - 1
            anchors += (Start(),)
            spans += (Span(1, place, place + 1),)
        return self._asked(answer, anchors=anchors, spans=spans, data=data)

    def at_rank(self, rank: int, data: bool) -> Question[Standing | None]:
        position = min(whole(rank, 1, None, InvalidRank), FAR) - 1

        def answer(found: Found, offset: Offset) -> Standing | None:
            if position >= found.total:
                return None
            return self._standing(found, position, offset)

        span = Span(0, position - 1, position + 2)
        return self._asked(answer, anchors=(Start(),), spans=(span,), data=data)

    def standings(self, asked: Sequence[str], data: bool) -> Question[Page]:
        """Those of the members who are ranked, in standing order, ranked among themselves."""

        def answer(found: Found, offset: Offset) -> Page:
            return Page(self._friends(asked, found), found.total, self._as_of(offset))

        return self._asked(answer, members=tuple(asked), data=data)

    def _friends(self, asked: Sequence[str], found: Found) -> list[Entry]:
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
            list(zip(*words[: self._rules.score_words(self._window)], strict=True))
        )
        carried: list[Any] = [None] * len(ranked)
        if found.data is not None:
            carried = _decoded([found.data[-1][i] for i in order])
        return list(map(Entry, ranked, ranks, scores, carried, places))

    def _places(self, scores: Sequence[tuple[int, ...]]) -> list[int]:
        """Ranks, from 1 and in the board's style, of members whose scores (words) are in order."""
        places: list[int] = []
        for i, score in enumerate(scores):
            if i and self._rules.rank != "ordinal" and score == scores[i - 1]:
                places.append(places[-1])
            elif i and self._rules.rank == "dense":
                places.append(places[-1] + 1)
            else:
                places.append(public_rank(i))
        return places

    def range(
        self, low: Bound | None, high: Bound | None, limit: int, offset: int, data: bool
    ) -> Question[Page]:
        whole(limit, 0, MAX_LIMIT, InvalidLimit)
        offset = self._offset(offset)
        anchors = self._between(low, high)
        if self._after is not None:
            anchors += (self._place(self._after, False),)

        def answer(found: Found, at: Offset) -> Page:
            first, last = found.positions[:2]
            return self._page(found, at, end=max(first, last))

        span = Span(len(anchors) - 1 if self._after else 0, offset, offset + limit, 0, 1)
        return self._asked(answer, anchors=anchors, spans=(span,), data=data)

    def count(self, low: Bound | None, high: Bound | None) -> Question[int]:
        def answer(found: Found, _: Offset) -> int:
            first, last = found.positions
            return max(0, last - first)

        return self._asked(answer, anchors=self._between(low, high))

    def score_at_percentile(self, percentile: object) -> Question[Score | None]:
        """The score that at least this percent of the members do not exceed (nearest rank)."""
        share = _percentile(percentile)

        def look(total: int) -> Question[Score | None]:
            place = total - max(1, ceil(share * total))

            def answer(found: Found, _: Offset) -> Score | Question[Score | None] | None:
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
        answer: Callable[[Found, Offset], "T | Question[T]"],
        *,
        anchors: tuple[Anchor, ...] = (),
        spans: tuple[Span, ...] = (),
        members: tuple[str, ...] = (),
        data: bool = False,
    ) -> Question[T]:
        """A question of this ranking."""
        ask = Ask(self._key, anchors, spans, members, data)
        return Question((ask,), lambda found, offset: answer(found[0], offset))

    def _as_of(self, offset: Offset) -> AsOf:
        now_ms = None if self._faded is None else self._now_ms
        return AsOf(offset, self._window, self._period.label or None, now_ms)

    def _standing(
        self, found: Found, position: int, offset: Offset, to_rank: int | None = None
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

    def _gap(self, found: Found, position: int, to_rank: int) -> Gap:
        part = found.slices[0]
        own = target = words_at(part.words, position - part.start)
        if to_rank - 1 < position:
            target = words_at(found.slices[1].words, 0)
        return Gap(to_rank, self._scale.gap(target, own))

    def _page(
        self, found: Found, offset: Offset, *, reverse: bool = False, end: int | None = None
    ) -> Page:
        """The entries found; `end` is where there is nothing more to show."""
        part = found.slices[0]
        listed = self._entries(found)
        stop = part.start + len(listed)
        more = part.start > 0 if reverse else stop < (found.total if end is None else end)
        after = self._cursor(part, 0 if reverse else -1, reverse) if more and listed else None
        return Page(listed[::-1] if reverse else listed, found.total, self._as_of(offset), after)

    def _entries(self, found: Found) -> list[Entry]:
        carried = None if found.data is None else _decoded(found.data[0])
        return entries(found.slices[0], self._scale, carried)

    def _cursor(self, part: Slice, i: int, reverse: bool) -> str:
        member = part.members[i].encode()
        return cursors.encode(self._key, reverse, words_at(part.words, i)[: self._width], member)

    def _offset(self, offset: int) -> int:
        """How many entries to pass over, where no cursor says it."""
        whole(offset, 0, None, InvalidOffset)
        if offset and self._after is not None:
            raise InvalidOffset("an offset stands beside a cursor")
        return min(offset, FAR)

    def _place(self, cursor: cursors.Cursor, reverse: bool) -> AtBound:
        """Where a cursor was made: all up to and with its entry have been read."""
        if (cursor.key, cursor.reverse, len(cursor.words)) != (self._key, reverse, self._width):
            raise InvalidCursor("the cursor was made for another period or direction")
        return AtBound(cursor.words, cursor.member, right=not reverse)

    def _between(self, low: Bound | None, high: Bound | None) -> tuple[Anchor, ...]:
        """The first and the end of the entries between two scores, ends included."""
        if self._faded is not None:
            return self._between_faded(self._faded, low, high)
        lower, upper = self._prefix(low), self._prefix(high)
        if len(self._rules.columns) == 1 and _beyond(lower, upper):
            raise InvalidRange(f"low {shown(low)} lies above high {shown(high)}")
        worst, best = self._signed(lower), self._signed(upper)
        if self._rules.columns[0].sign > 0:
            worst, best = best, worst
        if _beyond(best, worst):  # several columns have several directions: either end may lead
            worst, best = best, worst
        return (
            Start() if best is None else AtBound(best, None, right=False),
            End() if worst is None else AtBound(worst, None, right=True),
        )

    def _between_faded(
        self, scale: Faded, low: Bound | None, high: Bound | None
    ) -> tuple[Anchor, ...]:
        """The same of what is shown: the totals shown as `low` or more, and not as more than
        `high`."""
        lower, upper = scale.bound(low), scale.bound(high)
        if lower is not None and upper is not None and lower > upper:
            raise InvalidRange(f"low {shown(low)} lies above high {shown(high)}")
        turned = scale.sign < 0
        least = None if lower is None else AtBound(scale.words(lower), None, right=turned)
        beyond = None if upper is None else AtBound(scale.words(upper + 1), None, right=turned)
        if turned:
            least, beyond = beyond, least
        return least or Start(), beyond or End()

    def _prefix(self, bound: Bound | None) -> tuple[int, ...] | None:
        if bound is None:
            return None
        parts = tuple(bound) if isinstance(bound, (tuple, list)) else (bound,)
        if not 1 <= len(parts) <= len(self._rules.columns):
            raise InvalidRange(f"{shown(bound)} has not 1 to {len(self._rules.columns)} parts")
        return tuple(
            exact_units(part, column.scale, column.name)
            for part, column in zip(parts, self._rules.columns, strict=False)
        )

    def _signed(self, units: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if units is None:
            return None
        return tuple(
            [u * column.sign for u, column in zip(units, self._rules.columns, strict=False)]
        )


def _decoded(carried: Sequence[bytes | None]) -> list[Any]:
    """What members carry, as they gave it."""
    return [None if data is None else msgspec.json.decode(data) for data in carried]


def _ensure_running(step: int, running: int) -> None:
    """A list of a rolling window is gone with its step."""
    if step < running:
        raise PeriodExpired("the step in which the list was begun has passed")


def _beyond(first: tuple[int, ...] | None, second: tuple[int, ...] | None) -> bool:
    """Whether the first lies above the second in the columns that both have."""
    if first is None or second is None:
        return False
    shared = min(len(first), len(second))
    return first[:shared] > second[:shared]


def _percentile(percentile: object) -> Fraction:
    """A percentile as an exact share of 1; it has at most 30 decimal places."""
    if isinstance(percentile, (int, float, Decimal, str)) and not isinstance(percentile, bool):
        try:
            share = Decimal(str(percentile))
        except InvalidOperation:
            share = Decimal("NaN")
        exponent = share.as_tuple().exponent
        if isinstance(exponent, int) and exponent >= -30 and 0 <= share <= 100:
            return Fraction(share) / 100
    raise InvalidPercentile(f"{shown(percentile)} is not within 0 to 100")
