"""The native engine alone: the cost of the index in memory, without log, receipts and Python
objects."""

import time
from array import array
from collections.abc import Iterable, Sequence

from bench.peers import RADIUS, TOP
from bench.timing import Safety, Task
from bench.workload import Batch, Entry, Population, packed
from laurels.engine.batch.fold import Shape, apply
from laurels.engine.roster.roster import Roster
from laurels.engine.tree.ranked_set import ORDINAL, RankedSet
from laurels.model.score import LIMIT

SUM = 0


class EngineBoard:
    """One ranking (one summed column, more is better), and the roster of its members."""

    ours = True
    name = "laurels engine"
    safety: Safety = "memory"

    def __init__(self, *, tie: bool = True) -> None:
        self.roster = Roster(1)
        self.ranking = RankedSet(self.roster, columns=1, tie=tie, stamped=False, dense=False)
        self._shape = Shape([SUM], [-LIMIT], [LIMIT], int(tie), stamped=False)
        self._tie = tie
        self._now_ms = time.time_ns() // 1_000_000
        self.settings = "tie first" if tie else "tie member"

    def load(self, population: Population) -> float:
        elapsed = 0.0
        for batch in population.batches():
            arena, lengths = packed(member for member, _, _ in batch)
            words = words_of(batch)[: 1 + self._tie]
            start = time.perf_counter()
            self.ranking.put(self.roster.intern(arena, lengths), words)
            elapsed += time.perf_counter() - start
        return elapsed

    def nbytes(self) -> int:
        return self.ranking.nbytes + self.roster.nbytes

    def writes(self, batches: Sequence[Batch]) -> Task:
        ready = [(*packed(member for member, _ in batch), signed(batch)) for batch in batches]

        def run() -> None:
            for arena, lengths, values in ready:
                self._apply(self.roster.intern(arena, lengths), values)

        return run

    def interning(self, batches: Sequence[Batch]) -> Task:
        """Return a task that does only the part of `writes` that finds the ids of members."""
        ready = [packed(member for member, _ in batch) for batch in batches]
        return lambda: [self.roster.intern(arena, lengths) for arena, lengths in ready]

    def scores(self, members: Sequence[str]) -> list[int]:
        present, (columns, *_) = self.ranking.words(self._ids(members))
        return [-word if there else 0 for there, word in zip(present, columns, strict=True)]

    def rank(self, members: Sequence[str]) -> Task:
        names = [member.encode() for member in members]
        find, rank = self.roster.find, self.ranking.rank
        return lambda: [rank(find(name), ORDINAL) for name in names]

    def ranks(self, groups: Sequence[Sequence[str]]) -> Task:
        return lambda: [self.ranking.ranks(self._ids(group), ORDINAL) for group in groups]

    def around(self, members: Sequence[str]) -> Task:
        names = [member.encode() for member in members]
        find, rank = self.roster.find, self.ranking.rank
        last_first = len(self.ranking) - 2 * RADIUS - 1

        def run() -> None:
            for name in names:
                first = max(0, min(rank(find(name), ORDINAL) - RADIUS, last_first))
                self._entries(first, first + 2 * RADIUS + 1)

        return run

    def top(self, times: int) -> Task:
        return lambda: [self._entries(0, TOP) for _ in range(times)]

    def standings(self, groups: Sequence[Sequence[str]]) -> Task:
        def run() -> None:
            for group in groups:
                ids = self._ids(group)
                self.ranking.ranks(ids, ORDINAL)
                self.ranking.words(ids)

        return run

    def _apply(self, ids: "array[int]", values: "array[int]") -> None:
        """Apply one commit; also compute the scores before and after it, as receipts need them."""
        self._now_ms += 1
        now_ms, count = self._now_ms, len(ids)
        status = bytearray(count)
        rankings, routes = [self.ranking], [0]
        apply(
            self._shape, rankings, routes, [None], ids, [values], now_ms, now_ms, None, 0, 0, 0,
            count, status,
        )  # fmt: skip

    def _ids(self, members: Sequence[str]) -> "array[int]":
        return array("I", self.roster.find_many(members))

    def _entries(self, start: int, stop: int) -> tuple[list[str], "array[int]"]:
        ids, (columns, *_) = self.ranking.slice(start, stop)
        return self.roster.names(ids), columns


class SmallRankings:
    """Many small rankings over the same roster."""

    ours = True
    name = "laurels engine"
    settings = "tie first"
    safety: Safety = "memory"

    def __init__(self, rankings: Iterable[Sequence[Entry]]) -> None:
        self.roster = Roster(1)
        self._rankings = [self._ranking(entries) for entries in rankings]

    def nbytes(self) -> int:
        """Return the bytes of the rankings without the roster."""
        return sum(ranking.nbytes for ranking in self._rankings)

    def _ranking(self, entries: Sequence[Entry]) -> RankedSet:
        ranking = RankedSet(self.roster, columns=1, tie=True, stamped=False, dense=False)
        members = packed(member for member, _, _ in entries)
        ranking.put(self.roster.intern(*members), words_of(entries))
        return ranking


def words_of(entries: Sequence[Entry]) -> "list[array[int]]":
    """Return the words of entries: the negated score, then the time at which it was reached."""
    return [array("q", [-v for _, v, _ in entries]), array("q", [at for _, _, at in entries])]


def signed(batch: Batch) -> "array[int]":
    """Return values as words: negated, because more is better."""
    return array("q", [-value for _, value in batch])
