"""Reads the standings of closed periods from an index server, page by page."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from laurels.core.board_state import BoardState
from laurels.core.close_schedule import prizes_in
from laurels.core.closing import ClosedPeriod
from laurels.core.head import has_exact_position
from laurels.core.hidden import Exclusion
from laurels.core.index import Slice
from laurels.core.lifecycle import next_boundary
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import AtBound, ReadRequest, ReadResult, Span, Start
from laurels.core.sealed_contents import SealedRanking, SealedRows, sealed_rows
from laurels.core.zeros import zeros_of
from laurels.errors import NotReady
from laurels.model.board import Board
from laurels.model.labels import ALL, is_by
from laurels.model.rules import Rules
from laurels.model.validation import quoted
from laurels.stores.intake.shares import MAX_MEMBERS

from .catalog import BoardCatalog
from .outdated import PlanExpired
from .remote import opened_as

PAGE = 1_000
"""The number of entries that one call reads."""
SCOPES = 500
"""The number of scopes whose sizes one call reads."""
ATTEMPTS = 100


class PeriodToSeal(NamedTuple):
    """A closed period to be sealed, as it was defined at its closing."""

    window: str
    instance: int
    closed: ClosedPeriod
    board: Board
    rules: Rules

    def key(self, number: int, scope: str) -> RankingKey:
        """Return the key of the ranking of a scope."""
        return RankingKey(number, self.window, self.instance, scope)


class RankedSize(NamedTuple):
    """The size of a ranking: `members` is the number of all its members, `entries` the number of
    its first entries that are archived."""

    members: int
    entries: int


def period_to_seal(window: str, instance: int, closed: ClosedPeriod) -> PeriodToSeal:
    """Return a closed period with the definition at its closing."""
    board = Board.from_json(closed.definition)
    return PeriodToSeal(window, instance, closed, board, board.rules())


class RankingsToSeal:
    """The rankings of one closed period. `secret(n)` returns n random bytes."""

    def __init__(
        self,
        catalog: BoardCatalog,
        state: BoardState,
        period: PeriodToSeal,
        secret: Callable[[int], bytes],
    ) -> None:
        self._catalog = catalog
        self._state = state
        self._period = period
        self._secret = secret
        self._hidden = frozenset(period.closed.hidden)
        self._exclusion: Exclusion | None = None
        """The members that the index leaves out of a head. Other members take their places."""
        if period.rules.head and self._hidden:
            self._exclusion = Exclusion(self._hidden, is_dense=False)
        self._zeros = zeros_of(period.rules, period.window, period.closed.closed_ms)

    async def pieces(self) -> AsyncIterator[SealedRanking | SealedRows]:
        """Yield the rankings that have members, in the order of their scopes, each followed by its
        entries."""
        rules, window = self._period.rules, self._period.window
        scopes = await self._scopes()
        for some in _alike(scopes):
            for scope, size in zip(some, await self._sizes(some), strict=True):
                if not size.entries:
                    continue
                yield SealedRanking(
                    scope,
                    rules.rank,
                    rules.score_words(window),
                    rules.order_words(window),
                    size.entries,
                    [(0, 0, self._secret(16))],
                    members=size.members if size.entries < size.members else None,
                )
                async for rows in self._rows(scope, size.entries):
                    yield rows

    async def _scopes(self) -> list[str]:
        """Return the scopes in which the period may have members, in order."""
        index, rules = self._catalog.index, self._period.rules
        scopes = [ALL]
        for form in dict.fromkeys(spec.name for spec in rules.specs if spec.name):
            page = await index.scopes(opened_as(self._state), form, "", SCOPES)
            while page:
                scopes += page
                page = await index.scopes(opened_as(self._state), form, page[-1], SCOPES)
        by_label = [spec.name for spec in rules.specs if spec.by]
        return sorted(dict.fromkeys([*scopes, *by_label]))

    async def _sizes(self, scopes: Sequence[str]) -> list[RankedSize]:
        """Return the size of the ranking of each of these scopes. On a board with a head, wait
        until the positions that are archived are certain. Raises NotReady."""
        totals = await self._totals(scopes)
        if not self._period.rules.head and not self._state.rules.head:
            return [RankedSize(total, total) for total in totals]
        return [
            RankedSize(total, min(total, await self._archived(scope, total)))
            for scope, total in zip(scopes, totals, strict=True)
        ]

    async def _archived(self, scope: str, total: int) -> int:
        """Wait until the positions of a ranking that have to be archived are certain, and return
        their number. If the period was closed without a head, all positions are archived. Otherwise
        the archive ends some positions after the head or, if the last tie group that wins prizes
        reaches further, one position after this group."""
        head = self._period.rules.head
        archived = self._catalog.index.archived_positions(head) if head else total
        await self._extend(scope, archived)
        prizes = prizes_in(self._period.board, self._period.window)
        if head and total and prizes is not None and prizes.ties != "first":
            last = max(prize.ranks[1] for prize in prizes.list if prize.ranks is not None)
            archived = max(archived, await self._end_of_ties(scope, min(last, total), archived) + 1)
            await self._extend(scope, archived)
        return archived

    async def _end_of_ties(self, scope: str, last: int, certain: int) -> int:
        """Return the position after all members whose columns equal those of the member at the
        position `last`. So far, the first `certain` positions are certain."""
        span = Span(0, last - 1, last)
        [result] = await self._read([self._request(scope, anchors=(Start(),), spans=(span,))])
        columns = self._period.rules.score_words(self._period.window)
        words = tuple([int(column[0]) for column in result.slices[0].words[:columns]])
        past = AtBound(words, None, right=True)
        while True:
            [result] = await self._read([self._request(scope, anchors=(past,))])
            if has_exact_position(result, result.positions[0]):
                return result.positions[0]
            certain *= 4
            await self._extend(scope, certain)

    async def _extend(self, scope: str, wanted: int) -> None:
        """Wait until the first `wanted` positions of a ranking are certain. Raises NotReady."""
        key = self._period.key(self._state.number, scope)
        for _ in range(ATTEMPTS):
            [result] = await self._read([self._request(scope)])
            if result.certain is None or result.certain >= min(wanted, result.total):
                return
            opened = opened_as(self._state)
            await self._catalog.index.extend_head(opened, key, wanted + len(self._hidden))
            self._catalog.note_passes_due(self._state)
            await self._catalog.advance_head(self._state, MAX_MEMBERS)
        raise NotReady(
            f"the head of the board {quoted(self._state.board.name)} is still being prepared"
        )

    async def _totals(self, scopes: Sequence[str]) -> list[int]:
        """Return the number of entries that are ranked in each of these scopes."""
        results = await self._read([self._request(scope) for scope in scopes])
        totals = [result.total for result in results]
        if not self._hidden or self._exclusion is not None:
            return totals
        hidden = tuple(sorted([member.decode() for member in self._hidden]))
        for i, scope in enumerate(scopes):
            if totals[i] and not is_by(scope):
                for start in range(0, len(hidden), PAGE):
                    members = hidden[start : start + PAGE]
                    [found] = await self._read([self._request(scope, members=members)])
                    assert found.located is not None
                    totals[i] -= sum(position >= 0 for position in found.located.positions)
        return totals

    async def _rows(self, scope: str, room: int) -> AsyncIterator[SealedRows]:
        """Yield the first `room` entries of a ranking, in their order."""
        width = self._period.rules.order_words(self._period.window)
        anchor: Start | AtBound = Start()
        while room > 0:
            request = self._request(scope, anchors=(anchor,), spans=(Span(0, 0, min(PAGE, room)),))
            [result] = await self._read([request])
            [part] = result.slices
            if not part.members:
                return
            words = await self._whole_words(scope, part)
            last = tuple([int(column[-1]) for column in part.words[:width]])
            anchor = AtBound(last, part.members[-1].encode(), right=True)
            members = [member.encode() for member in part.members]
            if self._hidden and self._exclusion is None and not is_by(scope):
                kept = [i for i, member in enumerate(members) if member not in self._hidden]
                members = [members[i] for i in kept]
                words = [[column[i] for i in kept] for column in words]
            room -= len(members)
            if members:
                yield sealed_rows(members, words)

    async def _whole_words(self, scope: str, part: Slice) -> Sequence[Sequence[int]]:
        """Return all stored words of entries. A page has only the words that decide the order. If
        the board stores exact times as well, the other words are read here."""
        if not self._period.rules.is_stamped:
            return part.words
        request = self._request(scope, members=tuple(part.members), whole=True)
        [found] = await self._read([request])
        assert found.located is not None
        return found.located.words

    def _request(
        self,
        scope: str,
        anchors: tuple[Start | AtBound, ...] = (),
        spans: tuple[Span, ...] = (),
        members: tuple[str, ...] = (),
        *,
        whole: bool = False,
    ) -> ReadRequest:
        key = self._period.key(self._state.number, scope)
        return ReadRequest(
            key,
            anchors,
            spans,
            members,
            whole=whole,
            zeros=self._zeros,
            hidden=None if is_by(scope) else self._exclusion,
        )

    async def _read(self, requests: Sequence[ReadRequest]) -> Sequence[ReadResult]:
        """Return the results of requests to the index. If a boundary passes meanwhile, send them
        again: the results are the same, since the period is closed. Raises NotReady."""
        for _ in range(ATTEMPTS):
            state = self._state
            now_ms = self._catalog.time_of(state)
            try:
                read = await self._catalog.index.read(
                    opened_as(state),
                    requests,
                    now_ms=now_ms,
                    due_ms=next_boundary(state.rules, now_ms),
                )
            except PlanExpired as error:
                self._catalog.note_time(state, error.now_ms)
            else:
                return read.results
        raise NotReady(f"the board {quoted(self._state.board.name)} kept changing during a seal")


def _alike(scopes: Sequence[str]) -> Iterator[list[str]]:
    """Divide scopes, in their order, into groups that one call can read: rankings by a label may be
    stored apart from those of members."""
    for _, group in groupby(scopes, key=is_by):
        alike = list(group)
        for start in range(0, len(alike), SCOPES):
            yield alike[start : start + SCOPES]
