"""Writes: what callers want committed, each from its acceptance to its fold.

A write is made by the caller's thread (form is judged there), turned into log records by the
commit, which knows `now`, and folded once those records are durable.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import msgspec

from . import record
from .board import Board, safe_change
from .boards import Boards, BoardState
from .engine.intake import MISSING, Columns
from .errors import AtInFuture, AtRequired, BatchRefused, BoardExists, LaurelsError
from .event import AHEAD_MS, Batch, batch_of
from .fold import Fold, Folded
from .index.base import Offset
from .plan import Plan, RankingKey, cut
from .receipt import Part, Ranks, Receipts

Refusals = dict[int, tuple[str | None, LaurelsError]]


class FoldedWrite(Protocol):
    """A write as a commit drives it, in the order of these methods.

    It is folded piece by piece: a piece is what was accepted at one `now`. The pieces of a commit
    that share their `now` are counted together, between what they answer before and after.
    """

    @property
    def weight(self) -> int: ...

    @property
    def alone(self) -> bool: ...

    @property
    def board(self) -> BoardState | None:
        """The board it is for, as far as it is known before the commit."""

    @property
    def kind(self) -> object:
        """What it has in common with those it may be joined with; None when with none."""

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        """The records to log; raises when the write is refused, and then leaves no trace."""

    def plan(self, boards: Boards) -> None:
        """Plans what it is about to do, while the records are on their way to the disk."""

    def pieces(self) -> list[int]:
        """The `now` of each of its pieces."""

    def before(self, fold: Fold, piece: int) -> None:
        """Notes what it must know of the state before its piece."""

    def fold(self, fold: Fold, piece: int) -> None:
        """Applies the records of a piece, now durable."""

    def after(self, fold: Fold, piece: int) -> None:
        """Notes what it must know of the state after its piece."""

    def results(self, offset: int) -> Sequence[Any]:
        """What the callers get, when the whole commit is folded as of an offset; may raise."""


class Submission:
    """A batch of events for one board."""

    alone = False

    def __init__(
        self,
        state: BoardState,
        columns: Columns,
        refusals: Refusals,
        *,
        window: str,
        ranks: bool,
        event_time: bool,
        absolute: bool = False,
        atomic: bool = False,
        position: tuple[str, str] | None = None,
    ) -> None:
        self.board = state
        self._window = window
        self._ranks = ranks
        self._event_time = event_time
        self._position = position
        self._refusals = refusals
        self._size = columns.n + len(refusals)
        self._origin: Sequence[int] = columns.kept or range(columns.n)
        self._taken = batch_of(columns, state.number, 0, absolute=absolute, atomic=atomic)
        self._batches: list[Batch] = []
        self._bare: record.Position | None = None
        self._plans: list[Plan] = []
        self._parts: list[Part] = []
        self._ranks_before: list[array[int]] = []
        self._folded: list[Folded] = []

    @property
    def weight(self) -> int:
        return self._taken.size

    @property
    def kind(self) -> object:
        """Submissions that are judged, cut or answered as a whole are joined with none."""
        taken = self._taken
        if self._event_time or self._position is not None or self._refusals:
            return None
        if taken.absolute or taken.atomic or taken.ats is not None:
            return None
        return self.board.number, self._window, self._ranks

    def accept(self, boards: Boards, now_ms: int) -> None:
        """Accepts the events at `now_ms`, as batches; raises where that refuses them all."""
        self.board = boards.current(self.board)
        stamped = self._in_event_time if self._event_time else self._at_now
        self._batches = stamped(now_ms)
        if self._taken.atomic and self._refusals:
            raise self._refused_whole(boards.offset)
        half_lives_ms = self.board.rules.half_lives_ms
        self._batches = [batch.weighed(half_lives_ms) for batch in self._batches if batch.size]
        if self._batches:
            last = msgspec.structs.replace(self._batches[-1], position=self._position)
            self._batches[-1] = last
        elif self._position is not None:
            state = self.board
            self._bare = record.Position(state.number, state.version, now_ms, self._position)

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self.accept(boards, now_ms)
        if self._bare is not None:
            return [self._bare]
        return [record.events_of(batch, self.board.version) for batch in self._batches]

    def plan(self, boards: Boards) -> None:
        self._plans = [boards.plan(batch) for batch in self._batches]

    @property
    def batches(self) -> Sequence[Batch]:
        """What was accepted, in pieces of one `now`."""
        return self._batches

    @property
    def bare(self) -> record.Position | None:
        """The position that came without any event."""
        return self._bare

    @property
    def watched(self) -> tuple[str, bool]:
        """The window whose scores the receipts tell, and whether they tell its ranks."""
        return self._window, self._ranks

    def counted(
        self, folded: Folded, ranks: Ranks | None, places: Sequence[int] | None = None
    ) -> None:
        """Takes in what became of the next piece, or of the accepted events at `places`."""
        self._parts.append(Part(folded, ranks, places))

    def pieces(self) -> list[int]:
        nows = [batch.now_ms for batch in self._batches]
        return nows if self._bare is None else [self._bare.now_ms]

    def before(self, fold: Fold, piece: int) -> None:
        if self._bare is not None:
            return
        fold.advance(self._batches[piece].now_ms)
        fold.bring(self.board)
        if self._ranks:
            self._ranks_before.append(self._ranks_now(fold, piece))

    def fold(self, fold: Fold, piece: int) -> None:
        if self._bare is not None:
            fold.apply(self._bare)
            return
        place = list(self.board.rules.windows).index(self._window)
        self._folded.append(fold.count(self._batches[piece], self._plans[piece], place))

    def after(self, fold: Fold, piece: int) -> None:
        if self._bare is not None:
            return
        ranks = None
        if self._ranks:
            ranks = Ranks(self._ranks_before[piece], self._ranks_now(fold, piece))
        self.counted(self._folded[piece], ranks)

    def results(self, offset: Offset) -> Sequence[Receipts]:
        receipts = self._receipts(offset)
        if self._taken.atomic and receipts.refused:
            raise BatchRefused("no event was counted", receipts)
        return [receipts]

    @classmethod
    def joined(cls, submissions: Sequence["Submission"]) -> "Submission":
        """One submission of several of a kind, in their order."""
        return submissions[0] if len(submissions) == 1 else Joined(submissions)

    def _refused_whole(self, offset: int) -> BatchRefused:
        """An all-or-nothing batch some of whose events are refused before any is counted."""
        refusal = BatchRefused("no event was counted", self._receipts(offset))
        for i, member in zip(self._origin, self._taken.member_list(), strict=True):
            self._refusals.setdefault(i, (member.decode(), refusal))
        return refusal

    def _receipts(self, offset: Offset) -> Receipts:
        return Receipts(
            self.board.rules,
            self._window,
            self._size,
            offset,
            self._parts,
            self._refusals,
        )

    def _ranks_now(self, fold: Fold, piece: int) -> "array[int]":
        """The ranks of a batch's members in the watched window, -1 where not ranked."""
        batch, plan = self._batches[piece], self._plans[piece]
        place = plan.windows.index(self._window)
        members = batch.member_list()
        if isinstance(plan.routes[place], int) and (target := plan.ranking(place, 0)) is not None:
            return fold.index.ranks(target.key, members)
        ranks = array("q", [-1]) * batch.size
        by_ranking: dict[RankingKey, list[int]] = {}
        for j in range(batch.size):
            if (target := plan.ranking(place, j)) is not None:
                by_ranking.setdefault(target.key, []).append(j)
        for key, events in by_ranking.items():
            found = fold.index.ranks(key, [members[j] for j in events])
            for j, rank in zip(events, found, strict=True):
                ranks[j] = rank
        return ranks

    def _refuse(self, errors: Mapping[int, LaurelsError]) -> None:
        """Refuses the events at these positions."""
        members = self._taken.member_list() if errors else []
        for i, error in errors.items():
            self._refusals[self._origin[i]] = (members[i].decode(), error)

    def _at_now(self, now_ms: int) -> list[Batch]:
        """The batch accepted at `now_ms`: every event has its `at`, none lies ahead."""
        batch = msgspec.structs.replace(self._taken, now_ms=now_ms)
        ats = batch.ats
        if ats is None or (min(ats, default=0) > MISSING and max(ats, default=0) <= now_ms):
            return [batch]
        self._refuse(
            {
                i: AtInFuture(f"`at` is {at - now_ms} ms ahead of the clock")
                for i, at in enumerate(ats)
                if at > now_ms + AHEAD_MS
            }
        )
        stamped = array("q", [now_ms if at == MISSING else min(at, now_ms) for at in ats])
        return [self._without_refused(msgspec.structs.replace(batch, ats=stamped))]

    def _in_event_time(self, now_ms: int) -> list[Batch]:
        """The batch cut at boundaries, each part accepted at the latest `at` seen by then."""
        ats = self._taken.ats or array("q", [MISSING]) * self._taken.size
        missing = AtRequired("the store runs on event time")
        self._refuse({i: missing for i, at in enumerate(ats) if at == MISSING})
        if self._taken.atomic and self._refusals:
            return []
        batch = self._without_refused(msgspec.structs.replace(self._taken, ats=ats))
        nows = list(accumulate(batch.ats or (), max, initial=now_ms))[1:]
        if not nows:
            return []
        if self._taken.atomic:
            return [msgspec.structs.replace(batch, now_ms=nows[-1])]
        ends = cut(self.board.rules, nows)
        return batch.split(ends, [nows[end - 1] for end in ends])

    def _without_refused(self, batch: Batch) -> Batch:
        kept = [i for i in range(batch.size) if self._origin[i] not in self._refusals]
        return batch if len(kept) == batch.size else batch.take(kept)


class Joined(Submission):
    """Submissions of one kind as one batch: events are judged one by one whatever batch they are
    in, and ranks are those of the commit, so each gets the receipts it would have got alone."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        first = submissions[0]
        super().__init__(
            first.board,
            _columns_of([each._taken for each in submissions]),
            {},
            window=first._window,
            ranks=first._ranks,
            event_time=False,
        )
        self._sizes = [each._size for each in submissions]

    def results(self, offset: Offset) -> Sequence[Receipts]:
        whole = self._receipts(offset)
        ends = accumulate(self._sizes)
        return [whole.share(end - size, size) for end, size in zip(ends, self._sizes, strict=True)]


def _columns_of(batches: Sequence[Batch]) -> Columns:
    """The events of several batches behind each other."""
    ids: list[bytes | None] | None = None
    if any(batch.ids is not None for batch in batches):
        ids = [id for batch in batches for id in batch.ids or [None] * batch.size]
    return Columns(
        sum(batch.size for batch in batches),
        b"".join([batch.members for batch in batches]),
        b"".join([batch.lengths for batch in batches]),
        tuple(
            [
                array("q", b"".join([batch.values[place].tobytes() for batch in batches]))
                for place in range(len(batches[0].values))
            ]
        ),
        None,
        ids,
    )


class Task:
    """Work to be done while no commit is: it takes a place among the writes and writes nothing."""

    alone = True
    weight = 1
    board = None
    kind = None

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._done: Any = None

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._done = self._work()
        return []

    def plan(self, boards: Boards) -> None:
        pass

    def pieces(self) -> list[int]:
        return []

    def before(self, fold: Fold, piece: int) -> None:
        pass

    def fold(self, fold: Fold, piece: int) -> None:
        pass

    def after(self, fold: Fold, piece: int) -> None:
        pass

    def results(self, offset: int) -> Sequence[Any]:
        return [self._done]


class Single:
    """A write of one record, which `propose` makes from what stands when it is committed.

    `alone` has it commit by itself, because later writes are judged by it. Its result is what
    the fold says of the record.
    """

    weight = 1
    board = None
    kind = None

    def __init__(
        self, propose: Callable[[Boards, int], record.Record | None], *, alone: bool = False
    ) -> None:
        self.alone = alone
        self._propose = propose
        self._record: record.Record | None = None
        self._done = False

    def records(self, boards: Boards, now_ms: int) -> list[record.Record]:
        self._record = self._propose(boards, now_ms)
        return [] if self._record is None else [self._record]

    def plan(self, boards: Boards) -> None:
        pass

    def pieces(self) -> list[int]:
        return [] if self._record is None else [self._record.now_ms]

    def before(self, fold: Fold, piece: int) -> None:
        pass

    def fold(self, fold: Fold, piece: int) -> None:
        if self._record is not None:
            self.settle(fold.apply(self._record))

    def settle(self, done: bool) -> None:
        """Takes in what became of the record."""
        self._done = done

    def after(self, fold: Fold, piece: int) -> None:
        pass

    def results(self, offset: int) -> Sequence[bool]:
        return [self._done]


def creation(board: Board, *, exist_ok: bool) -> Single:
    """Creates a board; with `exist_ok` an equal one that is there already is left as it is."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        if (known := boards.boards.get(board.name)) is not None:
            if exist_ok and known.board == board:
                return None
            differs = " with another definition" if known.board != board else ""
            raise BoardExists(f"there is a board {board.name!r} already{differs}")
        return record.Create(boards.next_number, 1, now_ms, board.to_json())

    return Single(propose, alone=True)


def change(name: str, changes: Mapping[str, Any]) -> Single:
    """Changes what can be changed without giving earlier answers another meaning."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        changed = safe_change(state.board, changes)
        if changed == state.board:
            return None
        return record.Change(state.number, state.version + 1, now_ms, changed.to_json())

    return Single(propose, alone=True)


def deletion(name: str) -> Single:
    """Deletes a board with all it holds."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(name)
        return record.Delete(state.number, state.version, now_ms)

    return Single(propose, alone=True)


def removal(board: BoardState, member: bytes) -> Single:
    """Takes a member out of a board; its result is whether the member was ranked."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(board.board.name)
        return record.Remove(state.number, state.version, now_ms, member)

    return Single(propose)


def data_change(board: BoardState, member: bytes, data: bytes | None) -> Single:
    """Gives a member the JSON it carries, or takes it away."""

    def propose(boards: Boards, now_ms: int) -> record.Record | None:
        state = boards.named(board.board.name)
        return record.MemberData(state.number, state.version, now_ms, member, data)

    return Single(propose)
