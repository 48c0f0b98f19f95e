"""Long histories are rebuilt exactly from a ledger, both by functions and by the command."""

from __future__ import annotations

import asyncio
import csv
import gzip
import itertools
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

import laurels
from laurels.cli import main
from tests.conftest import Scaled

from .rebuilding import everything, rebuilt
from .sinking import NOW_MS, sent
from .test_ledger import board

CDNOW = Path(__file__).parents[2] / "examples" / "cdnow.csv.gz"


def test_a_long_history_is_rebuilt_exactly(url: str, tmp_path: Path, scaled: Scaled) -> None:
    """The history has random events, 200,000 of them in `make torture`. They have few different
    values, so many scores are equal."""
    defined = laurels.Board(
        "b",
        columns=[laurels.Column("points", scale=0)],
        windows=["all", "day:keep=9", "week:keep=9", "month:keep=9"],
        rank="competition",
        changes="9000d",
    )
    random, clock = Random(1), laurels.ManualClock(NOW_MS)
    members = scaled(100, 5_000)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            for _ in range(scaled(4, 200)):
                await lb.submit_many(
                    "b",
                    [
                        (f"m{random.randrange(members)}", random.randrange(-1, 4))
                        for _ in range(scaled(100, 1_000))
                    ],
                )
                clock.advance(3_600_000)
            await sent(lb, url)
            expected = await asyncio.to_thread(everything, lb.sync, "b")
        async with laurels.open_async(tmp_path / "b", clock=clock) as lb:
            (made,) = await rebuilt(lb, url)
            assert (made.expired, made.left_out) == (0, 0)
            assert await asyncio.to_thread(everything, lb.sync, "b") == expected
            await lb.check()

    asyncio.run(play())


def test_cdnow_is_rebuilt_exactly(url: str, tmp_path: Path, scaled: Scaled) -> None:
    """The board has real purchases. The rebuilt rankings by month and week equal the original ones,
    including the order of ties."""
    defined = laurels.Board(
        "spent",
        columns=[laurels.Column("amount", scale=2)],
        windows=["all", "month:keep=18", "week:keep=79", "7d=rolling:7d/1d"],
        rank="competition",
        changes="9000d",
    )
    with gzip.open(CDNOW, "rt") as file:
        events = [
            (
                row["customer"],
                Decimal(row["amount"]),
                datetime.fromisoformat(row["date"]).replace(tzinfo=UTC),
            )
            for row in itertools.islice(csv.DictReader(file), scaled(8_000, 100_000))
        ]

    async def play() -> None:
        async with laurels.open_async("memory:", clock="event") as lb:
            await lb.create(defined)
            for first in range(0, len(events), 2_000):
                await lb.submit_many("spent", events[first : first + 2_000])
            await sent(lb, url)
            expected = await asyncio.to_thread(everything, lb.sync, "spent")
            ranks = [
                (entry.member, entry.rank)
                for entry in lb.sync.export("spent", window="month", period="2021-02")
            ]
        async with laurels.open_async(tmp_path / "b", clock="event") as lb:
            (made,) = await rebuilt(lb, url)
            assert made.empty == ("7d",)
            assert made.expired == 0
            assert await asyncio.to_thread(everything, lb.sync, "spent") == expected
            assert ranks == [
                (entry.member, entry.rank)
                for entry in lb.sync.export("spent", window="month", period="2021-02")
            ]

    asyncio.run(play())


def test_the_command_rebuilds_boards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, folder = f"sqlite:///{tmp_path}/ledger.db", str(tmp_path / "boards")

    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            await lb.create(board(windows=["all", "day", "rolling:7d/1d"]))
            await lb.submit_many("b", [("ann", 5), ("bob", 7)])
            await sent(lb, url)

    asyncio.run(play())
    assert main(["rebuild", "--from", url, "--at", folder]) == 0
    assert "b: 4 entries; rolling:7d/1d begin empty" in capsys.readouterr().out
    assert main(["rebuild", "--from", url, "--at", folder, "--json"]) == 0
    assert '"was_done":true' in capsys.readouterr().out
    assert main(["rebuild", "--boards", "b", "--at", folder]) == 2
    assert main(["rebuild", "--from", f"sqlite:///{tmp_path}/no.db", "--at", folder]) != 0
    assert not (tmp_path / "no.db").exists()
    with laurels.open(folder) as lb:
        assert [entry.member for entry in lb.top("b").entries] == ["bob", "ann"]


def test_the_command_copies_a_ledger_and_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, folder = f"sqlite:///{tmp_path}/ledger.db", str(tmp_path / "boards")

    async def play() -> None:
        async with laurels.open_async("memory:") as lb:
            await lb.create(board(windows=["all", "day", "rolling:7d/1d"]))
            await lb.submit_many("b", [("ann", 5), ("bob", 7)], position=("s", "1"))
            await lb.set_data("b", "ann", {"n": 1})
            await sent(lb, url)

    asyncio.run(play())
    assert main(["copy", url, folder]) == 0
    assert capsys.readouterr().out == (
        "b: copied 4 rows; equal: 2 rankings with 4 entries, 0 tallies, 0 event ids, "
        "data of 1 members, 1 positions, 0 sealed periods, 0 payouts\n"
        "  not compared: not in the ledger: event ids, the entries of rolling:7d/1d\n"
    )
    with laurels.open(folder) as lb:
        lb.submit("b", "ann", 1)
    assert main(["copy", url, folder]) == 1
    assert "the copy differs from the source" in capsys.readouterr().out
    assert main(["copy", folder, url]) == 2
