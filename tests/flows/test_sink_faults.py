"""Sinks of a store that was restored to an earlier state, and sinks whose target is a Redis
Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import laurels
from laurels.config.folders import back_up, restore
from laurels.errors.sinks import SinkBehind
from tests.redis.cluster import Cluster
from tests.redis.servers import Server

from .sinking import NOW_MS, ledger, rankings, sent, sink_of

BOARD = laurels.Board("b", windows=["all"], changes="7d")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


async def ids(lb: laurels.AsyncLeaderboards, board: str = "b") -> list[str]:
    """Return the ids of all changes except changes of sink positions."""
    page = await lb.changes(board, limit=10_000)
    return [change.id for change in page if change.kind != "position"]


def test_a_store_restored_to_a_state_before_its_sink_is_detected(tmp_path: Path) -> None:
    """After the restore, a sink to a stream stops with an error, and a sink to a ledger sends all
    current entries again."""
    folder, saved, path = tmp_path / "boards", tmp_path / "saved", tmp_path / "lines"
    database = f"sqlite:///{tmp_path}/ledger.db"

    async def count(at: Path, member: str, *, sends: bool) -> None:
        async with laurels.open_async(at, clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(BOARD, exist_ok=True)
            await lb.submit_many("b", [(f"{member}{i}", i) for i in range(30)])
            if sends:
                await sent(lb, database)
                await sent(lb, str(path), name="lines")

    async def go_on(at: Path) -> None:
        async with laurels.open_async(at, clock=laurels.ManualClock(NOW_MS)) as lb:
            stream = sink_of(lb, f"{redis.url}/0/changes")
            await stream.run()
            assert isinstance(stream.failed["b"], SinkBehind)
            await sent(lb, database)

    async def mirror(at: Path) -> None:
        async with laurels.open_async(at, clock=laurels.ManualClock(NOW_MS)) as lb:
            await sent(lb, f"{redis.url}/0/changes")

    with Server() as redis:
        asyncio.run(count(folder, "kept", sends=True))
        back_up(str(folder), saved, overwrite=False, progress=lambda *_: None)
        asyncio.run(count(folder, "lost", sends=True))
        asyncio.run(mirror(folder))
        restore(saved, str(tmp_path / "again"), progress=lambda *_: None)
        asyncio.run(count(tmp_path / "again", "after", sends=False))
        asyncio.run(go_on(tmp_path / "again"))
    with laurels.open(tmp_path / "again", clock=laurels.ManualClock(NOW_MS)) as lb:
        written = ledger(database, BOARD)
        assert written == rankings(lb, BOARD)
        assert len(written["all", "", ""]) == 60


def test_a_cluster_has_each_change_once(cluster: Cluster) -> None:
    """The stream may have any form of key. The sink's position is stored in the same slot as the
    stream."""

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(BOARD)
            await lb.submit_many("b", [(f"m{i}", i) for i in range(1_500)])
            for number, key in enumerate(["changes", "other", "%7Btag%7Dof", "a%3Ab"]):
                await sent(lb, f"{cluster.url}/0/{key}", name=f"s{number}")
            await lb.submit("b", "last", 1)
            for number, key in enumerate(["changes", "other", "%7Btag%7Dof", "a%3Ab"]):
                await sent(lb, f"{cluster.url}/0/{key}", name=f"s{number}")
            wanted = await ids(lb)
            for name in ("changes", "other", "{tag}of", "a:b"):
                delivered = cluster.owner_of(name.encode()).call("XRANGE", name, "-", "+")
                assert [fields[1].decode() for _, fields in delivered] == wanted
                assert msgspec.json.decode(delivered[-1][1][3])["member"] == "last"

    asyncio.run(play())
