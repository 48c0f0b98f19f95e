"""Sinks go on with a board that was deleted and restored, whether or not they have seen its
deletion before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import laurels
from tests.redis.servers import Server

from .sinking import NOW_MS, ledger, rows, sent

DAY = 86_400_000
BOARD = laurels.Board(
    "b", windows=["all", "day:archive=forever,keep=1"], changes="30d", grace="0s", ledger="main"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "memory":
        return "memory:"
    monkeypatch.setenv("LAURELS_LEDGER_MAIN", f"sqlite:////{tmp_path / 'archive.db'}")
    server: Server = request.getfixturevalue("server")
    server.call("FLUSHALL")
    return server.url


async def begin(clock: laurels.ManualClock, lb: laurels.AsyncLeaderboards, url: str) -> None:
    """Create a board with a sealed day and a hidden member, and send it to a sink."""
    await lb.create(BOARD)
    await lb.submit_many("b", [("ann", 3), ("bob", 2)], position=("source/s", "1"))
    clock.advance(DAY)
    await lb.seal()
    await lb.hide("b", "mal", "a bot")
    await lb.submit("b", "mal", 5)
    await sent(lb, url)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("sees_deletion", [True, False])
def test_a_ledger_has_the_rows_of_the_restored_board(
    url: str, store: str, *, sees_deletion: bool
) -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        async with laurels.open_async(store, clock=clock) as lb:
            await begin(clock, lb, url)
            await lb.submit("b", "cid", 1)
            await lb.delete("b")
            if sees_deletion:
                await sent(lb, url)
                assert rows(url, "SELECT * FROM laurels_boards") == []
            await lb.undelete("b")
            await lb.submit_many("b", [("eve", 7), ("mal", 1)])
            for _ in range(2):
                sink = await sent(lb, url)
                assert sink.metrics.restarts == 0
                assert ledger(url, BOARD)["all", "", ""] == {"eve": (7,), "mal": (1,)}
                hidden = rows(url, "SELECT member FROM laurels_hidden WHERE board = 'b'")
                assert hidden == [("mal",)]
                assert len(rows(url, "SELECT * FROM laurels_boards WHERE board = 'b'")) == 1
                positions = rows(url, "SELECT position FROM laurels_source_positions")
                assert positions == [("1",)]
                final = rows(url, "SELECT member FROM laurels_final_standings ORDER BY position")
                assert final == [("ann",), ("bob",)]

    asyncio.run(play())


@pytest.mark.parametrize("sees_deletion", [True, False])
def test_a_file_has_each_change_once(tmp_path: Path, store: str, *, sees_deletion: bool) -> None:
    async def play() -> None:
        clock = laurels.ManualClock(NOW_MS)
        target = tmp_path / "changes.jsonl"
        url = str(target)
        async with laurels.open_async(store, clock=clock) as lb:
            await begin(clock, lb, url)
            await lb.delete("b")
            if sees_deletion:
                await sent(lb, url)
            await lb.undelete("b")
            await lb.submit("b", "eve", 7)
            for _ in range(2):
                await sent(lb, url)
            lines = target.read_text().splitlines()
            ids = [msgspec.json.decode(line)["id"] for line in lines]
            kinds = [msgspec.json.decode(line)["kind"] for line in lines]
            assert len({*ids}) == len(ids)
            assert kinds[-5:] == ["delete", "undelete", "hide", "position", "event"]

    asyncio.run(play())
