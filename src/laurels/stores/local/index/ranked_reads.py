"""The reads of the memory index."""

from array import array
from collections.abc import Collection, Iterable, Sequence

from laurels.core.entry_columns import EntryColumns
from laurels.core.index import Located, Neighbourhood, Slice
from laurels.core.ranking_key import RankingKey
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.exporting import export_entries
from laurels.engine.tree.ranked_set import COMPETITION, DENSE, ORDINAL, RankedSet
from laurels.model.labels import is_by

from .board_store import BoardStore, ScopeStore
from .deferred import Deferred

MEASURED = 500
"""The number of scopes of a form that are sampled to estimate the memory of all its scopes."""
_NOTHING = ScopeStore()
_SCAN = 10_000
_STYLES = {"ordinal": ORDINAL, "competition": COMPETITION, "dense": DENSE}


class RankedReads(Deferred):
    """The operations of the memory index that read rankings and tallies."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._roster = Roster(seed)

    def _part(self, key: RankingKey) -> ScopeStore:
        part = self._followed(key.board, key.scope)
        return _NOTHING if part is None else part

    def _rolling(self, board: int, window: str, scope: str) -> RollingSet | None:
        return self._part(RankingKey(board, window, 0, scope)).rolling.get(window)

    def _ranking(self, key: RankingKey) -> RankedSet | None:
        return _ranked(self._boards[key.board], key)

    def size(self, key: RankingKey) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else len(ranking)

    def filled_scope(self, board: int, window: str, instance: int, likely: str) -> str | None:
        parts = self._boards[board].parts
        if likely in parts and parts[likely].has_entries(window, instance):
            return likely
        # the newest scopes come first, since those that are no longer used are mostly old
        scopes = (each for each in reversed(parts) if parts[each].has_entries(window, instance))
        return next(scopes, None)

    def nbytes(self, key: RankingKey) -> int:
        part = self._part(key)
        ranking = part.rankings.get((key.window, key.instance))
        stored = part.rolling.get(key.window) if ranking is None else ranking
        return 0 if stored is None else stored.nbytes

    def scopes_nbytes(self, board: int) -> int:
        store = self._boards[board]
        total = 0
        for count, scopes in store.scopes.spread(MEASURED):
            total += sum(store.parts[scope].nbytes for scope in scopes) * count // len(scopes)
        return total

    def shared_nbytes(self) -> int:
        return self._roster.nbytes

    def members(self) -> int:
        return len(self._roster)

    def position(self, key: RankingKey, member: bytes) -> int:
        ranking = self._ranking(key)
        id = self._roster.find(member)
        return -1 if ranking is None or id < 0 else ranking.rank(id, ORDINAL)

    def positions(self, key: RankingKey, members: Sequence[bytes]) -> list[int]:
        ranking = self._ranking(key)
        return [-1] * len(members) if ranking is None else ranking.ranks_of(members, ORDINAL)

    def ranks(self, key: RankingKey, members: Sequence[str] | Sequence[bytes]) -> list[int]:
        store = self._boards[key.board]
        ranking = _ranked(store, key)
        if ranking is None:
            return [-1] * len(members)
        return ranking.ranks_of(members, _STYLES[store.rules.rank])

    def ranks_from(self, key: RankingKey, members: Sequence[str], first: int) -> list[int | None]:
        store = self._boards[key.board]
        ranking = _ranked(store, key)
        if ranking is None:
            return [None] * len(members)
        return ranking.ranks_from(members, _STYLES[store.rules.rank], first)

    def rank(self, key: RankingKey, member: str) -> int:
        store = self._boards[key.board]
        ranking = _ranked(store, key)
        return -1 if ranking is None else ranking.rank_of(member, _STYLES[store.rules.rank])

    def neighbourhood(self, key: RankingKey, member: str) -> Neighbourhood | None:
        store = self._boards[key.board]
        ranking = _ranked(store, key)
        if ranking is None or (position := ranking.rank_of(member, ORDINAL)) < 0:
            return None
        start = position - 1 if position else 0
        members, ranks, words = ranking.list_entries(start, position + 2, _STYLES[store.rules.rank])
        return Neighbourhood(len(ranking), position, Slice(start, members, ranks, words))

    def locate(self, key: RankingKey, members: Sequence[str], *, whole: bool = False) -> Located:
        rules = self._boards[key.board].rules
        empty = array("q", bytes(8 * len(members)))
        width = rules.order_words(key.window) + (whole and rules.is_stamped)
        columns = [empty[:] for _ in range(width)]
        if (ranking := self._ranking(key)) is None:
            absent = [-1] * len(members)
            return Located(absent, absent, columns)
        positions = ranking.ranks_of(members, ORDINAL)
        style = _STYLES[rules.rank]
        ranks = positions if style == ORDINAL else ranking.ranks_of(members, style)
        ids = self._roster.find_many(members)
        wanted = [i for i, position in enumerate(positions) if position >= 0]
        _, words = ranking.words(array("I", [ids[i] for i in wanted]))
        for column, values in zip(columns, words, strict=False):
            for i, word in zip(wanted, values, strict=True):
                column[i] = word
        return Located(positions, ranks, columns)

    def cells(self, key: RankingKey, members: Sequence[str]) -> Located:
        width = len(self._boards[key.board].rules.columns)
        columns = [array("q", bytes(8 * len(members))) for _ in range(width)]
        places = [-1] * len(members)
        rolling = self._part(key).rolling.get(key.window)
        tally = None if rolling is None else rolling.tally(key.instance)
        ids = self._roster.find_many(members)
        if tally is None:
            return Located(places, places, columns)
        for i, id in enumerate(ids):
            if id < 0:
                continue
            present, words = tally.words(array("I", [id]))
            if present[0]:
                places[i] = 0
                for column, values in zip(columns, words, strict=False):
                    column[i] = values[0]
        return Located(places, places, columns)

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        store = self._boards[key.board]
        ranking = _ranked(store, key)
        if ranking is None:
            return Slice(0, [], [], [[]] * store.rules.order_words(key.window))
        start = min(max(0, start), len(ranking))
        return Slice(start, *ranking.list_entries(start, stop, _STYLES[store.rules.rank]))

    def export_entries(self, key: RankingKey, start: int, stop: int) -> EntryColumns:
        if (ranking := self._ranking(key)) is None:
            return EntryColumns.of([], [])
        return EntryColumns(*export_entries(ranking, start, stop))

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else ranking.bound(words, member, right=right)

    def keys(self, board: int, scope: str = "") -> list[RankingKey]:
        part = self._followed(board, scope)
        return [] if part is None else part.keys(board, scope)

    def tallies(self, board: int, scope: str = "") -> list[RankingKey]:
        part = self._followed(board, scope)
        return [] if part is None else [key for key, _ in part.tallies(board, scope)]

    def digest(self, key: RankingKey) -> tuple[int, int]:
        tally = self._part(key).rolling[key.window].tally(key.instance)
        count = total = place = 0
        while tally is not None and place < 2**32:
            ids, words, place = tally.scan(place, _SCAN)
            count += len(ids)
            total += sum(map(hash, zip(self._roster.names(ids), *words, strict=True)))
        return count, total

    def generation(self, board: int, scope: str) -> int:
        part = self._boards[board].parts.get(scope)
        return 0 if part is None else part.generation

    def scopes_with_member(self, board: int, member: bytes, scopes: Iterable[str]) -> list[str]:
        if (id := self._roster.find(member)) < 0:
            return []
        parts = {scope: self._followed(board, scope) for scope in scopes if not is_by(scope)}
        return [scope for scope, part in parts.items() if part is not None and part.holds(id)]

    def next_scopes(
        self, board: int, place: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        return self._boards[board].scopes.next(place, limit)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        return self._boards[board].scopes.after(form, after, limit)

    def scope_count(self, board: int, form: str) -> int:
        return self._boards[board].scopes.count(form)

    def remembered(self, board: int, now_ms: int) -> int:
        store = self._boards[board]
        return store.remembered.count_after(now_ms - store.rules.dedupe_ms)

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        return self._boards[board].remembered.items()

    def check(self, unfinished: Collection[int] = ()) -> None:
        self._roster.check()
        for store in [self._boards[each] for each in self._boards.keys() - {*unfinished}]:
            store.check()
            store.remembered.check()
            for part in store.parts.values():
                for ranking in part.rankings.values():
                    ranking.check()
                for rolling in part.rolling.values():
                    rolling.check()


def _ranked(store: BoardStore, key: RankingKey) -> RankedSet | None:
    """Return the ranking that is shown under a key."""
    _, window, instance, scope = key
    part = store.parts.get(scope)
    if part is None:
        return None
    rolling = part.rolling.get(window) if part.rolling else None
    if rolling is not None and (rolling.deferred or rolling.running == instance):
        return rolling.live
    return part.rankings.get((window, instance))
