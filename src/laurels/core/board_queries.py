"""Queries about the periods and scopes that a board has, rather than about its members."""

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec import Struct

from laurels.errors import (
    InvalidLimit,
    UnknownScope,
)
from laurels.model.labels import (
    LabelNames,
    LabelPairs,
    label_names,
    label_pairs,
    labels_of,
    labels_text,
    scope_named,
)
from laurels.model.validation import safe_repr
from laurels.model.windows.kinds import Window
from laurels.timeline.calendar import Period
from laurels.timeline.instants import MIN_MS

from .board_state import BoardState
from .closing import (
    PeriodState,
    SealedPeriod,
    period_finality,
    seal_of,
    state_of,
    unsealed_periods,
)
from .hidden import HiddenMembers
from .hiding import HiddenMember
from .index import Offset
from .named_windows import window_named
from .query import Query, ScopedQuery
from .query_context import QueryContext
from .query_members import ensure_member
from .ranking_key import RankingKey, ranking_key
from .read_plan import MAX_LIMIT, ReadPlan
from .requests import Listing, ReadRequest, ReadResult
from .standing import PeriodInfo
from .stream_time import Finality
from .zeros import zeros_in


class Periods(ScopedQuery[list[PeriodInfo]], frozen=True, kw_only=True):
    """The periods that a window keeps, and those that are not sealed yet, newest first. A period is
    `final` once no event can change its standings any more. Until then, `waits_for` has the sources
    that the end of the period waits for. If a board stays after its `retain` because payouts are
    not confirmed, `waits_for` is `payouts` for the periods of these payouts. If one of these
    periods is not in the list, the oldest listed period also has `payouts`."""

    verb = "periods"
    path = "periods"
    returns = list[PeriodInfo]
    reads_positions = True

    window: str | None = None

    def plan(self, now: QueryContext) -> ReadPlan[list[PeriodInfo]]:
        """Return the plan. A rolling window has one period, from the start of its oldest step to
        the end of the running one. Periods that ended before the start of the board are left out.
        If the board starts within a period, the start of the board is returned as the beginning of
        this period."""
        state = now.state
        scope = scope_named(state.rules, dict(self.labels), self.by)
        window = window_named(state.rules, self.window)
        seen_ms = state.seen_ms(window, now.now_ms, scope)
        starts_ms = state.rules.starts_ms
        running, *others = window.kept_periods(state.floors.get(window.name, MIN_MS), seen_ms)
        others += [each for each in unsealed_periods(state, window, running) if each not in others]
        others.sort(key=lambda period: period.start_ms, reverse=True)
        kept = [running, *[period for period in others if period.end_ms > starts_ms]]
        ends = [
            period_finality(state.rules, window, period, now.positions, now.now_ms)
            for period in kept
        ]
        states = [
            state_of(state, window, period, end, now.now_ms)
            for period, end in zip(kept, ends, strict=True)
        ]
        seals = [seal_of(state, window, each) for each in kept]
        unpaid = _unpaid(now, window, kept)

        def finish(results: Sequence[ReadResult], _: Offset) -> list[PeriodInfo]:
            return [
                PeriodInfo(
                    label=period.label,
                    start_ms=_begin_ms(window.counts_from(period), starts_ms, period.end_ms),
                    end_ms=period.end_ms,
                    total=result.total,
                    current=period is kept[0],
                    final=end.final,
                    waits_for=("payouts",)
                    if window.instance_of(period) in unpaid
                    else _waits_for(state, end, reached),
                    state=reached,
                    entries=_entries(reached, seal),
                    digest=None if seal is None else seal.digest.hex(),
                )
                for period, result, end, reached, seal in zip(
                    kept, results, ends, states, seals, strict=True
                )
            ]

        keys = [ranking_key(state.number, window, period, scope) for period in kept]
        return ReadPlan(tuple([self._size_of(now, key) for key in keys]), finish)

    def _size_of(self, now: QueryContext, key: RankingKey) -> ReadRequest:
        """Return a request for the total of a period."""
        zeros = zeros_in(now.state, key.window, key.instance, now.now_ms)
        hidden = now.state.hidden_in(key, now.now_ms)
        return ReadRequest(key, zeros=zeros, hidden=hidden)


class StoredPeriods(Periods, frozen=True, kw_only=True):
    """The periods of a window. Their totals count all entries, also those that are not ranked."""

    def _size_of(self, now: QueryContext, key: RankingKey) -> ReadRequest:
        return ReadRequest(key)


def _unpaid(now: QueryContext, window: Window, listed: Sequence[Period]) -> set[int]:
    """Return the instances of the listed periods because of whose unconfirmed payouts the board
    stays after its `retain`. If a period that is not listed has such payouts, the oldest listed
    period is included in its place. Return an empty set before the end of `retain`, in O(1)."""
    state = now.state
    if now.payouts is None or not state.closing or not state.rules.is_gone(now.now_ms):
        return set()
    instances = {*map(window.instance_of, listed)}
    unpaid = {*now.payouts.open_periods(state.uid, window.name)}
    return unpaid if unpaid <= instances else {*unpaid, min(instances)}


def _waits_for(board: BoardState, end: Finality, state: PeriodState) -> tuple[str, ...]:
    """Return the sources that the end of a period waits for. For a closed period on an index
    server, return the ledger into which it has to be written."""
    if state == "closed" and board.closings >= 0:
        return (f"ledger:{board.board.ledger}",)
    return end.waits_for


def _entries(state: PeriodState, seal: SealedPeriod | None) -> int | None:
    """Return the number of entries of a sealed period, None if the period is not sealed yet. An
    empty period has no seal; its number of entries is 0."""
    if seal is not None:
        return seal.entries
    return 0 if state == "sealed" else None


def _begin_ms(start_ms: int, starts_ms: int, end_ms: int) -> int:
    """Return the instant from which a period counts events: the start of the period or of the
    board, whichever is later, but at most the end of the period."""
    return min(max(start_ms, starts_ms), end_ms) if starts_ms > MIN_MS else start_ms


class ScopesAnswer(Struct, frozen=True):
    """Scopes, each as an object of label names and values. `after` is the argument for the next
    page, null at the end."""

    scopes: list[dict[str, str]]
    next: str | None = None


class Scopes(Query[list[dict[str, str]]], frozen=True, kw_only=True):
    """The scopes with the given label names that have members, sorted by the values of these
    labels."""

    verb = "scopes"
    path = "scopes"
    returns = ScopesAnswer

    labels: LabelNames = ()
    after: LabelPairs | None = None
    limit: int = 1_000

    def __post_init__(self) -> None:
        self._ensure("limit", 0, MAX_LIMIT, InvalidLimit)

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[list[dict[str, str]]]:
        state = now.state
        names = label_names(state.rules, self.labels)
        form = ",".join(names)
        after = None if self.after is None else dict(self.after)
        if after is not None and {*after} != {*names}:
            raise UnknownScope(
                f"expected a value for each of the labels {form} in after, got {safe_repr(after)}"
            )
        behind = "" if after is None else scope_named(state.rules, after)

        def finish(results: Sequence[ReadResult], _: Offset) -> list[dict[str, str]]:
            return [labels_of(scope) for scope in results[0].scopes]

        listing = Listing(form, behind, self.limit)
        return ReadPlan((ReadRequest(RankingKey(state.number, "", 0), scopes=listing),), finish)

    def to_answer(self, result: list[dict[str, str]]) -> ScopesAnswer:
        more = labels_text(result[-1]) if result and len(result) == self.limit else None
        return ScopesAnswer(result, more)

    def from_answer(self, answer: ScopesAnswer) -> list[dict[str, str]]:
        return answer.scopes


class HiddenOn(Query[list[HiddenMember]], frozen=True, kw_only=True):
    """The hidden members of a board in the order of their ids, with the reason and the time since
    when, and until when, each is hidden. `after` is the last member of the previous page."""

    verb = "hidden"
    path = "hidden"
    returns = list[HiddenMember]
    is_administrative = True

    after: str | None = None
    limit: int = 1_000

    def __post_init__(self) -> None:
        self._ensure("limit", 0, MAX_LIMIT, InvalidLimit)
        if self.after is not None:
            ensure_member(self.after)

    @property
    def size(self) -> int:
        return self.limit

    def plan(self, now: QueryContext) -> ReadPlan[list[HiddenMember]]:
        behind = b"" if self.after is None else self.after.encode()
        listed = listed_after(now.state.hidden, now.now_ms, behind, self.limit)
        return ReadPlan((), lambda *_: listed)


def listed_after(
    hidden: HiddenMembers, now_ms: int, behind: bytes, limit: int
) -> list[HiddenMember]:
    """Return up to `limit` members that are hidden at an instant, after the member `behind`."""
    each = (
        HiddenMember(member.decode(), hiding.reason, hiding.since_ms, hiding.until_ms, everywhere)
        for member, hiding, everywhere in hidden.hidings(now_ms)
        if member > behind
    )
    return list(islice(each, limit))


def scope_after(labels: Mapping[str, str] | None) -> LabelPairs | None:
    """Return the labels of the scope after which the list continues.

    Raises UnknownScope if `labels` is not a mapping or is empty, InvalidLabel if a name or value is
    invalid.
    """
    if labels is not None and not (isinstance(labels, Mapping) and labels):
        raise UnknownScope(f"expected a mapping of labels for after, got {safe_repr(labels)}")
    return None if labels is None else label_pairs(labels)
