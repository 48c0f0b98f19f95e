"""All work besides counting is done in shares, even if there is much of it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

import laurels
from laurels.core.lifecycle import rolling_state
from laurels.core.ranking_key import RankingKey
from laurels.model.board import Board
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.remote import Opened
from tests.internals import remote

from .asking import connected
from .conftest import NOW
from .servers import Server

HOUR_MS = 3_600_000
BASE = "laurels:{1.0}:"
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"tie": "member"},
    "prefixed": {},
    "best": {"columns": [laurels.Column(op="best")]},
}
Share = list[str]

pytestmark = pytest.mark.usefixtures("emptied")


class Window:
    """A board with a rolling window. Tests count events of members in its steps, and then delete
    the prepared ranking. From then on, it has only the members that a pass has covered."""

    def __init__(
        self, server: Server, lb: laurels.Leaderboards, steps: int, fields: dict[str, Any]
    ) -> None:
        self.server, self.lb, self.steps = server, lb, steps
        self.run = NOW // HOUR_MS
        window = f"r=rolling:{steps}h/1h,grace={steps - 1}h"
        lb.create(Board("b", windows=[window], dedupe="30d", **fields))

    def count(self, members: range, hours_ago: int, value: int) -> None:
        at_ms = NOW - hours_ago * HOUR_MS
        self.lb.submit_many("b", [(f"m{i}", value, at_ms) for i in members])

    def forget_prepared(self) -> None:
        for kind in "rk":
            self.server.call("DEL", f"{BASE}{kind}:r:{(self.run + 1) % 2}")

    def prepared(self) -> int:
        """Return the number of members in the prepared ranking."""
        return int(self.server.call("ZCARD", f"{BASE}r:r:{(self.run + 1) % 2}"))

    def tally(self, hours_ago: int) -> str:
        return f"{BASE}t:r:{self.run - hours_ago}"

    def shares(self) -> list[int]:
        """Do a whole pass. Return how many members each of its calls has covered."""
        counts = []
        left = 1
        while left:
            before = self.prepared()
            left = self.share()
            counts.append(self.prepared() - before)
        return counts

    def share(self) -> int:
        """Do one call of due work. Return how much is left."""
        return int(remote(self.lb).work(1)[0])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Limit each call of due work to few members. Return this limit."""
    monkeypatch.setattr(RedisIndex, "share", 20)
    return 20


def test_a_member_with_many_candidates_takes_more_of_a_share(
    server: Server, clock: laurels.ManualClock, few: int
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 300, LAYOUTS["best"])
        for hours_ago in range(299, -1, -1):
            window.count(range(24), hours_ago, 1_000 + hours_ago)
        assert server.call("HSTRLEN", f"{BASE}c:r", "m0") == 300 * 24
        window.forget_prepared()
        shares = window.shares()
        assert sum(shares) == 24
        assert max(shares) <= few // (300 * 24 // 2048)
        clock.advance(HOUR_MS)
        assert {entry.score for entry in lb.top("b").entries} == {1_298}
        lb.check()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pass_over_a_small_hash_takes_several_calls(
    server: Server, clock: laurels.ManualClock, few: int, layout: str
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 3, LAYOUTS[layout])
        window.count(range(60), 2, 5)
        window.count(range(60), 0, 3)
        assert server.call("OBJECT", "ENCODING", window.tally(2)) in (b"listpack", b"ziplist")
        window.forget_prepared()
        shares = window.shares()
        assert sum(shares) == 60
        assert max(shares) <= few
        clock.advance(HOUR_MS)
        assert {entry.score for entry in lb.top("b", limit=60).entries} == {3}
        lb.check()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.usefixtures("few")
def test_a_pass_over_a_hash_that_becomes_a_table_is_complete(
    server: Server, clock: laurels.ManualClock, layout: str, calls: int
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 3, LAYOUTS[layout])
        window.count(range(60), 2, 5)
        window.count(range(60), 0, 3)
        window.forget_prepared()
        for _ in range(calls):
            assert window.share()
        window.count(range(60, 560), 2, 5)
        window.count(range(60, 560), 0, 3)
        assert server.call("OBJECT", "ENCODING", window.tally(2)) == b"hashtable"
        assert window.prepared() < 560
        window.shares()
        assert window.prepared() == 560
        clock.advance(HOUR_MS)
        assert {entry.score for entry in lb.top("b", limit=560).entries} == {3}
        lb.check()


def test_a_pass_removes_the_tally_that_has_left(
    server: Server, clock: laurels.ManualClock, few: int
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 3, LAYOUTS["plain"])
        window.count(range(1_000), 2, 5)
        window.count(range(500), 0, 3)
        remote(lb).work(10_000)
        clock.advance(HOUR_MS)
        assert lb.top("b", limit=1_000).total == 500
        lengths = [server.call("HLEN", window.tally(2))]
        while window.share():
            lengths.append(server.call("HLEN", window.tally(2)))
        assert max(a - b for a, b in pairwise(lengths)) <= 4 * few
        assert server.call("HLEN", window.tally(2)) <= 512
        lb.check()
        clock.advance(HOUR_MS)
        assert lb.top("b").total == 500
        assert server.call("EXISTS", window.tally(2)) == 0


def test_a_window_without_members_is_removed_in_shares(server: Server) -> None:
    async def play() -> None:
        rules = Board("b", windows=["r=rolling:1000h/1h"], tie="member").rules()
        opened = Opened(1, 1, rules)
        async with connected(server.url) as connection:
            redis = RedisIndex(connection, "laurels:")
            await redis.open(opened)
            run = NOW // HOUR_MS
            server.call("HSET", f"{BASE}m", "run:r", run)
            for step in range(run - 1_000, run + 1):
                server.call("HSET", f"{BASE}t:r:{step}", "ann", 1)
            server.call("ZADD", f"{BASE}r:r:{run % 2}", 1_000, "ann")
            late, early = (
                rolling_state(1, rules.windows["r"], NOW + hours * HOUR_MS) for hours in (5_000, 1)
            )
            assert late
            assert early
            there, lengths = 1_001, []
            while not await redis.rotate_step(opened, late, NOW + 5_000 * HOUR_MS, 1):
                left = len(server.call("KEYS", f"{BASE}t:*"))
                lengths.append(there - left)
                there = left
                # a process that comes late finds no work, and does not disturb the others
                key = RankingKey(1, "r", run)
                assert await redis.audit(opened, key, repair=True) == 0
                await redis.rotate_step(opened, early, NOW + HOUR_MS, 100)
            assert lengths
            assert max(lengths) <= 201
            assert await redis.keys(opened) == []
            assert server.call("KEYS", "*") == [f"{BASE}m".encode()]

    asyncio.run(play())


def test_many_periods_are_removed_in_shares(server: Server, clock: laurels.ManualClock) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(
            Board("b", windows=["hour:keep=300,grace=299h", "r=rolling:1000h/1h"], dedupe="30d")
        )
        ats = [NOW - i * HOUR_MS for i in range(299)]
        lb.submit_many("b", [("ann", 1, at_ms) for at_ms in ats])
        assert lb.check().rankings == 300
        clock.advance(150 * HOUR_MS)
        remote(lb).work(1)
        assert server.call("SCARD", f"{BASE}i") == 150
        clock.advance(10_000 * HOUR_MS)
        remote(lb).work(1)
        assert server.call("EXISTS", f"{BASE}i") == 0
        lb.submit_many("b", [("ann", 1, clock.now_ms() - i * HOUR_MS) for i in range(299)])
        lb.delete("b")
        left = [key for key in server.call("KEYS", f"{BASE}*") if b":a:" not in key]
        assert left == [], "only stored answers are left, and they expire"


@pytest.mark.parametrize("layout", ["plain", "prefixed"])
def test_rankings_that_lost_many_members_are_restored(
    server: Server, clock: laurels.ManualClock, layout: str
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 100, LAYOUTS[layout])
        window.count(range(200), 50, 5)
        window.count(range(200), 0, 3)
        before = lb.top("b", limit=200).entries
        for kind in "rk":
            server.call("DEL", f"{BASE}{kind}:r:{window.run % 2}")
        with pytest.raises(laurels.errors.CheckFailed):
            lb.check()
        lb.rebuild()
        lb.check()
        assert lb.top("b", limit=200).entries == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tally_becomes_a_table_earlier_than_by_default(
    server: Server, clock: laurels.ManualClock, layout: str
) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        window = Window(server, lb, 3, LAYOUTS[layout])
        window.count(range(64), 0, 5)
        assert server.call("OBJECT", "ENCODING", window.tally(0)) in (b"listpack", b"ziplist")
        window.count(range(60, 64), 0, 1)
        assert server.call("OBJECT", "ENCODING", window.tally(0)) in (b"listpack", b"ziplist")
        window.count(range(64, 65), 0, 1)
        assert server.call("OBJECT", "ENCODING", window.tally(0)) == b"hashtable"
        assert server.call("HLEN", window.tally(0)) == 65
        lb.check()
