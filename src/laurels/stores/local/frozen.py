"""The rankings of closed periods that are not sealed yet: as they were at the closing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from msgspec import Struct

from laurels.core.board_state import BoardState
from laurels.core.entry_columns import EntryColumns
from laurels.core.fold import Fold
from laurels.core.hidden import Exclusion
from laurels.core.index import Index, RankingIndex, Slice
from laurels.core.ranking_key import RankingKey
from laurels.core.requests import ReadRequest, listed_by
from laurels.core.scope_scan import SCOPES
from laurels.core.zeros import zeros_of
from laurels.model.board import Board
from laurels.model.labels import ALL, is_by
from laurels.model.rules import Rules

from .archive.ranking_form import FrozenRanking
from .archive.segment import PeriodKey

CHUNK = 512
"""The number of entries that are read while no commit runs."""


class FrozenPeriod(Struct, frozen=True):
    """A closed period to be sealed: its board's number, the rules at its closing, the time of its
    closing, and the members that were hidden then."""

    number: int
    board: Board
    rules: Rules
    key: PeriodKey
    closed_ms: int
    hidden: Exclusion | None

    def ranking_key(self, scope: str) -> RankingKey:
        return RankingKey(self.number, self.key.window, self.key.instance, scope)


class FrozenRankings:
    """Reads the rankings of closed periods from the index of a fold. `reading` returns a context in
    which no commit runs; each chunk is read in such a context. Each scope is advanced before it is
    read, so that the index has the copies of rolling windows at boundaries."""

    def __init__(
        self, fold: Callable[[], Fold], reading: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._fold = fold
        self._reading = reading

    def _index(self) -> Index:
        return self._fold().index

    def of(self, frozen: FrozenPeriod) -> Iterator[FrozenRanking]:
        """Yield the rankings of a closed period that have members, in the order of their
        scopes."""
        window = frozen.key.window
        for scope in self._scopes(frozen):
            with self._reading():
                self._fold().advance_number(frozen.number, [scope] if scope else [], None)
                total = _listed(self._index(), frozen, scope).size(frozen.ranking_key(scope))
            if total:
                yield FrozenRanking(
                    scope,
                    frozen.rules.rank,
                    frozen.rules.score_words(window),
                    frozen.rules.order_words(window),
                    total,
                    self._chunks(frozen, scope, total),
                )

    def _scopes(self, frozen: FrozenPeriod) -> list[str]:
        """Return the scopes of a board in which a period may have members, in order."""
        scopes = [ALL]
        place: tuple[str, str] | None = None
        while frozen.rules.scoped:
            with self._reading():
                places = self._index().next_scopes(frozen.number, place, SCOPES)
            if not places:
                break
            scopes += [scope for _, scope in places]
            place = places[-1]
        return sorted(scopes)

    def _chunks(self, frozen: FrozenPeriod, scope: str, total: int) -> Iterator[EntryColumns]:
        key = frozen.ranking_key(scope)
        for start in range(0, total, CHUNK):
            stop = min(start + CHUNK, total)
            with self._reading():
                index = self._index()
                listed = _listed(index, frozen, scope)
                part = (
                    index.export_entries(key, start, stop)
                    if listed is index
                    else listed.slice(key, start, stop)
                )
            if isinstance(part, Slice):
                part = EntryColumns.of([member.encode() for member in part.members], part.words)
            yield part


def frozen_period(state: BoardState, window: str, instance: int) -> FrozenPeriod:
    """Return a closed period with the definition at its closing."""
    closed = state.closing[window].closed[instance]
    board = Board.from_json(closed.definition) if closed.definition else state.board
    rules = board.rules() if closed.definition else state.rules
    key = PeriodKey(state.uid, window, instance)
    hidden = state.hidden_in(RankingKey(state.number, window, instance, ALL), closed.closed_ms)
    return FrozenPeriod(state.number, board, rules, key, closed.closed_ms, hidden)


def _listed(index: Index, frozen: FrozenPeriod, scope: str) -> RankingIndex:
    """Return the index with only those entries of a closed period that were ranked at its
    closing."""
    zeros = zeros_of(frozen.rules, frozen.key.window, frozen.closed_ms)
    hidden = None if is_by(scope) else frozen.hidden
    return listed_by(index, ReadRequest(frozen.ranking_key(scope), zeros=zeros, hidden=hidden))
