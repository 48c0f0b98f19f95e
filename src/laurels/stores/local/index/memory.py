"""The memory index: all rankings of the boards in this process, as ranked sets of the engine."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import eq

from laurels.core.contents import (
    ChangedPiece,
    ClearedRows,
    EventIds,
    MemberValues,
    Piece,
    RankingRows,
)
from laurels.core.index import Located, Neighbourhood, Outcome, Outcomes, Slice
from laurels.core.lifecycle import RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import EntryRows, MendRanking
from laurels.engine.batch import fold
from laurels.engine.batch.packing import unpack
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import COMPETITION, DENSE, ORDINAL, RankedSet
from laurels.errors.copies import BoardChanging
from laurels.errors.placement import BoardMoving
from laurels.model.batch import Batch
from laurels.model.labels import ALL, is_by
from laurels.model.rules import Rules
from laurels.model.score import word_bounds

from .application import BatchApplication
from .board_store import BoardStore, ScopeStore
from .copying import Copying
from .deferred import Deferred
from .loading import Loading
from .moving import (
    chunks,
    id_pieces,
    link_candidates,
    pieces_of_members,
    restore_rows,
    scanned_scope_pieces,
    scanned_shared_pieces,
    scope_pieces,
    shared_pieces,
    unranked_data,
)
from .remembered import Remembered
from .tracking import TrackedWrites

MEASURED = 500
"""The number of scopes of a form that are sampled to estimate the memory of all its scopes."""
_ALL = 2**62
_NOTHING = ScopeStore()
_SCAN = 10_000
_OPS = {"sum": fold.SUM, "last": fold.LAST, "best": fold.BEST}
_STYLES = {"ordinal": ORDINAL, "competition": COMPETITION, "dense": DENSE}


class MemoryIndex(Deferred):
    """Implementation of `Index` in memory. It need not be thread-safe, since the store holds a lock
    during each call."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._roster = Roster(seed)

    def open_board(self, number: int, rules: Rules) -> None:
        if number in self._boards:
            self._boards[number].rules = rules
            self._touch(number)
            return
        stamped = rules.is_stamped
        shape = fold.Shape(
            [_OPS[c.op] for c in rules.columns], *word_bounds(rules), rules.tie, stamped
        )
        self._touch(number)
        self._boards[number] = BoardStore(
            rules, shape, stamped, {"": ScopeStore()}, Remembered(), {}
        )

    def close_board(self, number: int) -> None:
        self._dropped.append(self._boards.pop(number))
        self._tracked.pop(number, None)
        self._touch(number)

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        if len(plan.late) == batch.size and batch.ids is None:
            return Outcomes(bytearray([Outcome.TOO_LATE]) * batch.size)
        store = self._boards[batch.board]
        for scope in plan.scopes if store.refreshed else ():
            self._followed(batch.board, scope)
        application = BatchApplication(store, self._roster, batch, plan, watch)
        outcomes = application.run()
        tracked = self._tracked.get(batch.board)
        if self._copying is not None or tracked is not None:
            for scope, ids, structures in application.changes_by_scope():
                if self._copying is not None:
                    self._copying.touch(batch.board, scope, ids, structures)
                if tracked is not None:
                    tracked.note(scope, ids)
        application.settle()
        return outcomes

    def remove(self, board: int, member: bytes, scopes: Iterable[str] = ()) -> bool:
        store = self._boards[board]
        self.set_data(board, member, None)
        if (id := self._roster.find(member)) < 0:
            return False
        one = array("I", [id])
        removed = 0
        for scope in self.scopes_with_member(board, member, (ALL, *scopes)):
            part = store.parts[scope]
            discarded = sum([ranking.discard(one) for ranking in store.changing(part)])
            discarded += sum([rolling.discard(one) for rolling in part.rolling.values()])
            for window in part.rolling:
                store.schedule(window, scope)
            if self._copying is not None:
                self._copying.touch(board, scope, one, part.structures())
            if (tracked := self._tracked.get(board)) is not None:
                tracked.note(scope, one)
            removed += discarded
            store.drop_empty(scope)
        return removed > 0

    def mend(self, key: RankingKey, record: MendRanking) -> bytearray:
        size = len(record.lengths)
        store = self._boards[key.board]
        ids = self._roster.intern(record.members, record.lengths)
        ranking = store.open_ranking(key, self._roster)
        done = _as_expected(ranking, ids, record.expected)
        words = [unpack(column, size) for column in record.entries.words]
        for is_present in (0, 1):
            chosen = [i for i in range(size) if done[i] and record.entries.present[i] == is_present]
            chosen_ids = array("I", [ids[i] for i in chosen])
            if is_present:
                ranking.put(chosen_ids, [array("q", [c[i] for i in chosen]) for c in words])
            else:
                ranking.discard(chosen_ids)
        if self._copying is not None:
            self._copying.touch(key.board, key.scope, ids, [ranking])
        if (tracked := self._tracked.get(key.board)) is not None:
            tracked.note(key.scope, ids)
        store.drop_empty(key.scope)
        return done

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None:
        if data is None:
            self._boards[board].data.pop(member, None)
        else:
            self._boards[board].data[member] = data
        if self._copying is not None:
            self._copying.touch_data(board, member)
        if (tracked := self._tracked.get(board)) is not None:
            tracked.note_data(member)

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        store = self._boards[board].data
        return [store.get(member.encode()) for member in members]

    def all_data(self, board: int) -> dict[bytes, bytes]:
        return dict(self._boards[board].data)

    def remembered(self, board: int, now_ms: int) -> int:
        store = self._boards[board]
        return store.remembered.count_after(now_ms - store.rules.dedupe_ms)

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        return self._boards[board].remembered.items()

    def rotate_step(self, roll: RollingState, limit: int | None = None) -> bool:
        key = roll.ranking.key
        part = self._part(key)
        rolling = part.rolling.get(key.window)
        if rolling is None or rolling.running == roll.running:
            return True
        self._touch(key.board, key.scope)
        if rolling.deferred:
            self._dropped += rolling.jump_to(roll.running)
            self._boards[key.board].schedule(key.window, key.scope)
            part.drop_empty()
            return True
        if roll.running - rolling.running >= roll.steps:
            self._dropped.append(part.rolling.pop(key.window))
            return True
        while rolling.running < roll.running:
            if not rolling.advance(_ALL if limit is None else limit):
                return False
            rolling.rotate_step()
            if self._copying is not None:
                self._copying.copy_again(rolling.live)
        if not len(rolling.live):
            self._dropped.append(part.rolling.pop(key.window))
        return True

    def generation(self, board: int, scope: str) -> int:
        part = self._boards[board].parts.get(scope)
        return 0 if part is None else part.generation

    def scopes_with_member(self, board: int, member: bytes, scopes: Iterable[str]) -> list[str]:
        if (id := self._roster.find(member)) < 0:
            return []
        parts = {scope: self._followed(board, scope) for scope in scopes if not is_by(scope)}
        return [scope for scope, part in parts.items() if part is not None and part.holds(id)]

    def set_generation(self, board: int, scope: str, generation: int) -> None:
        store = self._boards[board]
        if (part := store.parts.get(scope)) is not None:
            part.generation = generation
            if scope and not part:
                self._touch(board, scope)
                store.drop_empty(scope)

    def next_scopes(
        self, board: int, place: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        return self._boards[board].scopes.next(place, limit)

    def scopes(self, board: int, form: str, after: str, limit: int) -> list[str]:
        return self._boards[board].scopes.after(form, after, limit)

    def scope_count(self, board: int, form: str) -> int:
        return self._boards[board].scopes.count(form)

    def advance_pass(self, board: int, window: str, limit: int, scope: str = "") -> int:
        if self.pass_left(board, window, scope):
            self._part(RankingKey(board, window, 0, scope)).rolling[window].advance(limit)
        return self.pass_left(board, window, scope)

    def pass_left(self, board: int, window: str, scope: str = "") -> int:
        rolling = self._rolling(board, window, scope)
        return 0 if rolling is None or rolling.complete else max(1, rolling.pass_remaining)

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

    def drop(self, keys: Sequence[RankingKey]) -> None:
        for key in keys:
            name = key.window, key.instance
            if (ranking := self._part(key).rankings.pop(name, None)) is not None:
                self._dropped.append(ranking)
                self._touch(key.board, key.scope)

    def freeze(self, board: int, window: str, instance: int) -> None:
        self._boards[board].frozen.add((window, instance))

    def thaw(self, board: int, window: str, before: int) -> None:
        frozen = self._boards[board].frozen
        frozen -= {each for each in frozen if each[0] == window and each[1] < before}

    def take_dropped(self) -> list[object]:
        dropped, self._dropped = self._dropped, []
        return dropped

    def touch(self, board: int) -> None:
        """Record, for a copy in progress, that the fold's description of a board has changed."""
        self._touch(board)

    def copy(self) -> Copying:
        """Begin a copy. Only one copy can be in progress."""
        self._copying = Copying(self._boards.get, self._followed, list(self._boards), self._roster)
        return self._copying

    def end_copy(self) -> None:
        """End the copy, whether or not it is finished."""
        if self._copying is not None:
            self._copying.end()
        self._copying = None

    def load(self) -> Loading:
        """Begin loading a copy into this index, which has to be empty."""
        return Loading(self._boards, self._roster)

    def contents(self, board: int) -> Iterator[Piece]:
        """Yield the whole state of a board. The board must not change meanwhile."""
        store = self._boards[board]
        yield from shared_pieces(store)
        for scope in [ALL, *sorted(store.scopes)]:
            if (part := self._followed(board, scope)) is not None:
                yield from scope_pieces(scope, part, self._roster)

    def track(self, board: int, owner: str) -> None:
        """Begin to track what writes change in a board."""
        if not self.untrack(board, owner):
            raise BoardMoving("another move copies the board")
        self._tracked[board] = TrackedWrites(owner)

    def untrack(self, board: int, owner: str) -> bool:
        """End tracking by an owner."""
        tracked = self._tracked.get(board)
        if tracked is None:
            return True
        if tracked.owner != owner:
            return False
        del self._tracked[board]
        return True

    def scan(self, board: int) -> Iterator[Piece]:
        """Yield the whole state of a board. The board may change meanwhile; the pieces have all
        rows that do not change."""
        store = self._boards[board]
        yield from scanned_shared_pieces(store)
        for scope in [ALL, *sorted(store.scopes)]:
            if (part := self._followed(board, scope)) is not None:
                yield from scanned_scope_pieces(scope, part, self._roster)

    def changed_pieces(self, board: int, owner: str, from_ms: int) -> Iterator[ChangedPiece]:
        """Yield the current rows and data of the members whose changes were tracked since the last
        call, and the event ids accepted from `from_ms` on."""
        store, tracked = self._boards[board], self._tracked.get(board)
        if tracked is None or tracked.owner != owner:
            raise BoardChanging("the changes of the board are no longer tracked")
        by_scope, data = tracked.take()
        by_scope.setdefault(ALL, set()).update(
            [id for member in data if (id := self._roster.find(member)) >= 0]
        )
        yield from unranked_data(store, self._roster, data)
        for scope, ids in by_scope.items():
            for some in chunks(ids):
                part = self._followed(board, scope)
                yield from pieces_of_members(store, part, self._roster, scope, some)
        yield from id_pieces(store.remembered.between(from_ms, _ALL))

    def restore(self, board: int, piece: ChangedPiece) -> None:
        """Write a piece of a board's state. After the last piece, `restored` has to be called."""
        store = self._boards[board]
        match piece:
            case RankingRows():
                ids, structure = restore_rows(board, store, self._roster, piece)
                if self._copying is not None:
                    self._copying.touch(board, piece.scope, ids, [structure])
            case EventIds(groups):
                for accepted_ms, keys in groups:
                    for key in keys:
                        store.remembered.restore(key, accepted_ms)
                self._touch(board)
            case MemberValues(items):
                for member, value in items:
                    self.set_data(board, member, value)
            case ClearedRows(scope, members):
                self._clear(board, scope, members)

    def _clear(self, board: int, scope: str, members: Sequence[bytes]) -> None:
        store = self._boards[board]
        for member in members if scope == ALL else ():
            self.set_data(board, member, None)
        if (part := store.parts.get(scope)) is None:
            return
        ids = array("I", [id for each in members if (id := self._roster.find(each)) >= 0])
        for ranking in part.rankings.values():
            ranking.discard(ids)
        for rolling in part.rolling.values():
            rolling.discard(ids)
        if self._copying is not None:
            self._copying.touch(board, scope, ids, part.structures())
        store.drop_empty(scope)

    def restored(self, board: int) -> None:
        """Compute the data that the pieces of a board leave out: links between candidates, and
        prepared rankings."""
        store = self._boards[board]
        for part in store.parts.values():
            for rolling in part.rolling.values():
                if store.rules.best and not rolling.deferred:
                    for tally in link_candidates(rolling):
                        if self._copying is not None:
                            self._copying.copy_again(tally)
                rolling.prepare()
        self._touch(board)

    def _touch(self, board: int, scope: str = "") -> None:
        if self._copying is not None:
            self._copying.touch(board, scope)

    def _part(self, key: RankingKey) -> ScopeStore:
        part = self._followed(key.board, key.scope)
        return _NOTHING if part is None else part

    def _rolling(self, board: int, window: str, scope: str) -> RollingSet | None:
        return self._part(RankingKey(board, window, 0, scope)).rolling.get(window)

    def size(self, key: RankingKey) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else len(ranking)

    def nbytes(self, key: RankingKey) -> int:
        part = self._part(key)
        stored = part.rolling.get(key.window) or part.rankings.get((key.window, key.instance))
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

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else ranking.bound(words, member, right=right)

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

    def _ranking(self, key: RankingKey) -> RankedSet | None:
        return _ranked(self._boards[key.board], key)


def _as_expected(ranking: RankedSet, ids: "array[int]", expected: EntryRows | None) -> bytearray:
    """Return a byte for each member: 1 if its entry in a ranking is the expected entry, else 0."""
    if expected is None:
        return bytearray(b"\1") * len(ids)
    present, words = ranking.words(ids)
    columns = zip(words, [unpack(column, len(ids)) for column in expected.words], strict=True)
    done = bytearray(map(eq, present, expected.present))
    for actual, wanted in columns:
        for i, (word, wanted_word) in enumerate(zip(actual, wanted, strict=True)):
            if present[i] and word != wanted_word:
                done[i] = 0
    return done


def _ranked(store: BoardStore, key: RankingKey) -> RankedSet | None:
    """Return the ranking that is shown under a key."""
    _, window, instance, scope = key
    part = store.parts.get(scope)
    if part is None:
        return None
    if part.rolling and (rolling := part.rolling.get(window)) is not None:
        seen = rolling.deferred or rolling.running == instance
        return rolling.live if seen else None
    return part.rankings.get((window, instance))
