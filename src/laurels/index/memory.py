"""The memory index: every ranking a native ranked set, in this process.

A batch is applied in three moves: ids and lateness decide which events count, the native write
rule (`engine.fold`) counts them in all their windows at once, and what was counted has its id
remembered. An all-or-nothing batch keeps a journal of what it writes and has it undone when one
of its events is refused.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from operator import neg
from typing import Any

from laurels.engine import fold
from laurels.engine.ranked_set import COMPETITION, DENSE, ORDINAL, RankedSet
from laurels.engine.rolling import RollingSet
from laurels.engine.roster import Roster
from laurels.engine.tally import Tally
from laurels.errors import CheckFailed
from laurels.event import Batch
from laurels.plan import Plan, RankingKey, Roll, Target
from laurels.rules import Rules
from laurels.score import stamps_of

from .base import COUNTED, Located, Outcome, Outcomes, Scores, Slice
from .copying import Copying
from .held import Held, changed_with
from .loading import Loading
from .remembered import Remembered, key_of

_ALL = 2**62
_SCAN = 10_000
_OPS = {"sum": fold.SUM, "last": fold.LAST, "best": fold.BEST}
_STYLES = {"ordinal": ORDINAL, "competition": COMPETITION, "dense": DENSE}


class MemoryIndex:
    """All rankings in memory; implements `Index`. Not thread-safe: the service holds the lock."""

    def __init__(self, seed: int) -> None:
        self._roster = Roster(seed)
        self._boards: dict[int, Held] = {}
        self._dropped: list[object] = []
        self._copying: Copying | None = None

    def open_board(self, number: int, rules: Rules) -> None:
        if number in self._boards:
            self._boards[number].rules = rules
            self._touch(number)
            return
        stamped = any(c.op == "last" for c in rules.columns) and (
            rules.tie == 0 or rules.resolution_ms != 1
        )
        bounds = [sorted((c.sign * c.low, c.sign * c.high)) for c in rules.columns]
        shape = fold.Shape(
            [_OPS[c.op] for c in rules.columns],
            [low for low, _ in bounds],
            [high for _, high in bounds],
            rules.tie,
            stamped,
        )
        self._touch(number)
        self._boards[number] = Held(rules, shape, stamped, {}, {}, Remembered(), {})

    def close_board(self, number: int) -> None:
        self._dropped.append(self._boards.pop(number))
        self._touch(number)

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        if len(plan.late) == batch.size and batch.ids is None:
            return Outcomes(bytearray([Outcome.TOO_LATE]) * batch.size)
        held = self._boards[batch.board]
        application = _Application(held, self._roster, batch, plan, watch)
        outcomes = application.run()
        if self._copying is not None:
            self._copying.touch(batch.board, *application.touched)
        if application.left_empty:
            held.drop_empty()
        return outcomes

    def remove(self, board: int, member: bytes) -> bool:
        held = self._boards[board]
        self.set_data(board, member, None)
        if (id := self._roster.find(member)) < 0:
            return False
        one = array("I", [id])
        found: int = sum([ranking.discard(one) for ranking in held.rankings.values()])
        found += sum([rolling.discard(one) for rolling in held.rolling.values()])
        if self._copying is not None:
            self._copying.touch(board, one, held.structures())
        held.drop_empty()
        return found > 0

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None:
        if data is None:
            self._boards[board].data.pop(member, None)
        else:
            self._boards[board].data[member] = data
        if self._copying is not None:
            self._copying.touch_data(board, member)

    def data(self, board: int, members: Sequence[str]) -> list[bytes | None]:
        held = self._boards[board].data
        return [held.get(member.encode()) for member in members]

    def all_data(self, board: int) -> dict[bytes, bytes]:
        return dict(self._boards[board].data)

    def remembered(self, board: int, now_ms: int) -> int:
        held = self._boards[board]
        return held.remembered.count_after(now_ms - held.rules.dedupe_ms)

    def ids(self, board: int) -> list[tuple[bytes, int]]:
        return self._boards[board].remembered.items()

    def turn(self, roll: Roll, limit: int | None = None) -> bool:
        key = roll.ranking.key
        held = self._boards[key.board]
        rolling = held.rolling.get(key.window)
        if rolling is None or rolling.running == roll.running:
            return True
        self._touch(key.board)
        if roll.running - rolling.running >= roll.steps:
            self._dropped.append(held.rolling.pop(key.window))
            return True
        while rolling.running < roll.running:
            if not rolling.advance(_ALL if limit is None else limit):
                return False
            rolling.turn()
            if self._copying is not None:
                self._copying.renew(rolling.live)
        held.drop_empty()
        return True

    def advance(self, board: int, window: str, limit: int) -> int:
        if (rolling := self._boards[board].rolling.get(window)) is not None:
            rolling.advance(limit)
        return self.pass_left(board, window)

    def pass_left(self, board: int, window: str) -> int:
        rolling = self._boards[board].rolling.get(window)
        return 0 if rolling is None or rolling.complete else max(1, rolling.todo)

    def keys(self, board: int) -> list[RankingKey]:
        held = self._boards[board]
        running = [
            RankingKey(board, name, rolling.running)
            for name, rolling in held.rolling.items()
            if len(rolling.live)
        ]
        return [*held.rankings, *running]

    def tallies(self, board: int) -> list[RankingKey]:
        return [
            RankingKey(board, name, number)
            for name, rolling in self._boards[board].rolling.items()
            for number in rolling.numbers()
            if number >= rolling.leaving
        ]

    def digest(self, key: RankingKey) -> tuple[int, int]:
        tally = self._boards[key.board].rolling[key.window].tally(key.instance)
        count = total = place = 0
        while tally is not None and place < 2**32:
            ids, words, place = tally.scan(place, _SCAN)
            count += len(ids)
            total += sum(map(hash, zip(self._roster.names(ids), *words, strict=True)))
        return count, total

    def drop(self, keys: Sequence[RankingKey]) -> None:
        for key in keys:
            if (ranking := self._boards[key.board].rankings.pop(key, None)) is not None:
                self._dropped.append(ranking)
                self._touch(key.board)

    def let_go(self) -> list[object]:
        dropped, self._dropped = self._dropped, []
        return dropped

    def touch(self, board: int) -> None:
        """Tells a copy under way that what the fold knows of a board has changed."""
        self._touch(board)

    def copy(self) -> Copying:
        """Begins a copy; there is one at a time."""
        self._copying = Copying(self._boards.get, list(self._boards), self._roster)
        return self._copying

    def end_copy(self) -> None:
        """Ends a copy, finished or not."""
        if self._copying is not None:
            self._copying.end()
        self._copying = None

    def load(self) -> Loading:
        """Begins to take in a copy; this index is empty."""
        return Loading(self._boards, self._roster)

    def _touch(self, board: int) -> None:
        if self._copying is not None:
            self._copying.touch(board)

    def size(self, key: RankingKey) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else len(ranking)

    def nbytes(self, key: RankingKey) -> int:
        held = self._boards[key.board]
        stored = held.rolling.get(key.window) or held.rankings.get(key)
        return 0 if stored is None else stored.nbytes

    def shared_nbytes(self) -> int:
        return self._roster.nbytes

    def members(self) -> int:
        return len(self._roster)

    def position(self, key: RankingKey, member: bytes) -> int:
        ranking = self._ranking(key)
        id = self._roster.find(member)
        return -1 if ranking is None or id < 0 else ranking.rank(id, ORDINAL)

    def ranks(self, key: RankingKey, members: Sequence[bytes]) -> "array[int]":
        ranking = self._ranking(key)
        if ranking is None:
            return array("q", [-1]) * len(members)
        style = _STYLES[self._boards[key.board].rules.rank]
        ids = map(self._roster.find, members)
        return array("q", [ranking.rank(id, style) if id >= 0 else -1 for id in ids])

    def locate(self, key: RankingKey, members: Sequence[str]) -> Located:
        held = self._boards[key.board]
        absent = array("q", [-1]) * len(members)
        empty = array("q", bytes(8 * len(members)))
        width = held.rules.order_words(key.window)
        located = Located(absent, absent[:], [empty[:] for _ in range(width)])
        if (ranking := self._ranking(key)) is None:
            return located
        known = self._roster.find_many(members)
        wanted = [i for i, id in enumerate(known) if id >= 0]
        ids = array("I", [known[i] for i in wanted])
        _, words = ranking.words(ids)
        style = _STYLES[held.rules.rank]
        positions = ranking.ranks(ids, ORDINAL)
        _scatter(located.positions, wanted, positions)
        ranks = positions if style == ORDINAL else ranking.ranks(ids, style)
        _scatter(located.ranks, wanted, ranks)
        for column, found in zip(located.words, words, strict=False):
            _scatter(column, wanted, found)
        return located

    def slice(self, key: RankingKey, start: int, stop: int) -> Slice:
        ranking = self._ranking(key)
        if ranking is None:
            width = self._boards[key.board].rules.order_words(key.window)
            return Slice(0, [], array("q"), [array("q")] * width)
        rules = self._boards[key.board].rules
        start, stop = max(0, start), min(stop, len(ranking))
        start = min(start, stop)
        ids, words = ranking.slice(start, stop)
        ranks = ranking.ranks_at(start, stop, _STYLES[rules.rank])
        return Slice(start, self._roster.names(ids), ranks, words)

    def bound(
        self, key: RankingKey, words: Sequence[int], member: bytes | None = None, *, right: bool
    ) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else ranking.bound(words, member, right=right)

    def check(self) -> None:
        self._roster.check()
        for held in self._boards.values():
            held.remembered.check()
            for ranking in held.rankings.values():
                ranking.check()
            for rolling in held.rolling.values():
                rolling.check()

    def _ranking(self, key: RankingKey) -> RankedSet | None:
        held = self._boards[key.board]
        if (rolling := held.rolling.get(key.window)) is not None:
            return rolling.live if rolling.running == key.instance else None
        return held.rankings.get(key)


def _scatter(into: "array[int]", places: Sequence[int], values: Sequence[int]) -> None:
    for place, value in zip(places, values, strict=True):
        into[place] = value


class _Application:
    """One batch on its way into the rankings of its board."""

    def __init__(
        self, held: Held, roster: Roster, batch: Batch, plan: Plan, watch: int | None
    ) -> None:
        rules = held.rules
        self._held = held
        self._batch = batch
        self._plan = plan
        self._watch = -1 if watch is None else watch
        rolling = {roll.ranking.key.window: roll for roll in plan.rolls if roll is not None}
        self._rollings = [self._roll(roll, roster) for roll in plan.rolls]
        self._stores = [self._take(target, rolling, roster) for target in plan.targets]
        self._members = roster.intern(batch.members, batch.lengths)
        self._words = [
            column if rule.sign > 0 else array("q", map(neg, column))
            for rule, column in zip(rules.columns, batch.values, strict=True)
        ]
        self._fadings = [_weights(rules.half_life_ms(name), batch) for name in plan.windows]
        self._ats = batch.now_ms if batch.ats is None else batch.ats
        self._stamps = stamps_of(self._ats, rules.resolution_ms)
        self._sets = b"\1" * batch.size if batch.absolute else None
        self._codes = bytearray(batch.size)
        self._added: list[bytes] = []
        self._journal = fold.Journal() if batch.atomic else None
        self._before: list[tuple[bytearray, list[array[int]]]] = []
        self._after: list[tuple[bytearray, list[array[int]]]] = []

    def _roll(self, roll: Roll | None, roster: Roster) -> RollingSet | None:
        """The state of a rolling window at the step that runs."""
        if roll is None:
            return None
        window = roll.ranking.key.window
        rolling = self._held.open_rolling(window, roll.steps, roll.running, roster)
        if rolling.running != roll.running:
            raise CheckFailed(f"window {window!r} was not brought to step {roll.running}")
        return rolling

    def _take(
        self, target: Target, rolling: Mapping[str, Roll], roster: Roster
    ) -> RankedSet | Tally:
        """What a target names: the ranking of a period or the tally of a step."""
        key = target.key
        if key.window in rolling:
            return self._held.rolling[key.window].open_tally(key.instance)
        return self._held.open_ranking(key, roster)

    def run(self) -> Outcomes:
        for i in self._plan.late:
            self._codes[i] = Outcome.TOO_LATE
        if self._batch.ids is None:
            self._count(0, self._batch.size)
        else:
            self._count_once(self._batch.ids)
        outcomes = Outcomes(self._codes, _joined(self._before), _joined(self._after))
        if self._journal is not None and outcomes.refused:
            self._put_back(self._journal)
            outcomes = Outcomes(self._codes)
        return outcomes

    @property
    def touched(self) -> "tuple[array[int], list[RankedSet | Tally]]":
        """The members and the structures that may have changed."""
        structures: list[RankedSet | Tally] = [*self._stores]
        for rolling in self._rollings:
            if rolling is not None:
                structures += changed_with(rolling, best=self._held.rules.best)
        return self._members, structures

    @property
    def left_empty(self) -> bool:
        """Whether something it touched holds nobody."""
        live = [rolling.live for rolling in self._rollings if rolling is not None]
        return not all(map(len, [*self._stores, *live]))

    def _count(self, start: int, stop: int) -> None:
        """Counts the events of a run whose code is still 0."""
        if start == stop:
            return
        watched = fold.apply(
            self._held.shape,
            self._stores,
            self._plan.routes,
            self._rollings,
            self._members,
            self._words,
            self._stamps,
            self._ats,
            self._sets,
            self._plan.all_window,
            self._watch,
            start,
            stop,
            self._codes,
            self._journal,
            self._fadings,
        )
        if watched is not None:
            self._before.append(watched[0])
            self._after.append(watched[1])

    def _count_once(self, ids: list[bytes | None]) -> None:
        """Counts events with ids in runs within which every decision stands on its own.

        Whether an id is new depends on what became of the events before it: a run ends before
        an id that is in the run already, and before one that might find the table full.
        """
        remembered, limit = self._held.remembered, self._held.rules.dedupe_max
        remembered.forget_until(self._batch.now_ms - self._held.rules.dedupe_ms)
        start = 0
        run: dict[bytes, int] = {}
        for i, key in self._keys(ids):
            if key in run or len(remembered) + len(run) >= limit:
                self._finish(start, i, run)
                start = i
            if key in remembered:
                self._codes[i] = Outcome.DUPLICATE
            elif not self._codes[i]:
                if len(remembered) + len(run) >= limit:
                    self._codes[i] = Outcome.DEDUPE_FULL
                else:
                    run[key] = i
        self._finish(start, self._batch.size, run)

    def _keys(self, ids: list[bytes | None]) -> Iterator[tuple[int, bytes]]:
        start = 0
        members = self._batch.members
        for i, (length, id) in enumerate(zip(self._batch.lengths, ids, strict=True)):
            if id is not None:
                yield i, key_of(members[start : start + length], id)
            start += length

    def _finish(self, start: int, stop: int, run: dict[bytes, int]) -> None:
        self._count(start, stop)
        for key, i in run.items():
            if self._codes[i] in COUNTED:
                self._held.remembered.add(key, self._batch.now_ms)
                self._added.append(key)
        run.clear()

    def _put_back(self, journal: fold.Journal) -> None:
        """Takes the whole batch back."""
        journal.undo()
        self._held.remembered.undo(self._added)
        for i, code in enumerate(self._codes):
            if code in COUNTED:
                self._codes[i] = Outcome.ROLLED_BACK


def _weights(half_life_ms: int, batch: Batch) -> Any:
    """What the events weigh, for the engine; None where they do not fade."""
    if not half_life_ms:
        return None
    weights = batch.weights_in(half_life_ms)
    return weights.exponents, weights.mantissas


def _joined(runs: list[tuple[bytearray, list["array[int]"]]]) -> Scores | None:
    if not runs:
        return None
    present, words = runs[0]
    for more_present, more_words in runs[1:]:
        present += more_present
        for column, more in zip(words, more_words, strict=True):
            column.extend(more)
    return Scores(present, words)
