"""Queries: from what a user asks of a board to the questions an index answers.

A board as it is at some time is a `QueryContext`; a window and a period of it name one ranking, a
`RankingView`. Every method of these makes a `Question`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from laurels.engine.batch.intake import are_plain
from laurels.errors import InvalidLimit, InvalidMember, UnknownScope
from laurels.model.event import member_bytes
from laurels.model.labels import label_names, labels_of, scope_named
from laurels.model.validation import safe_repr
from laurels.timeline.instants import MIN_MS

from .board_state import BoardState
from .index import Offset
from .plan import RankingKey, ranking_key, window_named
from .question import MAX_LIMIT, Question, final, whole
from .reads import RankingView, cached_view
from .requests import Listing, ReadRequest, ReadResult
from .standing import PeriodInfo, Standing


class QueryContext(Struct, frozen=True, gc=False):
    """A board at some time, and what can be asked of it."""

    state: BoardState
    now_ms: int

    def view(
        self,
        window: str | None,
        period: str | None,
        after: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> RankingView:
        """One ranking of the board, in the scope of some labels or by one. The running period over
        all events is made ready once for as long as it runs."""
        if period is not None or after is not None or by is not None or labels:
            return RankingView(self.state, self.now_ms, window, period, after, labels=labels, by=by)
        view = cached_view(self.state, window, self.now_ms)
        if view is None:
            view = self.state.views[window] = RankingView(self.state, self.now_ms, window, None)
        return view

    def card(
        self,
        member: str,
        to_rank: int | None,
        data: bool,
        *,
        labels: Mapping[str, str] | None = None,
        by: str | None = None,
    ) -> Question[dict[str, Standing | None]]:
        """A member's standing in every window."""
        asked = [
            self.view(window, None, labels=labels, by=by).standing(member, to_rank, data)
            for window in self.state.rules.windows
        ]

        def answer(found: Sequence[ReadResult], offset: Offset) -> dict[str, Standing | None]:
            each = zip(self.state.rules.windows, asked, found, strict=True)
            return {window: final(one.answer([part], offset)) for window, one, part in each}

        return Question(tuple([one.asks[0] for one in asked]), answer)

    def scopes(
        self, labels: Sequence[str], after: Mapping[str, str] | None, limit: int
    ) -> Question[list[dict[str, str]]]:
        """The scopes of some labels that hold anybody."""
        state = self.state
        names = label_names(state.rules, labels)
        form = ",".join(names)
        limit = whole(limit, 0, MAX_LIMIT, InvalidLimit)
        if after is not None and (not isinstance(after, Mapping) or {*after} != {*names}):
            raise UnknownScope(f"{safe_repr(after)} is none of those by {form}, to go on after it")
        behind = "" if after is None else scope_named(state.rules, after)

        def answer(found: Sequence[ReadResult], _: Offset) -> list[dict[str, str]]:
            return [labels_of(scope) for scope in found[0].scopes]

        listing = Listing(form, behind, limit)
        return Question((ReadRequest(RankingKey(state.number, "", 0), scopes=listing),), answer)

    def periods(
        self, window: str | None, *, labels: Mapping[str, str] | None = None, by: str | None = None
    ) -> Question[list[PeriodInfo]]:
        """The periods of a window that can be read, newest first; a rolling window has one, from
        the beginning of the oldest step it counts to the end of the one that runs."""
        state = self.state
        scope = scope_named(state.rules, labels, by)
        chosen = window_named(state.rules, window)
        seen_ms = state.seen_ms(chosen, self.now_ms, scope)
        kept = chosen.kept_periods(state.floors.get(chosen.name, MIN_MS), seen_ms)

        def answer(found: Sequence[ReadResult], _: Offset) -> list[PeriodInfo]:
            return [
                PeriodInfo(
                    label=period.label,
                    start_ms=chosen.counts_from(period),
                    end_ms=period.end_ms,
                    total=part.total,
                    current=period is kept[0],
                )
                for period, part in zip(kept, found, strict=True)
            ]

        keys = [ranking_key(state.number, chosen, period, scope) for period in kept]
        return Question(tuple([ReadRequest(key) for key in keys]), answer)


def member_asked(member: str) -> str:
    """The member asked for; refused when it is none."""
    if not are_plain([member]):
        member_bytes(member)
    return member


def named(members: Iterable[str]) -> list[str]:
    """The members asked for; refused when they are too many or one is none."""
    if type(members) is list:
        asked = members.copy()
    elif isinstance(members, str):
        raise InvalidMember(
            f"expected a list of members, got the text {safe_repr(members)}: [member]"
        )
    elif not isinstance(members, Iterable):
        raise InvalidMember(f"expected a list of members, got {safe_repr(members)}")
    else:
        asked = list(islice(members, MAX_LIMIT + 1))
    whole(len(asked), 0, MAX_LIMIT, InvalidLimit)
    if not are_plain(asked):
        for member in asked:
            member_bytes(member)
    return asked


def friends(members: Iterable[str]) -> list[str]:
    """The members asked for, each once; refused as `named` does."""
    return list(dict.fromkeys(named(members)))
