"""A new store is a class with the methods of `Store`; every verb works with it."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

import laurels
from laurels import config
from laurels.core.archived import VerifiedPeriod
from laurels.core.changes.answers import ChangedBoards, ChangePage, DeletedBoard
from laurels.core.clock_status import ClockStatus
from laurels.core.commands import Command
from laurels.core.due_payouts import DuePayouts
from laurels.core.index import Index
from laurels.core.mending import RankingEntries
from laurels.core.query import Query
from laurels.core.ranking_key import RankingKey
from laurels.core.stats import BoardStats, CheckReport, Sealed, Stats
from laurels.errors import InvalidClock, NoPrizes, NothingToBackUp, NotRestorable, NotSealed
from laurels.errors.payouts import UnknownPayout
from laurels.model.board import Board
from laurels.stores.base import Store

T = TypeVar("T")
NOW_MS = 1_795_392_000_000
ROOM = {"room": "42"}
VERBS = [
    name
    for name, _ in inspect.getmembers(laurels.Leaderboards, inspect.isfunction)
    if not name.startswith("_")
]


class CountingStore:
    """A store that passes all calls to another store, and counts the queries and commands by their
    types."""

    def __init__(self, store: Store) -> None:
        self.queries: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self._store = store

    def ask(self, board: str, query: Query[T]) -> T:
        self.queries[type(query).__name__] += 1
        return self._store.ask(board, query)

    def cached_view(
        self, board: str, window: str | None, look: Callable[[Index, RankingKey], T]
    ) -> T | None:
        return None

    def write(self, command: Command[T]) -> T:
        self.commands[type(command).__name__] += 1
        return self._store.write(command)

    def definition(self, name: str) -> Board:
        return self._store.definition(name)

    def definitions(self) -> list[Board]:
        return self._store.definitions()

    def changes(
        self, board: str, after: str | None, limit: int, *, initial: bool = False
    ) -> ChangePage:
        return self._store.changes(board, after, limit, initial=initial)

    def changed_boards(self, after: str | None) -> ChangedBoards:
        return self._store.changed_boards(after)

    def deleted_boards(self, source: str | None) -> list[DeletedBoard]:
        return self._store.deleted_boards(source)

    def restorable_boards(self) -> list[laurels.RestorableBoard]:
        return self._store.restorable_boards()

    def position(self, board: str, source: str) -> str | None:
        return self._store.position(board, source)

    def positions(self, board: str) -> dict[str, str]:
        return self._store.positions(board)

    def board_stats(self, board: str, *, may_wait: bool = True) -> BoardStats:
        return self._store.board_stats(board, may_wait=may_wait)

    def stats(self) -> Stats:
        return self._store.stats()

    def check(self) -> CheckReport:
        return self._store.check()

    def rebuild(self) -> None:
        self._store.rebuild()

    def snapshot(self) -> int:
        return self._store.snapshot()

    def seal(self) -> Sealed:
        return self._store.seal()

    def verify_period(self, board: str, window: str | None, period: str | None) -> VerifiedPeriod:
        return self._store.verify_period(board, window, period)

    def clock_status(self) -> ClockStatus:
        return self._store.clock_status()

    def accept_clock(self) -> ClockStatus:
        return self._store.accept_clock()

    def audit(self, board: str | None, before: str | None, limit: int) -> laurels.AuditPage:
        return self._store.audit(board, before, limit)

    def hidden_everywhere(self, after: str | None, limit: int) -> list[laurels.HiddenMember]:
        return self._store.hidden_everywhere(after, limit)

    @property
    def due_payouts(self) -> DuePayouts:
        return self._store.due_payouts

    def hot(self) -> laurels.HotReport:
        return self._store.hot()

    def close(self) -> None:
        self._store.close()


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the verbs that a test called."""
    names: set[str] = set()

    def noting(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(verb)
        def call(*args: Any, **options: Any) -> Any:
            names.add(name)
            return verb(*args, **options)

        return call

    for name in VERBS:
        monkeypatch.setattr(
            laurels.Leaderboards, name, noting(name, getattr(laurels.Leaderboards, name))
        )
    return names


def test_every_verb_works_over_a_new_kind_of_store(called: set[str]) -> None:
    store = CountingStore(config.connect("memory:", laurels.ManualClock(NOW_MS), create=True))
    lb = laurels.Leaderboards(store)

    board = lb.create(laurels.Board("b", windows=["all", "day"], scopes=[[], ["room"]]))
    lb.change("b", title="Gifts")
    assert lb.get("b").title == "Gifts"
    assert [each.name for each in lb.boards()] == [board.name]

    assert lb.submit("b", "ann", 5, labels=ROOM).rank == 1
    batch = lb.submit_many("b", [("bob", 7), ("cid", 1)], position=("file", "2"))
    assert [receipt.status for receipt in batch] == ["applied", "applied"]
    assert lb.set("b", "cid", 6).score == 6
    lb.set_data("b", "ann", {"name": "Ann"})
    assert lb.position("b", "file") == "2"
    assert lb.positions("b") == {"file": "2"}

    assert [entry.member for entry in lb.top("b")] == ["bob", "cid", "ann"]
    assert [entry.member for entry in lb.top("b", window="day", labels=ROOM)] == ["ann"]
    around = lb.around("b", "ann", radius=1)
    assert around is not None
    assert len(around) == 3
    standing = lb.standing("b", "ann", with_data=True)
    assert standing is not None
    assert standing.data == {"name": "Ann"}
    assert lb.rank("b", "ann") == 3
    assert lb.ranks("b", ["ann", "bob", "eve"]) == [3, 1, None]
    assert set(lb.card("b", "ann")) == {"all", "day"}
    assert lb.needed("b", "bob", 1) is None
    assert [entry.place for entry in lb.standings("b", ["ann", "cid"])] == [1, 2]
    entries = lb.entries("b", ["ann"])
    assert lb.mend("b", [RankingEntries("all", None, None, entries)]) == 1
    assert lb.entries("b", ["ann"]) == entries
    assert [entry.score for entry in lb.range("b", low=6)] == [7, 6]
    at_rank = lb.at_rank("b", 1)
    assert at_rank is not None
    assert at_rank.member == "bob"
    assert lb.score_at_percentile("b", 50) == 6
    assert lb.count("b", high=6) == 2
    assert [period.total for period in lb.periods("b", "day")] == [3, 0]
    assert lb.scopes("b", "room") == [{"room": "42"}]
    assert [entry.member for entry in lb.export("b")] == ["bob", "cid", "ann"]

    assert lb.payouts("b").payouts == []
    assert lb.due_payouts().payouts == []
    assert lb.waiting_payouts() == []
    lb.move_payout_position("r", None, None)
    assert lb.payout_positions() == {}
    with pytest.raises(NoPrizes):
        lb.settle("b")
    with pytest.raises(UnknownPayout):
        lb.confirm("b", "x", "bank-1")
    with pytest.raises(NotSealed):
        lb.disqualify("b", "ann", "a bot")

    changed = lb.changed_boards()
    lb.change("b", changes="1h")
    lb.set_data("b", "bob", [1])
    assert lb.changed_boards(changed.cursor).boards == ["b"]
    assert [change.kind for change in lb.changes("b")] == ["change", "data"]
    assert len(next(lb.watch_changes("b"))) == 2
    assert lb.deleted_boards() == []
    assert lb.restorable_boards() == []

    assert [window.members for window in lb.stats("b").windows] == [3, 3]
    assert lb.stats().boards == 1
    assert lb.check().boards == 1
    lb.rebuild()
    with pytest.raises(NothingToBackUp):
        lb.snapshot()
    assert lb.seal().closed == 0
    assert lb.archived("b") == []
    with pytest.raises(NotSealed):
        lb.verify("b")
    with pytest.raises(NotSealed):
        lb.archive_pieces("b")
    assert lb.clock_status().now_ms == NOW_MS
    with pytest.raises(InvalidClock):
        lb.accept_clock()
    assert lb.erase("eve", "asked for it").boards == 0
    lb.hide("b", "bob", "bot")
    assert [each.member for each in lb.hidden("b")] == ["bob"]
    assert lb.show("b", "bob")
    lb.hide(None, "bob", "bot")
    assert [each.member for each in lb.hidden()] == ["bob"]
    assert lb.show(None, "bob")
    assert lb.remove("b", "ann")
    assert lb.audit("b").next is None
    assert lb.hot().boards == []
    lb.clear("b")
    lb.delete("b")
    with pytest.raises(NotRestorable):
        lb.undelete("b")
    lb.close()

    assert called == set(VERBS)
    assert store.queries["Top"] == 3
    assert store.queries["RankOf"] == store.queries["RanksOf"] == 1
    assert store.commands == {
        "CreateBoard": 1,
        "ChangeBoard": 2,
        "Submit": 2,
        "SubmitMany": 1,
        "SetData": 2,
        "RemoveMember": 1,
        "HideMember": 1,
        "ShowMember": 1,
        "HideEverywhere": 1,
        "ShowEverywhere": 1,
        "EraseMember": 1,
        "Mend": 1,
        "ConfirmPayout": 1,
        "DisqualifyMember": 1,
        "ClearBoard": 1,
        "DeleteBoard": 1,
        "UndeleteBoard": 1,
    }
