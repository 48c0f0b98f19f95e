"""The copy for a snapshot is made in rounds, and each round in pieces of some rows. The copy
contains the log entries that are written between its rounds, and all its pieces are small."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from tests.folding import assert_same
from tests.traffic import HOUR, NOON

import laurels
from laurels.api.leaderboards import Leaderboards
from laurels.core.fold import Fold
from laurels.core.index import Section
from laurels.engine.roster.roster import Roster
from laurels.stores.local.index import copying, touched
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.index.sections import IDS, ROWS, Rows
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.store import Service
from laurels.timeline.clock import ManualClock


@pytest.fixture(params=["a set", "flags"], autouse=True)
def _touched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test twice: with the ids of touched members in a set, and as flags."""
    if request.param == "flags":
        monkeypatch.setattr(touched, "FEW", copying.MAX_LEFT)
        monkeypatch.setattr(touched, "SET_BYTES", 10**9)


class Store:
    """A store with one board and a rolling window, which a test copies piece by piece."""

    def __init__(self, op: str = "sum") -> None:
        self.clock = ManualClock(NOON)
        self.log = MemoryLog()
        self.service = Service(self.log, lambda: MemoryIndex(1), self.clock)
        self.service.paced = True
        self.lb = Leaderboards(self.service)
        board = laurels.Board(
            "b",
            columns=[{"op": op}],
            windows=["all", "r=rolling:4h/1h"],
            grace="3h",
            dedupe="3h",
        )
        self.lb.create(board)
        self.sections: list[Section] = []
        self.finished: list[Section] = []

    def __enter__(self) -> Store:
        self.copy = self.service._fold.index.copy()
        return self

    def round(self) -> bool:
        """Copy pieces until one is empty, which ends a round. Return whether the round copied
        anything."""
        some = False
        while piece := self.copy.step(self.service._fold.describe):
            self.sections += piece
            some = True
        return some

    def __exit__(self, *_: object) -> None:
        self.finished = self.copy.finish(self.service._fold.describe)
        self.sections += self.finished
        self.head = self.service._fold.head()
        assert self.service._fold.index.end_copy(1_000)

    def loaded(self) -> Fold:
        fold = Fold(MemoryIndex(2))
        loading = fold.index.load()
        for section in self.sections:
            loading.see(*section)
        fold.restore(self.head, loading.described())
        loading.open()
        for section in self.sections:
            loading.take(*section)
        loading.finish()
        return fold


def rows(sections: Iterable[Section]) -> int:
    """Return the number of member rows in these sections."""
    decoded = [msgspec.msgpack.decode(body, type=Rows) for kind, body in sections if kind == ROWS]
    return sum(len(each.ids) // 4 for each in decoded)


@pytest.fixture
def never_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the copy do all rounds that the test requests, even if little is left to copy."""
    monkeypatch.setattr(copying, "MAX_LEFT", 0)


@pytest.mark.usefixtures("never_little")
def test_a_tally_emptied_between_rounds_restores_no_old_member() -> None:
    store = Store()
    store.lb.submit("b", "ann", 1, at=NOON - HOUR)
    store.lb.submit("b", "cid", 1)
    with store:
        store.round()
        store.lb.remove("b", "ann")
        store.round()
        store.lb.submit("b", "bob", 2, at=NOON - HOUR)
    assert_same(store.loaded(), store.log, NOON)


@pytest.mark.usefixtures("never_little")
def test_a_cell_beaten_between_rounds_is_not_restored() -> None:
    store = Store("best")
    store.lb.submit("b", "ann", 1, at=NOON - HOUR)
    with store:
        store.round()
        store.lb.submit("b", "ann", 5)
        store.round()
        store.lb.submit("b", "bob", 2, at=NOON - HOUR)
    assert_same(store.loaded(), store.log, NOON)


def test_pieces_stay_small_when_a_step_ends_in_the_last_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "CHUNK", 100)
    monkeypatch.setattr(copying, "MAX_LEFT", 50)
    store = Store()
    store.lb.submit_many("b", [(f"m{i}", 1) for i in range(1_000)])
    pieces: list[list[Section]] = []
    turned = 0
    with store:
        while (piece := store.copy.step(store.service._fold.describe)) is not None:
            pieces.append(piece)
            if not piece and turned < 2:
                turned += 1
                store.clock.advance(HOUR)
                store.lb.top("b", window="r")
        store.sections = [section for piece in pieces for section in piece]
    assert turned == 2
    assert max(map(rows, pieces)) <= 200
    assert rows(store.finished) <= 50
    # each member has rows in `all`, in a tally, and in three rankings of `r`
    assert rows(store.sections) > 4_000
    assert_same(store.loaded(), store.log, NOON + 2 * HOUR)


@pytest.mark.usefixtures("never_little")
def test_a_position_set_after_the_last_round_is_copied() -> None:
    store = Store()
    store.lb.submit_many("b", [], position=("file", "line 1"))
    with store:
        store.round()
        store.lb.submit_many("b", [], position=("file", "line 2"))
    assert_same(store.loaded(), store.log, NOON)


def test_an_id_added_while_ids_are_copied_is_copied_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "CHUNK", 10)
    monkeypatch.setattr(copying, "MAX_LEFT", 0)
    store = Store()
    store.lb.submit_many("b", [("ann", 1, None, f"id{i}") for i in range(20)])
    store.clock.advance(1)
    store.lb.submit("b", "ann", 1, id="before")
    with store:
        while not any(kind == IDS for kind, _ in store.sections):
            store.sections += store.copy.step(store.service._fold.describe) or []
        store.lb.submit("b", "ann", 1, id="after")
    assert_same(store.loaded(), store.log, NOON + 1)


def test_many_small_tallies_are_copied_in_rounds() -> None:
    store = Store()
    for hour in range(4):
        store.lb.submit_many("b", [(f"m{i}", 1) for i in range(900)])
        store.clock.advance(HOUR * (hour < 3))
    with store:
        assert store.round()
    assert rows(store.finished) == 0
    assert_same(store.loaded(), store.log, store.clock.now_ms())


def test_pieces_stay_small_with_many_boards() -> None:
    """No call looks at more than a share of the boards, with or without members, and the end of a
    copy is divided, too."""
    asked: list[int] = []
    boards = range(20_000)

    def looked_up(number: int) -> None:
        asked.append(number)

    copy = copying.Copying(looked_up, lambda *_: None, boards, Roster(1))
    visits = []
    while copy.step(lambda _: None) is not None:
        visits.append(len(asked))
        asked.clear()
    assert max(visits) <= 2 * copying.CHUNK
    assert sum(visits) >= 2 * len(boards)
    assert copy.finish(lambda _: None) == []
    shares = 1
    while not copy.end(500):
        shares += 1
    assert shares == len(boards) // 500
