"""The memory index: all rankings of the boards in this process, as ranked sets of the engine."""

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import eq

from laurels.core.index import Outcome, Outcomes
from laurels.core.lifecycle import RollingState
from laurels.core.plan import Plan
from laurels.core.ranking_key import RankingKey
from laurels.core.record import EntryRows, MendRanking
from laurels.engine.batch import fold
from laurels.engine.batch.packing import unpack
from laurels.engine.rolling.rolling import RollingSet
from laurels.engine.tree.ranked_set import ORDINAL, RankedSet
from laurels.model.batch import Batch
from laurels.model.labels import ALL
from laurels.model.rules import Rules
from laurels.model.score import word_bounds

from .application import BatchApplication
from .board_pieces import BoardPieces
from .board_store import BoardStore, ScopeStore
from .remembered import Remembered

_ALL = 2**62
_OPS = {"sum": fold.SUM, "last": fold.LAST, "best": fold.BEST}


class MemoryIndex(BoardPieces):
    """Implementation of `Index` in memory. It need not be thread-safe, since the store holds a lock
    during each call."""

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
        return self._remove(board, member, scopes, store.changing, store.moving)

    def erase(self, board: int, member: bytes, scopes: Iterable[str]) -> set[tuple[str, int]]:
        store, id = self._boards[board], self._roster.find(member)
        names = {
            name
            for scope in self.scopes_with_member(board, member, (ALL, *scopes))
            for name, ranking in store.parts[scope].rankings.items()
            if (name in store.frozen or ranking.stepped) and ranking.rank(id, ORDINAL) >= 0
        }
        self._remove(
            board,
            member,
            scopes,
            lambda part: list(part.rankings.values()),
            lambda part: list(part.rolling.values()),
        )
        return names

    def clear(self, board: int) -> None:
        store = self._boards[board]
        self._dropped.append(store)
        self._boards[board] = BoardStore(
            store.rules,
            store.shape,
            store.stamped,
            {"": ScopeStore(refreshes=store.refreshes)},
            store.remembered,
            {},
            refreshes=store.refreshes,
            refreshed=store.refreshed,
            frozen=store.frozen,
        )

    def ids_of(
        self, board: int, member: bytes, place: int, limit: int
    ) -> tuple[list[bytes], int | None]:
        return self._boards[board].remembered.keys_of(member, place, limit)

    def forget_ids(self, board: int, ids: Sequence[bytes]) -> None:
        self._boards[board].remembered.forget(ids)

    def _remove(
        self,
        board: int,
        member: bytes,
        scopes: Iterable[str],
        rankings_of: Callable[[ScopeStore], list[RankedSet]],
        rolling_of: Callable[[ScopeStore], list[RollingSet]],
    ) -> bool:
        """Remove a member and its data from a board: in the scope of all events and in `scopes`,
        from the rankings that `rankings_of` returns and the rolling windows that `rolling_of`
        returns. Return whether any of them had the member."""
        store = self._boards[board]
        self.set_data(board, member, None)
        if (id := self._roster.find(member)) < 0:
            return False
        one = array("I", [id])
        removed = 0
        for scope in self.scopes_with_member(board, member, (ALL, *scopes)):
            part = store.parts[scope]
            discarded = sum([ranking.discard(one) for ranking in rankings_of(part)])
            discarded += sum([rolling.discard(one) for rolling in rolling_of(part)])
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

    def rotate_step(
        self, roll: RollingState, limit: int | None = None, copied: Collection[int] = ()
    ) -> bool:
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
        while rolling.running < roll.running and len(rolling.live):
            counted = range(rolling.running, rolling.running + roll.steps)
            if roll.running not in counted and not any(step in counted for step in copied):
                self._dropped.append(part.rolling.pop(key.window))
                return True
            if not rolling.advance(_ALL if limit is None else limit):
                return False
            if rolling.running in copied:
                part.rankings[key.window, rolling.running] = rolling.copy_live()
            rolling.rotate_step()
            if self._copying is not None:
                self._copying.copy_again(rolling.live)
        if not len(rolling.live):
            self._dropped.append(part.rolling.pop(key.window))
        return True

    def set_generation(self, board: int, scope: str, generation: int) -> None:
        store = self._boards[board]
        if (part := store.parts.get(scope)) is not None:
            part.generation = generation
            if scope and not part:
                self._touch(board, scope)
                store.drop_empty(scope)

    def advance_pass(self, board: int, window: str, limit: int, scope: str = "") -> int:
        if self.pass_left(board, window, scope):
            self._part(RankingKey(board, window, 0, scope)).rolling[window].advance(limit)
        return self.pass_left(board, window, scope)

    def pass_left(self, board: int, window: str, scope: str = "") -> int:
        rolling = self._rolling(board, window, scope)
        return 0 if rolling is None or rolling.complete else max(1, rolling.pass_remaining)

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
