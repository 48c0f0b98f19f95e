"""A refresh takes no longer for very many scopes than for few, because a scope is updated only when
it is next used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.folding import assert_same
from tests.traffic import HOUR, NOON, Traffic

import laurels
from laurels.api.leaderboards import Leaderboards
from laurels.core import refreshes
from laurels.core.fold import Fold
from laurels.errors import CheckFailed
from laurels.stores.local.index.board_store import BoardStore
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.snapshot.files import SnapshotFiles
from laurels.stores.local.snapshot.taking import opened, take
from laurels.stores.local.store import Service
from laurels.timeline.clock import ManualClock

# The traffic is random, so all events of a batch may be refused. laurels warns about such batches.
pytestmark = pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")

ROOMS = 300
BUSY = 150
"""How many times a test does other operations and shares of due work before and during its
snapshots."""
WINDOW = "3h=rolling:3h/1h,refresh=30m"


@pytest.fixture(autouse=True)
def in_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the store compute every refresh in advance, in shares."""
    monkeypatch.setattr(refreshes, "UNBUILT_CELLS", 0)


class Rooms:
    """A board with many rooms and one refreshed window. Time passes, and shares of due work are
    done, only when a test asks for it."""

    def __init__(self, *, rooms_only: bool = False) -> None:
        self.clock = ManualClock(NOON)
        self.log = MemoryLog()
        self.service = Service(self.log, lambda: MemoryIndex(1), self.clock)
        self.service.paced = True
        self.lb = Leaderboards(self.service)
        board = laurels.Board("b", windows=[WINDOW], scopes=[["room"]])
        if not rooms_only:
            board = laurels.Board("b", windows=[WINDOW], scopes=[[], ["room"]], rank_by="room")
        self.lb.create(board)
        self.submit(range(ROOMS))

    @property
    def fold(self) -> Fold:
        return self.service._fold

    @property
    def board_store(self) -> BoardStore:
        index = self.fold.index
        assert isinstance(index, MemoryIndex)
        return index._boards[1]

    def submit(self, rooms: range, score: int = 1) -> None:
        """Submit one event in each of these rooms. Each event has a different member."""
        events = [(f"m{i}", score, None, None, {"room": str(i)}) for i in rooms]
        self.lb.submit_many("b", events)

    def refresh(self) -> None:
        """Do due work until the record of the next refresh is in the log. Then stop."""
        offset = self.log.offset
        for _ in range(1_000):
            self.service.pace(50)
            if self.log.offset > offset:
                return
        raise AssertionError("the window was not refreshed")

    def refresh_again(self) -> None:
        """Do another refresh, half an hour later."""
        self.clock.advance(HOUR // 2)
        self.refresh()

    def stale_scopes(self) -> int:
        """Return how many scopes do not show the last refresh yet."""
        return sum(
            part.refreshes < self.board_store.refreshes for part in self.board_store.parts.values()
        )

    def score(self, room: int) -> object:
        page = self.lb.top("b", labels={"room": str(room)})
        return [entry.score for entry in page.entries]

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """In this context, commits write no refresh after their own entries."""
        with patch.object(self.fold.refreshes, "ready", return_value=[]):
            yield

    def build(self) -> None:
        """Do due work until the next refresh is ready to be written, but do not write it."""
        self.fold.advance_clock(self.clock.now_ms())
        assert not self.fold.refreshes.ready(self.clock.now_ms()), "this call begins the refresh"
        while self.service.work(100)[0]:
            pass

    def catch_up(self) -> None:
        """Do shares of due work until none is left."""
        while self.service.pace(100)[0]:
            pass


@pytest.fixture
def rooms() -> Iterator[Rooms]:
    created = Rooms()
    created.refresh()
    yield created
    created.lb.check()
    created.lb.close()


def test_a_refresh_updates_each_scope_only_when_it_is_used(rooms: Rooms) -> None:
    assert rooms.stale_scopes() == ROOMS + 1, "every room, and the ranking of rooms"
    rooms.fold.index.check()
    assert rooms.score(7) == [1]
    assert rooms.stale_scopes() == ROOMS
    assert rooms.lb.top("b", by="room").total == ROOMS
    rooms.catch_up()
    assert rooms.stale_scopes() == 0


@pytest.mark.parametrize(
    "touch",
    [
        lambda rooms: rooms.submit(range(7, 8)),
        lambda rooms: rooms.lb.standing("b", "m7", labels={"room": "7"}),
        lambda rooms: rooms.lb.remove("b", "m8"),
        lambda rooms: rooms.clock.advance(HOUR),
        lambda rooms: rooms.clock.advance(9 * HOUR),
        lambda rooms: rooms.lb.scopes("b", "room"),
        lambda rooms: rooms.lb.change("b", windows=[WINDOW, "all"]),
        lambda rooms: rooms.lb.check(),
        lambda rooms: rooms.lb.rebuild(),
        lambda rooms: rooms.refresh_again(),
    ],
)
def test_the_first_access_to_a_scope_keeps_its_refreshed_scores(
    rooms: Rooms, touch: Callable[[Rooms], object]
) -> None:
    rooms.clock.advance(HOUR // 2)
    rooms.submit(range(ROOMS), 2)
    rooms.refresh()
    assert rooms.stale_scopes() > ROOMS // 2
    touch(rooms)
    rooms.fold.index.check()
    assert [rooms.score(room) for room in (7, 200)] == [[3], [3]]
    rooms.fold.index.check()


def test_scopes_that_a_refresh_empties_are_not_listed(rooms: Rooms) -> None:
    rooms.clock.advance(2 * HOUR)
    rooms.submit(range(3))
    rooms.refresh()
    rooms.clock.advance(2 * HOUR)
    rooms.refresh()
    assert rooms.lb.scopes("b", "room") == [{"room": str(i)} for i in range(3)]
    rooms.catch_up()
    assert rooms.lb.stats("b").scopes == {"room": 3}


def waits(rooms: Rooms) -> bool:
    """Return whether the window will be refreshed again without another event. It will not if the
    last refresh found no members and no event was counted since then."""
    return rooms.fold.boards["b"].refreshed["3h"].waiting


def test_an_empty_refresh_schedules_no_further_refresh(rooms: Rooms) -> None:
    assert waits(rooms)
    rooms.clock.advance(3 * HOUR)
    rooms.refresh()
    assert not waits(rooms)
    assert rooms.lb.scopes("b", "room") == []
    rooms.catch_up()
    assert rooms.board_store.parts.keys() == {""}


def test_a_member_removed_after_the_build_is_not_ranked(rooms: Rooms) -> None:
    rooms.clock.advance(2 * HOUR)
    rooms.submit(range(5, 7), 4)
    rooms.clock.advance(HOUR)
    rooms.build()
    with rooms.unwritten():
        rooms.lb.remove("b", "m5")
    rooms.fold.index.check()
    rooms.refresh()
    assert waits(rooms)
    assert (rooms.score(5), rooms.score(6)) == ([], [4])


def test_removing_all_members_after_the_build_ends_refreshes() -> None:
    rooms = Rooms(rooms_only=True)
    rooms.refresh()
    rooms.clock.advance(HOUR // 2)
    rooms.build()
    with rooms.unwritten():
        for i in range(ROOMS):
            rooms.lb.remove("b", f"m{i}")
    rooms.fold.index.check()
    rooms.refresh()
    assert not waits(rooms)
    rooms.lb.check()


def test_a_member_added_after_the_build_is_ranked(rooms: Rooms) -> None:
    rooms.clock.advance(3 * HOUR)
    rooms.build()
    rooms.submit(range(1_000, 1_001), 5)
    rooms.fold.index.check()
    assert waits(rooms)
    assert rooms.score(1_000) == [5]
    assert rooms.lb.scopes("b", "room") == [{"room": "1000"}]


def test_a_member_added_after_the_build_expires_with_its_step(rooms: Rooms) -> None:
    rooms.clock.advance(3 * HOUR)
    rooms.build()
    with rooms.unwritten():
        rooms.submit(range(1_000, 1_001), 5)
    rooms.clock.advance(9 * HOUR)
    rooms.build()
    rooms.refresh()
    assert not waits(rooms)


def test_a_snapshot_includes_a_refresh_during_the_copy(rooms: Rooms, tmp_path: Path) -> None:
    rooms.catch_up()
    rooms.clock.advance(HOUR // 2)
    rooms.submit(range(ROOMS), 2)
    pauses = 0

    def refreshed_late() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            rooms.refresh()

    taken = take(SnapshotFiles(tmp_path), rooms.fold, rooms.service.reading, refreshed_late)
    assert taken.offset == rooms.log.offset
    loaded = opened(taken.path, MemoryIndex(5))
    assert_same(loaded, rooms.log, loaded.now_ms)


@pytest.mark.parametrize("seed", range(4))
def test_snapshots_during_writes_and_refreshes_match_the_log(tmp_path: Path, seed: int) -> None:
    traffic = Traffic(seed, boards=3)

    left = BUSY

    def go_on() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            return
        traffic.happen(traffic.rng.choice([0, 1, 4]))
        for _ in range(traffic.rng.choice([0, 1, 9])):
            traffic.service.pace(traffic.rng.choice([1, 20, 1_000]))

    for _ in range(40):
        go_on()
    for _ in range(2):
        taken = take(SnapshotFiles(tmp_path), traffic.service._fold, traffic.service.reading, go_on)
        loaded = opened(taken.path, MemoryIndex(5))
        assert_same(loaded, traffic.log, loaded.now_ms)
    traffic.lb.check()
    traffic.lb.close()


def test_check_detects_a_scope_without_the_last_build(rooms: Rooms) -> None:
    rooms.board_store.parts["room=9"].rolling["3h"].restart_build()
    with pytest.raises(CheckFailed, match="to have built the last refresh"):
        rooms.fold.index.check()
    rooms.board_store.parts["room=9"].refreshes = rooms.board_store.refreshes
    rooms.lb.rebuild()
