"""Several processes compute one refresh together, in shares, while other processes write."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import laurels
from laurels.core.lifecycle import RefreshState, next_boundary
from laurels.model.board import Board
from laurels.stores.redis import catalog
from laurels.stores.redis.index import upkeep
from laurels.stores.redis.refreshing import Refreshing
from laurels.stores.redis.remote import opened_as
from laurels.timeline.instants import MAX_MS
from tests.conftest import Scaled
from tests.internals import remote

from .servers import Server

HOUR = 3_600_000
MINUTE = 60_000
BASE = "laurels:{1.0}:"
Column = laurels.Column
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"tie": "member"},
    "packed": {"columns": [Column(min=-2000, max=2000)], "tie_resolution": "1h"},
    "prefixed": {},
    "dense": {"rank": "dense", "tie": "member"},
    "best": {"columns": [Column(op="best")], "tie": "first"},
    "last": {"columns": [Column("a", op="last"), Column("b")]},
}
MEMBERS = 120

pytestmark = pytest.mark.usefixtures("emptied")


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prevent writes from refreshing windows, and limit each share of work to a few members."""
    monkeypatch.setattr(upkeep, "_CELLS", 80)
    monkeypatch.setattr(catalog, "MAX_DUE", 0)


@pytest.fixture
def processes(
    server: Server, clock: laurels.ManualClock
) -> Iterator[tuple[laurels.Leaderboards, laurels.Leaderboards]]:
    """Open the stores of two processes with the same boards."""
    with laurels.open(server.url, clock=clock) as one, laurels.open(server.url, clock=clock) as two:
        yield one, two


Processes = tuple[laurels.Leaderboards, laurels.Leaderboards]


def board(**fields: Any) -> Board:
    defaults: dict[str, Any] = {
        "windows": ["r=rolling:5h/1h,refresh=1h,grace=4h", "live=rolling:5h/1h,grace=4h"],
        "dedupe": "4h",
    }
    return Board("b", **{**defaults, **fields})


def share(lb: laurels.Leaderboards) -> int:
    """Do one share of the window's refresh. Return how much is left."""
    service: Any = lb._store
    state = service.named("b")
    now_ms = service._catalog.now()

    async def refresh() -> int:
        left, _ = await service._catalog.index.refresh(
            opened_as(state), "r", now_ms=now_ms, due_ms=next_boundary(state.rules, now_ms)
        )
        return int(left)

    return int(service.run(refresh()))


def write(
    lb: laurels.Leaderboards, random: Random, clock: laurels.ManualClock, *, size: int = 1
) -> None:
    """Write events of known and of new members, in all steps that still take events."""
    columns = lb.get("b").columns
    events = []
    for _ in range(size):
        value: Any = tuple(random.randint(-3, 9) for _ in columns)
        at_ms = clock.now_ms() - random.choice([0, 0, 0, 1, 2, 3]) * HOUR
        member = f"m{random.randrange(MEMBERS + 30)}"
        events.append((member, value if len(columns) > 1 else value[0], at_ms))
    lb.submit_many("b", events)


def fill(lb: laurels.Leaderboards, random: Random, clock: laurels.ManualClock) -> None:
    for _ in range(5):
        write(lb, random, clock, size=80)
        clock.advance(HOUR)
    write(lb, random, clock, size=80)


def refreshed(lb: laurels.Leaderboards) -> int:
    """Refresh the window. Return how many shares that took."""
    for count in range(1, 5_000):
        if not share(lb):
            return count
    raise AssertionError("the refresh does not end")


def ensure_as_live(lb: laurels.Leaderboards, **where: Any) -> None:
    """Assert that the refreshed window shows the same entries as the live window."""
    refreshed, live = (lb.top("b", window=w, limit=1_000, **where) for w in ("r", "live"))
    assert refreshed.entries == live.entries
    assert refreshed.total == live.total


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("by_hand")
def test_two_processes_share_a_build_while_both_write(
    processes: Processes, clock: laurels.ManualClock, layout: str, scaled: Scaled
) -> None:
    random = Random(layout)
    processes[0].create(board(**LAYOUTS[layout]))
    fill(processes[0], random, clock)
    for _ in range(scaled(1, 6)):
        before = processes[0].top("b").as_of
        shares = 0
        while share(random.choice(processes)):
            shares += 1
            assert processes[0].top("b").as_of == before
            write(random.choice(processes), random, clock, size=random.choice([1, 1, 30]))
            if shares % 8 == 0:
                processes[1].check()
        assert shares > 10
        for lb in processes:
            ensure_as_live(lb)
            assert lb.top("b").as_of.offset == lb.top("b", window="live").as_of.offset
        assert processes[0].top("b").as_of == processes[1].top("b").as_of != before
        processes[0].check()
        clock.advance(HOUR)
        write(processes[0], random, clock, size=40)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("by_hand")
def test_another_process_continues_the_build_of_one_that_died(
    server: Server, clock: laurels.ManualClock, layout: str
) -> None:
    random = Random(layout)
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(board(**LAYOUTS[layout]))
        fill(lb, random, clock)
        whole = refreshed(lb)
        clock.advance(HOUR)
        write(lb, random, clock)
        for _ in range(whole // 2):
            assert share(lb)
    built = int(server.call("ZCARD", f"{BASE}r:r:0"))
    assert built > 20
    with laurels.open(server.url, clock=clock) as lb:
        assert share(lb)
        assert int(server.call("ZCARD", f"{BASE}r:r:0")) >= built
        assert refreshed(lb) < whole
        ensure_as_live(lb)
        lb.check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("by_hand")
def test_the_end_of_a_step_restarts_a_build(
    processes: Processes, clock: laurels.ManualClock, layout: str
) -> None:
    random = Random(layout)
    one, two = processes
    one.create(board(**LAYOUTS[layout]))
    fill(one, random, clock)
    for _ in range(15):
        assert share(one)
        write(two, random, clock)
    clock.advance(HOUR)
    write(two, random, clock, size=5)
    assert refreshed(two) > 10
    ensure_as_live(one)
    clock.advance(9 * HOUR)
    assert one.top("b").total > 100
    write(one, random, clock)
    refreshed(two)
    ensure_as_live(one)
    one.check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.usefixtures("by_hand")
def test_a_member_removed_during_a_build_is_in_neither_ranking(
    processes: Processes, clock: laurels.ManualClock, layout: str
) -> None:
    random = Random(layout)
    one, two = processes
    one.create(board(**LAYOUTS[layout]))
    fill(one, random, clock)
    refreshed(one)
    clock.advance(HOUR)
    write(one, random, clock)
    gone = [f"m{i}" for i in range(0, MEMBERS, 3)]
    for member in gone:
        share(two)
        before = one.top("b").as_of
        if one.remove("b", member):
            assert one.top("b").as_of != before
        assert one.standing("b", member, window="r") is None
    one.check()
    refreshed(two)
    ensure_as_live(one)
    assert not {entry.member for entry in one.top("b", limit=1_000).entries} & {*gone}


@pytest.mark.parametrize("layout", ["plain", "prefixed", "best", "dense"])
@pytest.mark.usefixtures("by_hand")
def test_all_scopes_are_shown_at_once(
    processes: Processes, clock: laurels.ManualClock, layout: str, scaled: Scaled
) -> None:
    random = Random(layout)
    one, two = processes
    one.create(board(**LAYOUTS[layout], scopes=[[], ["room"]], rank_by=["room"]))
    rooms = 8

    def scoped(lb: laurels.Leaderboards) -> None:
        room = {"room": f"r{random.randrange(rooms)}"}
        ago_ms = random.choice([0, 0, 2]) * HOUR
        event = laurels.Event(
            f"m{random.randrange(40)}", random.randint(0, 9), clock.now_ms() - ago_ms, labels=room
        )
        lb.submit_many("b", [event])

    for _ in range(60):
        scoped(one)
    for round_ in range(scaled(2, 8)):
        before = one.top("b").as_of
        while share(random.choice(processes)):
            rooms += random.random() < 0.1
            scoped(random.choice(processes))
            for room in ("r3", f"r{rooms - 1}"):
                result = two.top("b", limit=100, labels={"room": room})
                assert result.as_of.offset == before.offset
            if random.random() < 0.1:
                one.check()
        for number in range(rooms):
            ensure_as_live(two, labels={"room": f"r{number}"})
        ensure_as_live(one)
        ensure_as_live(two, by="room")
        one.check()
        clock.advance([HOUR, 9 * HOUR, 2 * HOUR][round_ % 3])
        if round_ != 1:
            scoped(one)
    expected = {tuple(each.items()) for each in two.scopes("b", "room")}
    assert {tuple(each.items()) for each in one.scopes("b", "room")} == expected


@pytest.mark.usefixtures("by_hand")
def test_scopes_that_a_refresh_empties_are_not_listed(
    processes: Processes, clock: laurels.ManualClock
) -> None:
    one, two = processes
    one.create(board(windows=["r=rolling:2h/1h,refresh=1h"], scopes=[[], ["room"]]))
    one.submit_many("b", [laurels.Event("ann", 1, labels={"room": "x"})])
    refreshed(one)
    clock.advance(5 * HOUR)
    assert two.top("b", labels={"room": "x"}).total == 1
    assert two.scopes("b", "room") == [{"room": "x"}]
    one.submit_many("b", [laurels.Event("bob", 1, labels={"room": "y"})])
    refreshed(two)
    assert one.scopes("b", "room") == [{"room": "y"}]
    assert one.top("b", labels={"room": "x"}).total == 0
    one.check()


def test_a_late_answer_about_a_lost_board_does_not_change_the_new_one(
    server: Server, processes: Processes, clock: laurels.ManualClock
) -> None:
    """The server is emptied, as by a failover to an empty replica, so the next board gets the same
    number. Then the answer to a call for the lost board arrives."""
    one, two = processes
    one.create(board())
    one.submit_many("b", [(f"m{i}", i) for i in range(9)])
    names = remote(one)._catalog
    lost = names.boards.named("b")
    late = {0: {"r": RefreshState(9, clock.now_ms(), since_ms=clock.now_ms(), seen=9)}}
    server.call("FLUSHALL")
    assert one.boards() == two.boards() == []
    names.note_refresh_states(lost, late)
    assert names.registry.refreshing.next_ms() == MAX_MS
    two.create(board())
    two.submit("b", "ann", 1)
    assert one.top("b", window="live").total == 1
    assert names.boards.named("b").number == lost.number
    names.note_refresh_states(lost, late)
    refreshed(two)
    ensure_as_live(one)


@pytest.mark.parametrize("layout", ["plain", "prefixed", "dense"])
def test_the_previous_ranking_is_removed_in_shares(
    server: Server, clock: laurels.ManualClock, layout: str
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(board(**LAYOUTS[layout]))
        lb.submit_many("b", [(f"m{i}", i % 90) for i in range(3_000)])
        for i in range(3):
            while share(lb):
                pass
            assert lb.top("b").total == 3_000 + i
            clock.advance(HOUR)
            lb.submit("b", f"n{i}", 5)
        while share(lb):
            pass
        ensure_as_live(lb)
        lb.check()
        sizes = [int(server.call("ZCARD", f"{BASE}r:r:{side}")) for side in (0, 1)]
        assert sorted(sizes) == [3_002, 3_003]


def test_a_process_does_the_refresh_that_a_closed_process_left_undone(
    server: Server, clock: laurels.ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with laurels.open(server.url, clock=clock) as other:
        other.create(board())
        other.create(Board("other"))
        other.submit("other", "x", 1)
        with monkeypatch.context() as patched, laurels.open(server.url, clock=clock) as lb:
            patched.setattr(Refreshing, "due", lambda *_: [])
            lb.submit("b", "ann", 5)
        assert other.top("b").total == 0
        clock.advance(HOUR)
        other.submit("other", "x", 1)
        assert other.top("b").total == 1


@pytest.mark.usefixtures("by_hand")
def test_a_damaged_build_is_found_and_repaired(server: Server, clock: laurels.ManualClock) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(board(windows=["r=rolling:5h/1h,refresh=1h"], tie="member"))
        lb.submit_many("b", [(f"m{i}", i) for i in range(MEMBERS)])
        while int(server.call("ZCARD", f"{BASE}r:r:1")) < MEMBERS // 2:
            assert share(lb)
        [member] = server.call("ZRANGE", f"{BASE}r:r:1", 3, 3)
        server.call("ZADD", f"{BASE}r:r:1", 12345, member)
        with pytest.raises(laurels.LaurelsError, match="differs"):
            lb.check()
        lb.rebuild()
        lb.check()
        refreshed(lb)
        assert lb.top("b", limit=1_000).total == MEMBERS
        assert lb.top("b").entries[0].score == MEMBERS - 1


def test_a_total_of_several_steps_may_leave_the_range_of_its_column(
    server: Server, clock: laurels.ManualClock
) -> None:
    column = Column(min=0, max=5)
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(board(windows=["r=rolling:5h/1h,refresh=1h"], columns=[column]))
        for _ in range(4):
            lb.submit_many("b", [("ann", 5), ("bob", 1)])
            clock.advance(HOUR)
        lb.submit("b", "eve", 0)
        result = [(entry.member, entry.score) for entry in lb.top("b").entries]
        assert result == [("ann", 20), ("bob", 4), ("eve", 0)]
        lb.create(Board("packed", columns=[column]))
        lb.submit("packed", "ann", 5)
        with pytest.raises(laurels.LaurelsError, match="create another board"):
            lb.change("packed", windows=["all", "r=rolling:5h/1h,refresh=1h"])
        assert lb.top("packed").entries[0].score == 5
