"""Work that is due because time has passed is done in shares, before its result is needed, and
without disturbing commits."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.internals import local

import laurels
from laurels.api.leaderboards import Leaderboards
from laurels.errors import NotReady
from laurels.stores.intake.pacing import IDLE_S, MAX_PAUSE_S, pause_s
from laurels.stores.intake.shares import SHARE
from laurels.stores.local.index.memory import MemoryIndex
from laurels.stores.local.log.memory import MemoryLog
from laurels.stores.local.store import Service

NOON = 1_795_176_000_000  # 2026-11-20T12:00Z
HOUR = 3_600_000
TIMEOUT = 60
MEMBERS = [f"m{i:04}" for i in range(3_000)]


class HeldLog(MemoryLog):
    """A log whose appends block until the test releases them, if `slow` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.entered = threading.Event()
        self.released = threading.Event()

    def append(self, body: bytes) -> int:
        if self.slow:
            self.entered.set()
            assert self.released.wait(TIMEOUT)
        return super().append(body)


def store(log: MemoryLog, clock: laurels.ManualClock) -> Leaderboards:
    return Leaderboards(Service(log, lambda: MemoryIndex(1), clock))


def filled(lb: Leaderboards) -> None:
    """Fill a board with members whose events are all in one step. Two hours later, this is the
    oldest step of the window."""
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h", "all"]))
    lb.submit_many("b", [(member, 5) for member in MEMBERS])


def test_a_read_during_a_commit_shows_the_time_of_that_commit() -> None:
    log, clock = HeldLog(), laurels.ManualClock(NOON)
    lb = store(log, clock)
    lb.create(laurels.Board("b", windows=["r=rolling:3h/1h", "hour"]))
    lb.submit("b", "ann", 1)
    log.slow = True
    receipts: list[laurels.Receipt] = []
    writer = threading.Thread(target=lambda: receipts.append(lb.submit("b", "ann", 2)))
    writer.start()
    assert log.entered.wait(TIMEOUT)
    clock.advance(3 * HOUR)
    page = lb.top("b")
    assert (page.as_of.period, [e.score for e in page.entries]) == ("2026-11-20T12:00Z", [1])
    log.released.set()
    writer.join(TIMEOUT)
    assert (receipts[0].period, receipts[0].score) == ("2026-11-20T12:00Z", 3)
    assert lb.top("b").as_of.period == "2026-11-20T15:00Z"
    assert lb.top("b").entries == []
    assert lb.check().offset == 3
    lb.close()


def test_a_large_pass_is_done_in_shares_by_readers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laurels.stores.local.queries.SHARE", 100)
    monkeypatch.setattr("laurels.stores.local.committing.SHARE", 100)
    monkeypatch.setattr("laurels.stores.local.queries.MAX_MEMBERS", 300)
    monkeypatch.setattr("laurels.stores.local.store.MIN_SHARE", -(10**6))
    clock = laurels.ManualClock(NOON)
    lb = store(MemoryLog(), clock)
    filled(lb)
    clock.advance(2 * HOUR)
    lb.submit("b", "late", 1)
    clock.advance(HOUR)
    refused = 0
    while refused < len(MEMBERS):
        try:
            page = lb.top("b", limit=100)
            break
        except NotReady:
            refused += 1
    assert refused > 1
    assert [entry.member for entry in page.entries] == ["late"]
    lb.close()


def test_commits_prepare_the_next_step_and_drop_ended_periods() -> None:
    clock = laurels.ManualClock(NOON)
    lb = store(MemoryLog(), clock)
    filled(lb)
    lb.create(laurels.Board("idle", windows=["hour:keep=1"]))
    lb.create(laurels.Board("other"))
    lb.submit("idle", "ann", 1)
    index = local(lb)._fold.index
    clock.advance(2 * HOUR)
    lb.top("b")
    assert index.pass_left(1, "r") > 0
    assert index.keys(2)
    for _ in range(20):
        lb.submit("other", "x", 1)
    settled(lambda: index.pass_left(1, "r") == 0)
    assert not index.keys(2)
    lb.close()


def settled(condition: Callable[[], bool]) -> None:
    """Wait until the commit thread has fulfilled the condition. The thread continues its work after
    it has answered a caller."""
    turn = threading.Event()
    for _ in range(TIMEOUT * 1_000):
        if condition():
            return
        turn.wait(0.001)
    pytest.fail("the commit thread did not do its share of the due work")


def test_a_task_of_the_loop_prepares_the_next_step() -> None:
    clock = laurels.ManualClock(NOON)

    async def main() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            filled(lb.sync)
            clock.advance(2 * HOUR)
            await lb.top("b")
            index = local(lb)._fold.index
            for _ in range(TIMEOUT * 200):
                if not index.pass_left(1, "r"):
                    return
                await asyncio.sleep(0.005)
            pytest.fail("the next step was not prepared")

    asyncio.run(main())


def test_upkeep_takes_about_half_of_the_time() -> None:
    assert pause_s(0, 10) == IDLE_S
    assert pause_s(10, 10**9) == MAX_PAUSE_S
    shares = 2_000
    pause = pause_s(shares * SHARE, 60_000)
    assert 0.9 < pause * shares / 30 <= 1
    assert pause_s(10, 0) == 0
