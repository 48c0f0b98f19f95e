"""The reads of queries about members."""

from collections.abc import Sequence

from laurels.errors import MemberHidden, NotLive
from laurels.model.event import member_bytes
from laurels.model.validation import quoted

from .among import among
from .head import beyond, certain_of, ensure_listed, listed, rank_at
from .index import Index, Offset
from .needed import NeededPlan, plan_needed
from .rank import Rank
from .read_plan import FAR, ReadPlan
from .requests import Anchor, AtMember, ReadRequest, ReadResult, Span, Start
from .standing import (
    FIRST,
    Gap,
    Needed,
    Page,
    Standing,
    decode_data,
    rank_or_none,
    ranks_or_none,
    standing,
    words_at,
)
from .viewed import ViewedRanking

_BESIDE: tuple[Span, ...] = (Span(0, -1, 2),)


class MemberReads(ViewedRanking):
    """One ranking at one time, with the methods that plan the reads of queries about members."""

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
        """Plan the query for the value of one event that moves a member to a position; the result
        is None if the member is there already. Raises UnknownColumn, MemberHidden, and NotLive if
        events do not count at once in the window."""
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


def _rank(result: Sequence[ReadResult], _: Offset) -> Rank | None:
    located = result[0].located
    return None if located is None else rank_at(located, 0)


def _ranks(result: Sequence[ReadResult], _: Offset) -> Sequence[Rank | None]:
    located = result[0].located
    return [] if located is None else ranks_or_none(located.ranks, located.highs)
