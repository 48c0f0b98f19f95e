"""When the store of one process closes and seals periods: with a write, by its own work, after a
restart, and after changes of the clock."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.internals import local

import laurels
from laurels.core.changes.answers import Change
from laurels.errors import StorageFailed
from laurels.stores.intake.member_writes import removal
from laurels.stores.intake.tickets import Ticket
from laurels.stores.local.archive.segment import PeriodKey
from laurels.stores.local.log.folder import Folder
from laurels.stores.local.log.sqlite import SqliteLog
from laurels.stores.local.recovery.rewind import rewind
from laurels.stores.local.sealing_thread import SealingThread
from laurels.timeline.clock_guard import ClockGuard, GuardedClock

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
FIRST = "2026-11-20T15+00:00"
BOARD = laurels.Board("b", windows=["all", "hour:archive=forever,keep=1"], changes="30d")


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


@pytest.fixture
def lb(tmp_path: Path, clock: laurels.ManualClock) -> Iterator[laurels.Leaderboards]:
    """Return leaderboards in a folder, in which periods are sealed only by the verb."""
    with patch.object(SealingThread, "start"):
        lb = laurels.open(tmp_path / "boards", clock=clock)
        lb.create(BOARD)
        yield lb
        lb.close()


def recorded(lb: laurels.Leaderboards, *kinds: str) -> list[Change]:
    return [each for each in lb.changes("b", limit=10_000) if each.kind in kinds]


def state(lb: laurels.Leaderboards, label: str = FIRST) -> str:
    (period,) = [each for each in lb.periods("b", window="hour") if each.label == label]
    return period.state


def test_a_service_closes_periods_without_a_write(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    assert recorded(lb, "close") == []
    while local(lb).pace(10_000)[0]:
        pass
    assert [each.data["period"] for each in recorded(lb, "close")] == [FIRST]


def test_a_sealing_thread_seals_what_is_closed(tmp_path: Path, clock: laurels.ManualClock) -> None:
    with laurels.open(tmp_path / "boards", clock=clock) as lb:
        lb.create(BOARD)
        lb.submit("b", "ann", 1)
        clock.set(NOW_MS + HOUR)
        lb.submit("b", "ben", 1)
        lb.submit("b", "cat", 1)  # begins when the commit before it has started the thread
    with laurels.open(tmp_path / "boards", clock=clock) as lb:
        assert len(recorded(lb, "seal")) == 1


def reopened(lb: laurels.Leaderboards, tmp_path: Path, clock: Any) -> laurels.Leaderboards:
    lb.close()
    return laurels.open(tmp_path / "boards", clock=clock)


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_restart_neither_loses_nor_repeats_a_close(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, tmp_path: Path, snapshots: bool
) -> None:
    def restart(lb: laurels.Leaderboards) -> laurels.Leaderboards:
        if snapshots:
            lb.snapshot()
        return reopened(lb, tmp_path, clock)

    lb.submit_many("b", [("ann", 1), ("ben", 2)])
    lb = restart(lb)
    clock.set(NOW_MS + HOUR)
    lb.remove("b", "ann")  # this closes the period, but does not seal it
    assert state(lb) == "closed"
    lb = restart(lb)
    clock.set(NOW_MS + 5 * HOUR)
    assert state(lb) == "closed"
    assert lb.top("b", window="hour", period=FIRST).total == 2
    lb.remove("b", "ben")
    lb.check()
    assert lb.seal() == laurels.Sealed(0, 1)
    lb = restart(lb)
    assert lb.seal() == laurels.Sealed(0, 0)
    lb.check()
    (sealed,) = recorded(lb, "seal")
    assert sealed.data["entries"] == 2
    archived = local(lb).archive.open(
        PeriodKey(local(lb).named("b").uid, "hour", NOW_MS - HOUR // 2)
    )
    assert archived is not None
    assert archived.computed_digest().hex() == sealed.data["digest"]
    lb.close()


def test_a_failed_write_of_the_archive_leaves_the_period_closed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    with (
        patch.object(local(lb).archive, "write", side_effect=StorageFailed("full")),
        pytest.raises(StorageFailed),
    ):
        lb.seal()
    clock.set(NOW_MS + 9 * HOUR)
    assert state(lb) == "closed"
    assert lb.seal() == laurels.Sealed(0, 1)


def test_a_period_is_sealed_again_if_the_process_ends_before_the_record(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    seen: list[Sequence[object]] = []

    def fail(drafts: Sequence[object], _pause: Callable[[], None]) -> None:
        seen.append(drafts)
        if len(seen) == 1:
            raise StorageFailed("killed")

    local(lb).before_seal.append(fail)
    with pytest.raises(StorageFailed):
        lb.seal()
    assert lb.seal() == laurels.Sealed(0, 1)
    assert len(seen) == 2
    assert len(recorded(lb, "seal")) == 1


def test_a_leap_of_the_clock_that_is_not_followed_closes_nothing(tmp_path: Path) -> None:
    wall = boot = NOW_MS * 1_000_000

    guarded = GuardedClock(lambda: wall, lambda: boot, ClockGuard())
    with laurels.open(tmp_path / "boards", clock=guarded) as lb:
        lb.create(BOARD)
        lb.submit("b", "ann", 1)
        wall, boot = wall + DAY * 1_000_000, boot + MINUTE * 1_000_000
        lb.submit("b", "ben", 1)
        assert state(lb) == "open"
        assert lb.seal() == laurels.Sealed(0, 0)
        lb.accept_clock()
        lb.submit("b", "cid", 1)
        lb.seal()
        assert [each.data["entries"] for each in recorded(lb, "seal")] == [2]


def test_a_rewound_folder_closes_no_period_early(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, tmp_path: Path
) -> None:
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    lb.submit("b", "ben", 1)
    clock.set(NOW_MS + DAY)
    lb.submit("b", "cid", 1)
    lb.seal()
    assert len(recorded(lb, "close")) == 2
    lb.close()
    folder = Folder(tmp_path / "boards", create=False)
    log = SqliteLog(folder.log_path)
    rewind(folder.path, log, NOW_MS + HOUR, dry_run=False)
    log.close()
    folder.close()
    back = laurels.ManualClock(NOW_MS + HOUR)
    with laurels.open(tmp_path / "boards", clock=back) as lb:
        lb.check()
        second = "2026-11-20T16+00:00"
        assert state(lb, second) == "open"
        assert lb.top("b", window="hour", period=second).total == 2
        back.set(NOW_MS + 3 * HOUR)
        lb.seal()
        lb.check()
        closes = [each.data["period"] for each in recorded(lb, "close")]
        assert closes == [FIRST, second]


def test_event_time_closes_by_the_time_of_the_board(tmp_path: Path) -> None:
    with laurels.open(tmp_path / "boards", clock="event") as lb:
        lb.create(BOARD)
        lb.create(laurels.Board("other", windows=["hour:archive=forever"]))
        lb.submit("other", "x", 1, at=NOW_MS + DAY)
        events = [(f"m{i}", 1, NOW_MS + i * HOUR) for i in range(11)]
        lb.submit_many("b", events)
        lb.submit("b", "late", 1, at=NOW_MS + 9 * HOUR + 3 * MINUTE)
        lb.remove("b", "m3")
        lb.seal()
        closes = [each.data["period"] for each in recorded(lb, "close")]
        hours = [f"2026-11-20T{hour}+00:00" for hour in range(15, 24)]
        assert closes == [*hours, "2026-11-21T00+00:00"]
        seals = recorded(lb, "seal")
        assert [each.data["entries"] for each in seals] == [1] * 10
        assert all(each.at_ms == NOW_MS + 10 * HOUR for each in seals)
        lb.check()
        lb.rebuild()
        assert lb.seal() == laurels.Sealed(0, 0)


def test_a_removal_in_event_time_does_not_touch_a_period_that_the_same_commit_ended(
    tmp_path: Path,
) -> None:
    with (
        patch.object(SealingThread, "start"),
        laurels.open(tmp_path / "boards", clock="event") as lb,
    ):
        lb.create(BOARD)
        lb.submit("b", "ann", 1, at=NOW_MS)
        store = local(lb)
        later = store.submission("b", [("ben", 1, NOW_MS + 2 * HOUR)], None)
        tickets = [Ticket(later), Ticket(removal(store.named("b"), b"ann"))]
        store._commit(tickets)
        assert lb.top("b", window="hour", period=FIRST).total == 1
        assert lb.rank("b", "ann") is None
        lb.rebuild()
        assert lb.top("b", window="hour", period=FIRST).total == 1
        lb.seal()
        kinds = [each.kind for each in lb.changes("b", limit=100)]
        assert kinds == ["create", "event", "event", "close", "remove", "seal"]


def test_boards_are_closed_in_shares(clock: laurels.ManualClock) -> None:
    with (
        patch.object(SealingThread, "start"),
        patch("laurels.stores.local.committing.CLOSED_BOARDS", 3),
        patch("laurels.stores.local.committing.CLOSINGS", 2),
        laurels.open("memory:", clock=clock) as lb,
    ):
        for i in range(10):
            lb.create(laurels.Board(f"b{i}", windows=["hour:archive=forever"]))
            lb.submit(f"b{i}", "ann", 1)
        clock.set(NOW_MS + HOUR)
        store = local(lb)
        store.paced = True
        unsealed = store._fold.closings.unsealed
        shares = []
        while store.pace(10_000)[0]:
            shares.append(len(unsealed))
        assert shares == [6, 10]
        assert lb.seal() == laurels.Sealed(0, 10)


def test_periods_are_closed_and_sealed_in_the_commit_of_another_write(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    """A commit of its own would let that write wait for another sync of the disk."""
    store = local(lb)
    store.paced = True
    lb.create(laurels.Board("other"))
    lb.submit("b", "ann", 1)
    clock.set(NOW_MS + HOUR)
    entries = store._fold.offset

    def write_while(work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        while not store._committer._inbox.waiting:
            pass
        lb.submit("other", "ann", 1)
        thread.join()

    with (
        patch("laurels.stores.intake.commit.COMPANY_SECONDS", 3_600.0),
        patch("laurels.stores.local.committing.CLOSINGS", 1),
    ):
        write_while(partial(store.pace, 10_000))
        assert state(lb) == "closed"
        write_while(partial(store._seal_all, background=True))
    assert store._fold.offset == entries + 2
    assert [each.kind for each in recorded(lb, "close", "seal")] == ["close", "seal"]


def test_the_sealing_thread_rests_between_pieces_of_its_work() -> None:
    """Each reading of the clock takes 0.3 ms here, so 0.5 ms have passed at every second piece."""
    rests: list[float] = []
    seconds = count(0, 0.0003)
    sealing = SealingThread(lambda: next(seconds), lambda: rests.append(1))

    def seal(pause: Callable[[], None]) -> None:
        for _ in range(40):
            pause()

    sealing.start(seal)
    sealing.wait()
    assert len(rests) == 20


def test_sealed_periods_are_nothing_for_the_garbage_collector(clock: laurels.ManualClock) -> None:
    """Otherwise the garbage collector would stop all threads for long when many boards close at one
    midnight."""
    boards = 200
    with (
        patch.object(SealingThread, "start"),
        laurels.open("memory:", clock=clock) as lb,
    ):
        for i in range(boards):
            lb.create(laurels.Board(f"b{i}", windows=["hour:archive=forever"]))
            lb.submit(f"b{i}", "ann", 1)
        gc.collect()
        before = len(gc.get_objects())
        clock.set(NOW_MS + HOUR)
        assert lb.seal() == laurels.Sealed(boards, boards)
        gc.collect()
        assert len(gc.get_objects()) - before < 2 * boards
