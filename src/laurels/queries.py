"""Questions: from the index to what a user sees.

A question names a board, a window and a period, which together are one ranking at one moment: a
`View`. Every method here reads that view and nothing else, so its answer is one state, named by
`as_of`. The caller keeps commits out while it asks.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cached_property
from itertools import islice
from math import ceil
from typing import Any

import msgspec

from . import cursor as cursors
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
from .fold import BoardState, Fold
from .given import shown
from .index.base import Slice
from .periods import Period
from .plan import kept_periods, ranking_key, readable, window_named
from .score import Score, exact_units, gap, scores_of
from .standing import (
    AsOf,
    Entry,
    Gap,
    Page,
    PeriodInfo,
    Standing,
    entries,
    public_rank,
    score_at,
    standing,
    words_at,
)
from .windows import MIN_MS, Calendar, Rolling, Window

MAX_LIMIT = 10_000
MAX_RADIUS = 5_000

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


def period_infos(
    fold: Fold, state: BoardState, now_ms: int, window: str | None
) -> list[PeriodInfo]:
    """The periods of a window that can be read, newest first; a rolling window has one, from the
    beginning of the oldest step it counts to the end of the one that runs."""
    chosen = window_named(state.rules, window)
    kept = kept_periods(chosen, state.floors.get(chosen.name, MIN_MS), now_ms)
    return [
        PeriodInfo(
            label=period.label,
            start_ms=_start_ms(chosen, period),
            end_ms=period.end_ms,
            total=fold.index.size(ranking_key(state.number, chosen, period)),
            current=period is kept[0],
        )
        for period in kept
    ]


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
        fold: Fold,
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
        self.period = readable(chosen, floor_ms, now_ms, period)
        self.key = ranking_key(state.number, chosen, self.period)
        if self._after is not None and isinstance(chosen, Rolling):
            _ensure_running(self._after.key.instance, self.key.instance)
        self.as_of = AsOf(fold.offset, chosen.name, self.period.label or None)
        self._state = state
        self._rules = state.rules
        self._index = fold.index

    @property
    def _width(self) -> int:
        """How many words decide the order: the columns, and the tie stamp if there is one."""
        return len(self._rules.columns) + (self._rules.tie != 0)

    @cached_property
    def total(self) -> int:
        return self._index.size(self.key)

    def top(self, limit: int, offset: int, reverse: bool, data: bool) -> Page:
        whole(limit, 0, MAX_LIMIT, InvalidLimit)
        offset = self._skipped(offset, reverse)
        if reverse:
            stop = max(0, self.total - offset)
            return self._page(max(0, stop - limit), stop, data, reverse=True)
        return self._page(offset, offset + limit, data)

    def around(self, member: str, radius: int, data: bool) -> Page | None:
        whole(radius, 0, MAX_RADIUS, InvalidRadius)
        if (position := self._position(member)) is None:
            return None
        shown = min(2 * radius + 1, self.total)
        start = min(max(0, position - radius), self.total - shown)
        return self._page(start, start + shown, data, end=start + shown)

    def standing(self, member: str, to_rank: int | None, data: bool) -> Standing | None:
        if to_rank is not None:
            whole(to_rank, 1, None, InvalidRank)
        position = self._position(member)
        return None if position is None else self._standing(position, to_rank, data)

    def at_rank(self, rank: int, data: bool) -> Standing | None:
        position = whole(rank, 1, None, InvalidRank) - 1
        return self._standing(position, None, data) if position < self.total else None

    def standings(self, asked: Sequence[str], data: bool) -> Page:
        """Those of the members who are ranked, in standing order, ranked among themselves."""
        located = self._index.locate(self.key, asked)
        order = sorted(
            (i for i, position in enumerate(located.positions) if position >= 0),
            key=located.positions.__getitem__,
        )
        ranked = [asked[i] for i in order]
        ranks = [public_rank(located.ranks[i]) for i in order]
        scores = scores_of([[column[i] for i in order] for column in located.words], self._rules)
        carried = self._data(ranked) if data else [None] * len(ranked)
        listed = list(map(Entry, ranked, ranks, scores, carried, self._places(scores)))
        return Page(listed, self.total, self.as_of)

    def _places(self, scores: Sequence[Score]) -> list[int]:
        """Ranks, from 1 and in the board's style, of members whose scores are in order."""
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
    ) -> Page:
        whole(limit, 0, MAX_LIMIT, InvalidLimit)
        first, last = self._between(low, high)
        start = self._skipped(offset, False)
        if self._after is None:
            start += first
        start = min(max(first, start), last)
        return self._page(start, min(start + limit, last), data, end=last)

    def count(self, low: Bound | None, high: Bound | None) -> int:
        first, last = self._between(low, high)
        return last - first

    def score_at_percentile(self, percentile: object) -> Score | None:
        """The score that at least this percent of the members do not exceed (nearest rank)."""
        share = _percentile(percentile)
        if not self.total:
            return None
        from_worst = max(1, ceil(share * self.total))
        part = self._index.slice(self.key, self.total - from_worst, self.total - from_worst + 1)
        return score_at(words_at(part.words, 0), self._rules)

    def _position(self, member: str) -> int | None:
        position = self._index.position(self.key, member_bytes(member))
        return None if position < 0 else position

    def _standing(self, position: int, to_rank: int | None, data: bool) -> Standing:
        part = self._index.slice(self.key, position - 1, position + 2)
        at = position - part.start
        return standing(
            part,
            at,
            self.total,
            self.as_of,
            self._rules,
            to_rank=None if to_rank is None else self._gap(part, at, to_rank),
            data=self._data([part.members[at]])[0] if data else None,
        )

    def _gap(self, part: Slice, at: int, to_rank: int) -> Gap:
        own = target = words_at(part.words, at)
        if to_rank - 1 < part.start + at:
            target = words_at(self._index.slice(self.key, to_rank - 1, to_rank).words, 0)
        return Gap(to_rank, gap(target, own, self._rules))

    def _page(
        self, start: int, stop: int, data: bool, *, reverse: bool = False, end: int | None = None
    ) -> Page:
        """The entries at positions start to stop; `end` is where there is nothing more to show."""
        part = self._index.slice(self.key, start, stop)
        listed = entries(part, self._rules, self._data(part.members) if data else None)
        more = start > 0 if reverse else stop < (self.total if end is None else end)
        after = self._cursor(part, 0 if reverse else -1, reverse) if more and listed else None
        return Page(listed[::-1] if reverse else listed, self.total, self.as_of, after)

    def _cursor(self, part: Slice, i: int, reverse: bool) -> str:
        member = part.members[i].encode()
        return cursors.encode(self.key, reverse, words_at(part.words, i)[: self._width], member)

    def _skipped(self, offset: int, reverse: bool) -> int:
        """How many entries to pass over: the offset, or all up to and with the cursor."""
        whole(offset, 0, None, InvalidOffset)
        if self._after is None:
            return offset
        if offset:
            raise InvalidOffset("an offset stands beside a cursor")
        return self._entries_until(self._after, reverse)

    def _entries_until(self, cursor: cursors.Cursor, reverse: bool) -> int:
        """How many entries, from the end that is read first, come up to and with the cursor."""
        if (cursor.key, cursor.reverse, len(cursor.words)) != (self.key, reverse, self._width):
            raise InvalidCursor("the cursor was made for another period or direction")
        upto = self._index.bound(self.key, cursor.words, cursor.member, right=not reverse)
        return self.total - upto if reverse else upto

    def _between(self, low: Bound | None, high: Bound | None) -> tuple[int, int]:
        """The positions, first and end, of the entries between two scores, ends included."""
        lower, upper = self._prefix(low), self._prefix(high)
        if len(self._rules.columns) == 1 and _beyond(lower, upper):
            raise InvalidRange(f"low {shown(low)} lies above high {shown(high)}")
        worst, best = self._signed(lower), self._signed(upper)
        if self._rules.columns[0].sign > 0:
            worst, best = best, worst
        if _beyond(best, worst):  # several columns have several directions: either end may lead
            worst, best = best, worst
        first = 0 if best is None else self._index.bound(self.key, best, right=False)
        last = self.total if worst is None else self._index.bound(self.key, worst, right=True)
        return first, max(first, last)

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

    def _data(self, members: Sequence[str]) -> list[Any]:
        found = self._index.data(self.key.board, members)
        return [None if data is None else msgspec.json.decode(data) for data in found]


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
