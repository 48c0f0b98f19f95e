"""Positions of sources that differ between a ledger and its store are found and mended."""

from __future__ import annotations

import asyncio

import laurels

from .reconciling import reconciled, run_in
from .sinking import NOW_MS, ledger, rows, sent
from .test_ledger import board, prefix_of


def test_a_source_with_a_very_long_name_does_not_stop_the_ledger(url: str) -> None:
    """If the name of a source is too long for the ledger, the ledger has the events of this source,
    but not its position. It has the positions of all other sources."""

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            for source in ("s", "x" * 300, "x" * 301, "\\" * 151):
                await lb.submit_many("b", [("ann", 1)], position=(source, "7"))
            await sent(lb, url)
            stored = rows(url, f"SELECT source FROM {prefix_of(url)}source_positions")
            assert {source for (source,) in stored} == {"s", "x" * 300}
            assert ledger(url, board(), prefix_of(url))["all", "", ""] == {"ann": (4,)}
            result = await reconciled(lb, url)
            assert (result.differing, result.position_differences) == (0, ())

    asyncio.run(play())


def test_positions_are_compared_and_repaired_in_the_ledger(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            for source in ("s1", "s\0", "s3"):
                await lb.submit_many("b", [("ann", 1)], position=(source, "7 \\"))
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            run_in(url, "UPDATE {}source_positions SET position = '9' WHERE source = 's1'")
            run_in(url, "DELETE FROM {}source_positions WHERE source = 's3'")
            run_in(url, "INSERT INTO {}source_positions VALUES ('b', 'other', '1', 1)")
            for mend, mended in ((None, 0), ("store", 0), ("ledger", 3)):
                done = await reconciled(lb, url, mend)  # type: ignore[arg-type]
                assert (done.differing, done.mended) == (3, mended)
                assert len(done.position_differences) == 3
            assert await lb.position("b", "s1") == "7 \\"
            assert await lb.position("b", "other") is None
            assert (await reconciled(lb, url)).differing == 0
            await lb.submit_many("b", [("ann", 1)], position=("s1", "8"))

            async def nothing(_seconds: float) -> None:
                pass

            first = await reconciled(lb, url, "ledger", sleep=nothing)
            assert (first.differing, first.waiting > 0) == (0, True)
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0

    asyncio.run(play())
