"""A store with only a few methods passes a part of the contract.

The store of this test has no log. It applies each command at once to an index, using the code that
all stores share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar, Unpack

import pytest

import laurels
from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus, accept_clock, clock_status
from laurels.core.commands import Command, DefinitionCommand
from laurels.core.due_payouts import NoDuePayouts
from laurels.core.fold import Fold
from laurels.core.index import Index
from laurels.core.query import Query
from laurels.core.query_context import QueryContext
from laurels.core.ranking_key import RankingKey
from laurels.core.stats import (
    BoardStats,
    CheckReport,
    Kept,
    Sealed,
    Stats,
    board_stats,
    store_stats,
)
from laurels.errors import (
    ChangesNotKept,
    Closed,
    InvalidClock,
    InvalidLimit,
    NothingToBackUp,
    NotSealed,
)
from laurels.model.board import Board
from laurels.stores.intake.accept import SubmitOptions, submission
from laurels.stores.intake.commands import result_of, to_write
from laurels.stores.intake.shares import SHARE
from laurels.stores.intake.submission import Submission
from laurels.stores.local.index.memory import MemoryIndex
from laurels.wire.audit_entry import MemoryAudit
from laurels.wire.audit_page import about, page_of
from tests.calendar_by_scanning import utc_ms
from tests.contract import (
    test_basics,
    test_columns,
    test_dedupe,
    test_friends,
    test_lateness,
    test_order,
    test_ranks,
    test_rolling,
)

T = TypeVar("T")
SLICE = (
    test_basics,
    test_columns,
    test_dedupe,
    test_friends,
    test_lateness,
    test_order,
    test_ranks,
    test_rolling,
)


class UnloggedStore:
    """Boards that one thread reads and writes. All data is lost when the process ends."""

    def __init__(self, clock: laurels.Clock) -> None:
        self._clock = clock
        self._fold = Fold(MemoryIndex(1))
        self._closed = False

    def ask(self, board: str, query: Query[T]) -> T:
        state, fold = self.named(board), self._fold
        fold.advance(state)
        plan = query.plan(QueryContext(state, fold.time_of(state), state.positions))
        fold.advance_scopes(state, {request.key.scope for request in plan.requests})
        return plan.run_local(fold.index, fold.offset)

    def cached_view(
        self, board: str, window: str | None, read: Callable[[Index, RankingKey], T]
    ) -> T | None:
        return None

    def write(self, command: Command[T]) -> T:
        fold, write = self._fold, to_write(self, command)
        self._advance_clock()
        if write.records(fold, fold.now_ms):
            fold.entry += 1
        while not write.prepare(fold, SHARE):
            pass
        for piece in range(len(write.pieces())):
            write.before(fold, piece)
            write.fold(fold, piece)
            write.after(fold, piece)
        fold.offset = fold.entry
        [result] = write.results(fold.offset)
        if isinstance(command, DefinitionCommand):
            result = self.definition(command.defines)
        return result_of(command, result)

    def named(self, board: str) -> Any:
        """Return the state of a board; `to_write` calls this."""
        self._advance_clock()
        return self._fold.named(board)

    def submission(
        self,
        board: str,
        events: Iterable[Any],
        window: str | None,
        **options: Unpack[SubmitOptions],
    ) -> Submission:
        """Accept events as a submission; `to_write` calls this."""
        return submission(self.named(board), events, window, event_time=False, **options)

    def definition(self, name: str) -> Board:
        board: Board = self.named(name).board
        return board

    def definitions(self) -> list[Board]:
        return [self._fold.boards[name].board for name in sorted(self._fold.boards)]

    def position(self, board: str, source: str) -> str | None:
        return self.positions(board).get(source)

    def positions(self, board: str) -> dict[str, str]:
        return dict(self.named(board).positions)

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        state = self.named(board)
        self._fold.advance(state)
        return board_stats(self._fold, state, self._fold.time_of(state))

    def stats(self) -> Stats:
        return store_stats(self._fold, 0, self.clock_status(), Kept(self._fold.offset))

    def check(self) -> CheckReport:
        index, boards = self._fold.index, self._fold.boards
        index.check({})
        keys = [key for state in boards.values() for key in index.keys(state.number)]
        return CheckReport(len(boards), len(keys), sum(map(index.size, keys)), self._fold.offset)

    def clock_status(self) -> ClockStatus:
        return clock_status(self._clock, self._fold.now_ms)

    def close(self) -> None:
        self._closed = True

    def _advance_clock(self) -> None:
        if self._closed:
            raise Closed("the store is closed")
        self._fold.advance_clock(self._clock.now_ms())

    # Without a log there are no changes, no files and no audit entries.

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        raise ChangesNotKept(f"the board {self.definition(board).name!r} keeps no changes")

    def changed_boards(self, after: str | None) -> ChangedBoards:
        return ChangedBoards([], "")

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        return []

    def restorable_boards(self) -> list[laurels.RestorableBoard]:
        return []

    def rebuild(self) -> None:
        """Do nothing: the rankings are derived from no other data."""

    def snapshot(self) -> int:
        raise NothingToBackUp("the store is in memory: it has no files")

    def seal(self) -> Sealed:
        return Sealed(0, 0)

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        raise NotSealed("the store has no archive")

    def accept_clock(self) -> ClockStatus:
        accept_clock(self._clock)
        return self.clock_status()

    def audit(self, board: str | None, before: str | None, limit: int) -> laurels.AuditPage:
        return page_of(MemoryAudit(), about(board), before, limit)

    def hidden_everywhere(self, after: str | None, limit: int) -> list[laurels.HiddenMember]:
        return []

    @property
    def due_payouts(self) -> NoDuePayouts:
        return NoDuePayouts()

    def hot(self) -> laurels.HotReport:
        return laurels.HotReport(0.0, [], [])


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(utc_ms(datetime(2026, 11, 20, 15, 30, tzinfo=UTC)))


@pytest.fixture
def lb(clock: laurels.ManualClock) -> laurels.Leaderboards:
    return laurels.Leaderboards(UnloggedStore(clock))


def test_verbs_that_need_a_log_answer_or_say_why_not(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit("b", "ann", 3)
    with pytest.raises(ChangesNotKept):
        lb.changes("b")
    with pytest.raises(NothingToBackUp):
        lb.snapshot()
    with pytest.raises(NotSealed):
        lb.verify("b")
    with pytest.raises(InvalidClock):  # a clock that is set by hand cannot leap
        lb.accept_clock()
    with pytest.raises(InvalidLimit):
        lb.audit(limit=0)
    assert lb.seal().sealed == 0
    lb.rebuild()
    assert [entry.score for entry in lb.top("b")] == [3]
    assert list(lb.audit()) == []
    assert lb.changed_boards().boards == []
    assert lb.deleted_boards() == []
    assert lb.restorable_boards() == []
    assert lb.hot().members == []


for _module in SLICE:
    globals().update({name: each for name, each in vars(_module).items() if name[:5] == "test_"})
