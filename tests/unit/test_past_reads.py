"""Queries about past periods beside other calls of an event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import laurels
from laurels.stores.local.archive.archive import Archive
from laurels.stores.local.state import PAST_READS

HOUR = 3_600_000
NOW_MS = 1_795_188_600_000
PERIOD = "2026-11-20T15+00:00"


def test_a_disk_that_hangs_stops_only_queries_about_past_periods(tmp_path: Path) -> None:
    """However many reads of the archive wait for the disk, all other calls are answered."""
    clock, hung, waiting = laurels.ManualClock(NOW_MS), threading.Event(), list[str]()
    with laurels.open(tmp_path / "boards", clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["all", "hour:archive=forever,keep=1"]))
        lb.submit("b", "ann", 1)
        clock.advance(9 * HOUR)
        lb.seal()
    opened: Any = Archive.open

    def hanging(*arguments: Any) -> Any:
        waiting.append(threading.current_thread().name)
        assert hung.wait(60)
        return opened(*arguments)

    async def main() -> None:
        async with await laurels.open_async(tmp_path / "boards", clock=clock) as lb:
            past = [
                asyncio.ensure_future(lb.top("b", window="hour", period=PERIOD, limit=limit))
                for limit in (1, 5_000) * 40
            ]
            while len(waiting) < PAST_READS:
                await asyncio.sleep(0.001)
            receipt = await lb.submit("b", "ann", 1)
            assert receipt.score == 2
            top = await lb.top("b", window="all", limit=10_000)
            assert top.total == 1
            assert len(waiting) == PAST_READS
            hung.set()
            assert {(await page).total for page in past} == {1}

    with patch.object(Archive, "open", hanging):
        asyncio.run(main())
    assert {name.rpartition("_")[0] for name in waiting} == {"laurels-past"}
