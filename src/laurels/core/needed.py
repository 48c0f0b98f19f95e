"""The value of one event that, counted now, moves a member to a position. Pure.

An event counts in all windows and scopes it belongs to, or in none. So the value depends on two
things. One is the entry at the position, since the new entry has to sort before it. The other is
the range of every total that the event would change. The plan reads both in one call.

In this module values are words, whose sign makes a smaller word the better one. One column of the
event is varied (`column`). The *limit* is the greatest (least demanding) word of this column with
which the member reaches the position. For a `sum` column the ranges bound the amount that may be
added, and the answer is the amount closest to 0 within the limit and the ranges. For a `last` or
`best` column the answer is the greatest word within the limit and the column's own range.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from laurels.engine.writing.decay import add
from laurels.errors import UnknownColumn
from laurels.model.labels import LabelPairs, scope_at
from laurels.model.rules import Rules
from laurels.model.scale import decayed_scale
from laurels.model.score import LIMIT, Score, score_of, stamp, units_of, word_bounds
from laurels.model.validation import safe_repr
from laurels.model.windows.weighing import Weighing

from .board_state import BoardState
from .head import ensure_listed, listed
from .index import Slice
from .ranking_key import RankingKey, ranking_key
from .requests import ReadRequest, ReadResult, Span, Start
from .standing import Needed, words_at
from .zeros import zeros_in

Words = tuple[int, ...]


class Holder(Struct, frozen=True):
    """The entry at the position that the member wants to reach."""

    words: Words
    member: bytes


class Bounds(Struct, frozen=True):
    """The bounds of a total that the event would change: a total of the member, or of a label value
    of the event."""

    low: Sequence[int]
    high: Sequence[int]
    of_member: bool


class BoundTotal(Struct, frozen=True):
    """A total that the event would change or begin: its words, or None if there is no total yet,
    and the bounds of its values."""

    words: Words | None
    bounds: Bounds


class NeededPlan(Struct, frozen=True):
    """The requests for the value that a member needs in a ranking, and the computation from their
    results. The first request reads the member's own entry and the entry at the position. If
    members whose score is 0 are not ranked (`hides_zero`), the first request does not find such a
    member, so a second request reads the member's own entry. The other requests read the member's
    other totals; there are none while the board counts no events (`is_open` is False)."""

    rules: Rules
    window: str
    now_ms: int
    member: str
    rank: int
    column: int
    is_open: bool
    hides_zero: bool
    requests: tuple[ReadRequest, ...]
    bounds: tuple[Bounds, ...]
    """The bounds of the other totals, in the order of the requests that read these totals."""

    def needed(self, results: Sequence[ReadResult]) -> Needed | None:
        """Return the needed value; None if the member is at the position already. Raises BeyondHead
        if the position is not listed."""
        first, *others = results
        own, head = own_words(first), self.rules.head
        if own is not None and first.located is not None:
            certain = self.rank > first.total or not head
            reached = self.rank if certain else min(self.rank, listed(head, first))
            if first.located.positions[0] < reached:
                return None
        ensure_listed(head, self.rank - 1, first)
        if self.hides_zero:
            own = own_words(others.pop(0))
        totals = [
            BoundTotal(own_words(result), bounds)
            for result, bounds in zip(others, self.bounds, strict=True)
        ]
        weighing = self.rules.weighing(self.window)
        holder = _holder(first.slices[0], self.rules.order_words(self.window))
        attempt = _Attempt(self, own, holder, totals)
        words: Words | None = None
        if self.is_open:
            words = attempt.values() if weighing is None else attempt.decayed_value(weighing)
        value: Score | None = None
        if words is not None:
            value = score_of(units_of(words, self.rules), self.rules)
        return Needed(self.rank, self.rules.columns[self.column].name, value, words is None)


def plan_needed(
    state: BoardState,
    key: RankingKey,
    now_ms: int,
    member: str,
    rank: int,
    column: str | None = None,
    labels: LabelPairs = (),
) -> NeededPlan:
    """Return the plan for a running period of a window that is not refreshed, in the scope of these
    labels. The period is closed if the board has ended. `column` names the column whose value
    varies, by default the first. Raises UnknownColumn."""
    rules = state.rules
    place = rank - 1
    span = Span(0, place, place + 1)
    zeros = zeros_in(state, key.window, key.instance, now_ms)
    main = ReadRequest(
        key,
        (Start(),),
        (span,),
        (member,),
        head=rules.head,
        zeros=zeros,
        hidden=state.hidden_in(key, now_ms),
    )
    requests, bounds = [main], list[Bounds]()
    if zeros is not None:
        requests.append(ReadRequest(key, members=(member,)))
    is_open = rules.starts_ms <= now_ms < rules.ends_ms
    for request, each in _totals(state, now_ms, member, dict(labels)) if is_open else ():
        requests.append(request)
        bounds.append(each)
    number = _column_at(rules, column)
    return NeededPlan(
        rules,
        key.window,
        now_ms,
        member,
        rank,
        number,
        is_open,
        zeros is not None,
        tuple(requests),
        tuple(bounds),
    )


def _totals(
    state: BoardState, now_ms: int, member: str, labels: dict[str, str]
) -> Iterator[tuple[ReadRequest, Bounds]]:
    """For each total that an event with these labels changes now, yield a request and the bounds of
    the total."""
    rules = state.rules
    if rules.best or (len(rules.columns) == 1 and not rules.columns[0].adds_up):
        return
    for spec in rules.specs:
        window = rules.windows[spec.window]
        scope = scope_at(spec, labels)
        if scope is None or window.weighing is not None or (spec.by and rules.has_label_replica):
            continue
        key = ranking_key(state.number, window, window.period_at(now_ms), scope)
        of = (labels[spec.by] if spec.by else member,)
        if not window.interval_ms:
            yield ReadRequest(key, members=of), Bounds(*word_bounds(rules), not spec.by)
        if window.steps:
            bounds = Bounds(*word_bounds(rules, window.steps), not spec.by)
            yield ReadRequest(key, members=of, tally=True), bounds


def _column_at(rules: Rules, name: str | None) -> int:
    if name is None:
        return 0
    names = [column.name for column in rules.columns]
    if name not in names:
        raise UnknownColumn(
            f"expected a column of the board ({', '.join(names)}), got {safe_repr(name)}"
        )
    return names.index(name)


def own_words(result: ReadResult) -> Words | None:
    """Return the words of the only member in the result of a request, None if it has no entry."""
    located = result.located
    if located is None or located.positions[0] < 0:
        return None
    return words_at(located.words, 0)


def _holder(part: Slice, width: int) -> Holder | None:
    if not part.members:
        return None
    return Holder(words_at(part.words[:width], 0), part.members[0].encode())


class _Attempt(Struct, frozen=True):
    """The search for the value with which a member reaches a position. If nobody has that position,
    `holder` is None and any event is enough."""

    plan: NeededPlan
    own: Words | None
    holder: Holder | None
    totals: Sequence[BoundTotal]

    def values(self) -> Words | None:
        """Return the values of the event, as words; None if no values reach the position."""
        rules, at = self.plan.rules, self.plan.column
        values: list[int] = []
        for column in range(len(rules.columns)):
            least, most = self._range(column)
            if least > most:
                return None
            values.append(self._kept(column, least, most))
        after = [
            value + self._before(column) if rules.columns[column].adds_up else value
            for column, value in enumerate(values)
        ]
        limit = self._limit(after)
        if limit is None:
            return None
        least, most = self._range(at)
        if rules.columns[at].adds_up:
            most = min(most, limit - self._before(at))
        else:
            most = min(most, limit)
        if rules.best and self.own is not None:
            # an event with an equal best value would change nothing
            most = min(most, self.own[at] - 1)
        if least > most:
            return None
        values[at] = _nearest(least, most) if rules.columns[at].adds_up else most
        if rules.hide_zero and not any(after[:at] + after[at + 1 :]):
            zero = -self._before(at) if rules.columns[at].adds_up else 0
            if values[at] == zero:
                return self._without_zero(values, least, most)
        return tuple(values)

    def decayed_value(self, weighing: Weighing) -> Words | None:
        """Return the value of the event for a window with decay, where a total grows by the value
        times a weight. None if no value reaches the position."""
        exponent, mantissa = weighing.weight(self.plan.now_ms)
        total = (0, 0) if self.own is None else (self.own[0], self.own[1])

        def reaches(value: int) -> bool:
            words: Words = add(total, value, exponent, mantissa)
            return self._sorts_before((*words, *self._tie()))

        least, most = self._range(0)
        greatest = _greatest(reaches, least, most)
        if greatest is None:
            return None
        value = _nearest(least, greatest)
        decayed = decayed_scale(self.plan.rules, self.plan.window, self.plan.now_ms)
        if self.plan.rules.hide_zero and decayed is not None:
            after: Words = add(total, value, exponent, mantissa)
            if not decayed.score(after):
                return self._without_zero([value], least, greatest)
        return (value,)

    def _without_zero(self, values: list[int], least: int, most: int) -> Words | None:
        """Return `values` with the word of the varied column replaced, so that the score is not 0.
        The new word is the next smaller or the next greater one, whichever is closer to 0 among
        those from `least` to `most`. None if neither is in this range."""
        at = self.plan.column
        own = [each for each in (values[at] - 1, values[at] + 1) if least <= each <= most]
        if not own:
            return None
        values[at] = min(own, key=abs)
        return tuple(values)

    def _range(self, column: int) -> tuple[int, int]:
        """Return the least and the greatest word of the event's value.

        For a sum these bound the amount that may be added to every total. For any other column they
        are the column's own range.
        """
        rules = self.plan.rules
        if not rules.columns[column].adds_up:
            low, high = word_bounds(rules)
            return low[column], high[column]
        least, most = -LIMIT, LIMIT
        for total in self.totals:
            before = 0 if total.words is None else total.words[column]
            least = max(least, total.bounds.low[column] - before)
            most = min(most, total.bounds.high[column] - before)
        return least, most

    def _before(self, column: int) -> int:
        return 0 if self.own is None else self.own[column]

    def _kept(self, column: int, least: int, most: int) -> int:
        """Return the word of the event for a column that is not varied: the one that leaves the
        column as it is, or the nearest one in its range."""
        if self.plan.rules.columns[column].adds_up:
            return _nearest(least, most)
        words = [self.own, *[total.words for total in self.totals if total.bounds.of_member]]
        values = [each[column] for each in words if each is not None]
        return values[0] if values else _nearest(least, most)

    def _tie(self) -> Words:
        """Return the tie word of the member's entry after the event, as a tuple; empty if the board
        has no tie words.
        """
        rules = self.plan.rules
        if rules.tie == 0:
            return ()
        now = stamp(self.plan.now_ms, rules.resolution_ms)
        if self.own is not None and not rules.best:
            now = max(now, rules.tie * self.own[rules.score_words(self.plan.window)])
        return (rules.tie * now,)

    def _sorts_before(self, words: Words) -> bool:
        holder = self.holder
        member = self.plan.member.encode()
        return holder is None or (words, member) < (holder.words, holder.member)

    def _limit(self, after: Sequence[int]) -> int | None:
        """Return the greatest word of the varied column with which the member's entry would sort
        before the holder's; the other words are those of `after`. None if there is no such word."""
        at, holder = self.plan.column, self.holder
        if holder is None or tuple(after[:at]) < holder.words[:at]:
            return 2 * LIMIT
        if tuple(after[:at]) > holder.words[:at]:
            return None
        level = (*after[:at], holder.words[at], *after[at + 1 :], *self._tie())
        return holder.words[at] - (not self._sorts_before(level))


def _nearest(least: int, most: int) -> int:
    """Return the number from `least` to `most` that is closest to 0."""
    return min(max(0, least), most)


def _greatest(reaches: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the greatest number from `least` to `most` for which `reaches` is true, None if there
    is none. If `reaches` is true for a number, it must be true for all smaller numbers. O(log(most
    - least))."""
    if least > most or not reaches(least):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        if reaches(middle):
            least = middle
        else:
            most = middle - 1
    return least
