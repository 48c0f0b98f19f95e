"""The memory index: every ranking a native ranked set, in this process.

A batch is applied in three moves: ids and lateness decide which events count, the native write
rule (`engine.fold`) counts them in all their windows at once, and what was counted has its id
remembered. An all-or-nothing batch notes the entries it touches first and puts them back when
one of its events is refused.
"""

from array import array
from collections.abc import Iterator, Sequence
from operator import neg

from msgspec import Struct

from laurels.engine import fold
from laurels.engine.ranked_set import COMPETITION, DENSE, ORDINAL, RankedSet
from laurels.engine.roster import Roster
from laurels.event import Batch
from laurels.plan import Plan, RankingKey
from laurels.rules import Rules
from laurels.score import stamps_of

from .base import COUNTED, Located, Outcome, Outcomes, Scores, Slice
from .remembered import Remembered, key_of

_OPS = {"sum": fold.SUM, "last": fold.LAST, "best": fold.BEST}
_STYLES = {"ordinal": ORDINAL, "competition": COMPETITION, "dense": DENSE}


class _Board(Struct):
    """What the index holds of one board."""

    rules: Rules
    shape: fold.Shape
    stamped: bool
    rankings: dict[RankingKey, RankedSet]
    remembered: Remembered
    data: dict[bytes, bytes]

    @property
    def width(self) -> int:
        """Words that decide the order of an entry: its columns, and the tie stamp if any."""
        return len(self.rules.columns) + (self.rules.tie != 0)


class MemoryIndex:
    """All rankings in memory; implements `Index`. Not thread-safe: the service holds the lock."""

    def __init__(self, seed: int) -> None:
        self._roster = Roster(seed)
        self._boards: dict[int, _Board] = {}

    def open_board(self, number: int, rules: Rules) -> None:
        if number in self._boards:
            self._boards[number].rules = rules
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
        self._boards[number] = _Board(rules, shape, stamped, {}, Remembered(), {})

    def close_board(self, number: int) -> None:
        del self._boards[number]

    def apply(self, batch: Batch, plan: Plan, watch: int | None = None) -> Outcomes:
        if len(plan.late) == batch.size and batch.ids is None:
            return Outcomes(bytearray([Outcome.TOO_LATE]) * batch.size)
        return _Application(self._boards[batch.board], self._roster, batch, plan, watch).run()

    def remove(self, board: int, member: bytes) -> bool:
        held = self._boards[board]
        held.data.pop(member, None)
        if (id := self._roster.find(member)) < 0:
            return False
        one = array("I", [id])
        found: int = sum([ranking.discard(one) for ranking in held.rankings.values()])
        _drop_empty(held)
        return found > 0

    def set_data(self, board: int, member: bytes, data: bytes | None) -> None:
        if data is None:
            self._boards[board].data.pop(member, None)
        else:
            self._boards[board].data[member] = data

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

    def keys(self, board: int) -> list[RankingKey]:
        return list(self._boards[board].rankings)

    def drop(self, keys: Sequence[RankingKey]) -> None:
        for key in keys:
            self._boards[key.board].rankings.pop(key, None)

    def size(self, key: RankingKey) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else len(ranking)

    def nbytes(self, key: RankingKey) -> int:
        ranking = self._ranking(key)
        return 0 if ranking is None else ranking.nbytes

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
        located = Located(absent, absent[:], [empty[:] for _ in range(held.width)])
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
            return Slice(0, [], array("q"), [array("q")] * self._boards[key.board].width)
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

    def _ranking(self, key: RankingKey) -> RankedSet | None:
        return self._boards[key.board].rankings.get(key)


def _scatter(into: "array[int]", places: Sequence[int], values: Sequence[int]) -> None:
    for place, value in zip(places, values, strict=True):
        into[place] = value


def _drop_empty(held: _Board) -> None:
    for key in [key for key, ranking in held.rankings.items() if not len(ranking)]:
        del held.rankings[key]


class _Application:
    """One batch on its way into the rankings of its board."""

    def __init__(
        self, held: _Board, roster: Roster, batch: Batch, plan: Plan, watch: int | None
    ) -> None:
        rules = held.rules
        self._held = held
        self._batch = batch
        self._plan = plan
        self._watch = -1 if watch is None else watch
        self._rankings = [self._take(target.key, roster) for target in plan.targets]
        self._members = roster.intern(batch.members, batch.lengths)
        self._words = [
            column if rule.sign > 0 else array("q", map(neg, column))
            for rule, column in zip(rules.columns, batch.values, strict=True)
        ]
        self._ats = batch.now_ms if batch.ats is None else batch.ats
        self._stamps = stamps_of(self._ats, rules.resolution_ms)
        self._sets = b"\1" * batch.size if batch.absolute else None
        self._codes = bytearray(batch.size)
        self._added: list[bytes] = []
        self._before: list[tuple[bytearray, list[array[int]]]] = []
        self._after: list[tuple[bytearray, list[array[int]]]] = []

    def _take(self, key: RankingKey, roster: Roster) -> RankedSet:
        held = self._held
        if key not in held.rankings:
            held.rankings[key] = RankedSet(
                roster,
                columns=len(held.rules.columns),
                tie=held.rules.tie != 0,
                stamped=held.stamped,
                dense=held.rules.rank == "dense",
            )
        return held.rankings[key]

    def run(self) -> Outcomes:
        noted = self._note() if self._batch.atomic else None
        for i in self._plan.late:
            self._codes[i] = Outcome.TOO_LATE
        if self._batch.ids is None:
            self._count(0, self._batch.size)
        else:
            self._count_once(self._batch.ids)
        outcomes = Outcomes(self._codes, _joined(self._before), _joined(self._after))
        if noted is not None and outcomes.refused:
            self._put_back(noted)
            outcomes = Outcomes(self._codes)
        if not all(map(len, self._rankings)):
            _drop_empty(self._held)
        return outcomes

    def _count(self, start: int, stop: int) -> None:
        """Counts the events of a run whose code is still 0."""
        if start == stop:
            return
        watched = fold.apply(
            self._held.shape,
            self._rankings,
            self._plan.routes,
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

    def _note(self) -> list[tuple[bytearray, list["array[int]"]]]:
        return [ranking.words(self._members) for ranking in self._rankings]

    def _put_back(self, noted: list[tuple[bytearray, list["array[int]"]]]) -> None:
        for ranking, (present, words) in zip(self._rankings, noted, strict=True):
            kept = [i for i, was in enumerate(present) if was]
            ranking.discard(self._members)
            ranking.put(
                array("I", [self._members[i] for i in kept]),
                [array("q", [column[i] for i in kept]) for column in words],
            )
        self._held.remembered.undo(self._added)
        for i, code in enumerate(self._codes):
            if code in COUNTED:
                self._codes[i] = Outcome.ROLLED_BACK


def _joined(runs: list[tuple[bytearray, list["array[int]"]]]) -> Scores | None:
    if not runs:
        return None
    present, words = runs[0]
    for more_present, more_words in runs[1:]:
        present += more_present
        for column, more in zip(words, more_words, strict=True):
            column.extend(more)
    return Scores(present, words)
