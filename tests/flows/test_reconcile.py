"""A ledger is compared with its store, and differences are mended, while writes continue."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.cli import main
from laurels.errors.ledger import LedgerIncomplete, NoLedger
from laurels.errors.sinks import SinkBehind
from laurels.flows.ledger.locked import LockedRows
from laurels.flows.ledger.reconcile import Side
from laurels.sql.databases import dialect_of
from laurels.sql.texts import escape
from tests.conftest import Scaled
from tests.redis.servers import Server
from tests.serving import Served

from .reconciling import (
    corrupt_data,
    corrupt_ledger,
    corrupt_member,
    corrupt_rows,
    reconciled,
    run_in,
)
from .sinking import NOW_MS, ledger, sent
from .test_ledger import ODD_MEMBERS, board, prefix_of


class Beside:
    """The verbs of a store. `act` is called before and after each verb. Two calls of `act` never
    overlap."""

    def __init__(self, lb: laurels.AsyncLeaderboards, act: Callable[[], Awaitable[None]]) -> None:
        self._lb = lb
        self._act = act
        self._turn = asyncio.Lock()

    async def _take_turn(self) -> None:
        async with self._turn:
            await self._act()

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._lb, name)

        async def call(*args: Any, **more: Any) -> Any:
            await self._take_turn()
            result = await verb(*args, **more)
            await self._take_turn()
            return result

        return call


class History:
    """Writes to a board during a comparison, and the values that its members must have in the end.
    Only the members in `busy` get events."""

    def __init__(self, lb: laurels.AsyncLeaderboards, url: str, random: Random) -> None:
        self.members = [*ODD_MEMBERS, *[f"m{i}" for i in range(400)]]
        self.busy = self.members[:100]
        self.totals = dict.fromkeys(self.members, 3)
        self.data: dict[str, Any] = {member: {"n": 1} for member in self.members[::3]}
        self.is_locked = False
        self._lb = lb
        self._url = url
        self._random = random

    async def begin(self) -> None:
        await self._lb.submit_many("b", [(member, 3) for member in self.members])
        for member, data in self.data.items():
            await self._lb.set_data("b", member, data)
        await sent(self._lb, self._url)

    async def act(self) -> None:
        """Submit some events. Sometimes also run the sink, unless the comparison has paused it."""
        random, lb = self._random, self._lb
        some = [
            (random.choice(self.busy), random.randrange(1, 9))
            for _ in range(random.choice([0, 1, 20]))
        ]
        for member, value in some:
            self.totals[member] += value
        await lb.submit_many("b", some)
        if random.random() < 0.1:
            member = random.choice(self.busy)
            self.data[member] = random.choice([[1, 2.5], "t", {"n": "\0"}])
            await lb.set_data("b", member, self.data[member])
        if not self.is_locked and random.random() < 0.2:
            await sent(lb, self._url)

    async def pause(self, _seconds: float) -> None:
        await self.act()
        await sent(self._lb, self._url)

    def corrupt(self, mend: Side) -> None:
        """Change a member's values on the side that the comparison mends. If that is the store,
        choose a member without events, because events would be added to the wrong score."""
        if mend == "store":
            member = self._random.choice(self.members[100:])
            if self._random.random() < 0.3:
                corrupt_data(self._lb, member, self._random.choice([None, b"[9]"]))
            else:
                corrupt_member(self._lb, member)
            return
        member = self._random.choice(self.members)
        table, change = self._random.choice(
            [
                ("scores", "UPDATE {} SET score_1 = score_1 + 99"),
                ("scores", "UPDATE {} SET reached_at = 5"),
                ("scores", "DELETE FROM {}"),
                ("member_data", "UPDATE {} SET data = '9'"),
                ("member_data", "DELETE FROM {}"),
            ]
        )
        change = change.replace("{}", f"{{}}{table}")
        run_in(self._url, f"{change} WHERE board = 'b' AND member = %s", escape(member))


@pytest.mark.parametrize("mend", ["ledger", "store"])
def test_only_corruptions_are_repaired_during_writes(
    mend: Side, url: str, scaled: Scaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events, writes of member data and runs of the sink happen between any two steps of the
    comparison. In the end, both the store and the ledger have the totals of the events."""
    defined, random = board(windows=["all", "day"]), Random(mend)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            await sent(lb, url)
            history = History(lb, url, random)
            lock, unlock = LockedRows.lock, LockedRows.unlock

            def locking(rows: LockedRows) -> Any:
                history.is_locked = True
                return lock(rows)

            def unlocking(rows: LockedRows) -> None:
                unlock(rows)
                history.is_locked = False

            monkeypatch.setattr(LockedRows, "lock", locking)
            monkeypatch.setattr(LockedRows, "unlock", unlocking)
            await history.begin()
            beside: Any = Beside(lb, history.act)
            for _ in range(scaled(2, 20)):
                for _ in range(scaled(10, 50)):
                    history.corrupt(mend)
                done = await reconciled(beside, url, mend, sleep=history.pause)
                assert done.mended == done.differing > 0
            await sent(lb, url)
            await reconciled(lb, url, mend)
            await sent(lb, url)
            last = await reconciled(lb, url)
            assert (last.differing, last.waiting) == (0, 0)
            totals = {e.member: e.score for e in lb.sync.export("b", window="all")}
            assert totals == history.totals
            written = ledger(url, defined, prefix_of(url))
            for ranking in written.values():
                assert ranking == {m: (v,) for m, v in history.totals.items()}
            entries = await lb.entries("b", history.members, with_data=True)
            assert {e.member: e.data for e in entries if e.data is not None} == history.data
            await lb.check()

    asyncio.run(play())


def test_changes_that_are_not_sent_yet_are_not_a_difference(url: str) -> None:
    async def nothing(_seconds: float) -> None:
        pass

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit_many("b", [("ann", 1), ("bob", 2)])
            await sent(lb, url)
            await lb.submit_many("b", [("ann", 5), ("cid", 1)])
            await lb.remove("b", "bob")
            for mend in (None, "ledger", "store"):
                report = await reconciled(lb, url, mend, sleep=nothing)
                assert (report.differing, report.mended, report.waiting) == (0, 0, 9)
            await sent(lb, url)
            assert (await reconciled(lb, url)).waiting == 0

    asyncio.run(play())


def test_a_ledger_that_cannot_be_compared_is_refused(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            with pytest.raises(NoLedger):
                await reconciled(lb, url)
            await sent(lb, url)
            await lb.delete("b")
            await lb.create(board())
            await lb.submit("b", "bob", 1)
            with pytest.raises(SinkBehind):
                await reconciled(lb, url)
            dialect, prefix = dialect_of(url)
            connection = dialect.connect()
            dialect.execute(connection, f"UPDATE {prefix}sinks SET position = NULL")
            connection.commit()
            connection.close()
            with pytest.raises(LedgerIncomplete):
                await reconciled(lb, url)

    asyncio.run(play())


def test_the_command_ends_with_1_where_differences_remain(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = f"sqlite:///{tmp_path}/ledger.db", str(tmp_path / "boards")

    async def play() -> None:
        async with laurels.open_async(folder) as lb:
            await lb.create(board())
            await lb.submit_many("b", [("ann", 5), ("bob", 7)])
            await sent(lb, url)

    asyncio.run(play())
    command = ["reconcile", "b", "--with", url, "--at", folder]
    assert main(command) == 0
    assert "b: 6 entries, 0 differ" in capsys.readouterr().out
    corrupt_ledger(url, Random(1))
    assert main([*command, "--json"]) == 1
    assert '"differing":1' in capsys.readouterr().out
    assert main([*command, "--mend", "ledger"]) == 0
    assert "1 differ; 1 mended" in capsys.readouterr().out
    assert main(command) == 0
    with laurels.open(folder) as lb:
        lb.submit_many("b", [("ann", 1), ("bob", 1)])
    capsys.readouterr()
    assert main(command) == 1, "a lagging sink leaves entries that cannot be compared"
    assert "0 differ; 6 could not be checked" in capsys.readouterr().out


@pytest.mark.parametrize("mend", ["ledger", "store"])
@pytest.mark.parametrize("kind", ["redis", "shards", "http"])
def test_every_kind_of_store_is_compared(kind: str, mend: Side, tmp_path: Path) -> None:
    """`mend` names the side that is corrected. With "store", the scores in the ledger count as
    right, even those that this test has corrupted."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    defined = board(windows=["all", "day"], shards=3 if kind == "shards" else 1)

    async def play(at: str) -> None:
        async with laurels.open_async(at) as lb:
            await lb.create(defined)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(200)])
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            corrupt_rows(url, ["m3", "m77", "m150"])
            done = await reconciled(lb, url, mend)
            assert (done.differing, done.mended, done.waiting) == (6, 6, 0)
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            entries = await lb.entries("b", ["m3", "m77", "m150", "m4"])
            wanted = [3, 77, 150, 4] if mend == "ledger" else [99, 99, 99, 4]
            assert [entry.score for entry in entries] == wanted
            await lb.check()

    if kind == "http":
        with Served(tmp_path / "served") as served:
            asyncio.run(play(served.url))
    else:
        server = Server()
        try:
            asyncio.run(play(server.url))
        finally:
            server.stop()
