"""Scores that differ between a ledger and its store are found and mended on either side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.flows.ledger.reconcile import Side
from tests.conftest import Scaled
from tests.counts import covering

from .reconciling import corrupt_ledger, corrupt_rows, corrupt_store, reconciled, run_in, some
from .sinking import NOW_MS, ledger, rankings, sent
from .test_ledger import BOARDS, board, prefix_of, step, values


@pytest.mark.parametrize(("kind", "mend"), covering([*BOARDS], ["ledger", "store"]))
def test_corruptions_are_found_and_repaired(
    kind: str, mend: Side, url: str, scaled: Scaled
) -> None:
    defined, random = BOARDS[kind], Random(f"{kind} {mend}")
    clock = laurels.ManualClock(NOW_MS)

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            for _ in range(12):
                await step(lb, defined, random)
                clock.advance(3_600_000)
            await lb.submit_many("b", [("z", values(defined, random), None, None, some(defined))])
            await sent(lb, url)
            before = rankings(lb.sync, defined)
            sound = await reconciled(lb, url)
            assert (sound.differing, sound.waiting) == (0, 0)
            assert sound.entries == sum(map(len, before.values()))
            for _ in range(scaled(6, 100)):
                if mend == "store":
                    corrupt_store(lb, random)
                else:
                    corrupt_ledger(url, random)
            seen = await reconciled(lb, url)
            assert seen.differing > 0
            assert seen.mended == 0
            assert len(seen.differences) == min(20, seen.differing)
            done = await reconciled(lb, url, mend)
            assert done.differing == done.mended == seen.differing
            assert rankings(lb.sync, defined) == before
            assert ledger(url, defined, prefix_of(url)) == before
            again = await reconciled(lb, url)
            assert again.differing == again.waiting == 0 or mend == "store"
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            await lb.check()

    asyncio.run(play())


@pytest.mark.parametrize("mend", ["ledger", "store"])
def test_zeros_that_are_not_ranked_are_compared_and_repaired(
    mend: Side, url: str, scaled: Scaled
) -> None:
    """The ledger of a board with `hide_zero` has the members whose score is 0, too, because the
    board counts them."""
    defined, random = board(hide_zero=True, windows=["all", "day"]), Random(mend)
    clock = laurels.ManualClock(NOW_MS)
    members = [f"m{i}" for i in range(30)]

    async def play() -> None:
        async with laurels.open_async("memory:", clock=clock) as lb:
            await lb.create(defined)
            for _ in range(4):
                await lb.submit_many("b", [(m, random.randrange(-1, 2)) for m in members])
                clock.advance(86_400_000)
            await sent(lb, url)
            for _ in range(scaled(5, 60)):
                if mend == "store":
                    corrupt_store(lb, random)
                else:
                    corrupt_ledger(url, random)
            assert (await reconciled(lb, url, mend)).mended > 0
            await sent(lb, url)
            assert (await reconciled(lb, url)).differing == 0
            written = ledger(url, defined, prefix_of(url))
            ranked = rankings(lb.sync, defined)
            await lb.change("b", hide_zero=False)
            assert rankings(lb.sync, defined) == written
            assert ranked != written
            assert ranked == {
                name: {member: score for member, score in entries.items() if any(score)}
                for name, entries in written.items()
            }

    asyncio.run(play())


def mends(lb: laurels.AsyncLeaderboards) -> int:
    """Return how many calls of `mend` are in the audit log."""
    return sum(entry.verb == "mend" for entry in lb.sync.audit(limit=1_000).entries)


def test_a_store_is_mended_in_batches(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"

    async def play() -> None:
        async with laurels.open_async(str(tmp_path / "boards")) as lb:
            await lb.create(board(windows=["all"]))
            members = [f"m{i}" for i in range(500)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            done = await reconciled(lb, url, "store")
            assert (done.differing, done.mended, done.waiting) == (500, 500, 0)
            assert {e.score for e in lb.sync.export("b")} == {99}
            assert mends(lb) == 3

    asyncio.run(play())


class MovedBefore:
    """The verbs of a store. Just before the first call of `mend`, each of `members` gets an
    event."""

    def __init__(self, lb: laurels.AsyncLeaderboards, members: list[str]) -> None:
        self._lb = lb
        self._members = members

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lb, name)

    async def mend(self, *args: Any, **more: Any) -> Any:
        members, self._members = self._members, []
        await self._lb.submit_many("b", [(member, 1) for member in members])
        return await self._lb.mend(*args, **more)


def test_an_entry_that_changed_is_skipped_and_the_others_of_its_batch_are_mended(url: str) -> None:
    async def pause(_seconds: float) -> None:
        pass

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board(windows=["all", "day"]))
            members = [f"m{i}" for i in range(50)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            moved: Any = MovedBefore(lb, ["m7", "m8"])
            done = await reconciled(moved, url, "store", sleep=pause)
            assert (done.differing, done.mended) == (100, 96)
            scores = {e.member: e.score for e in lb.sync.export("b")}
            assert scores == dict.fromkeys(members, 99) | {"m7": 2, "m8": 2}
            assert mends(lb) == 1

    asyncio.run(play())


def test_an_entry_that_no_ranking_can_have_is_skipped(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board(columns=[laurels.Column("score", max=200)], windows=["all"]))
            members = [f"m{i}" for i in range(60)]
            await lb.submit_many("b", [(member, 1) for member in members])
            await sent(lb, url)
            corrupt_rows(url, members)
            for member in ("m7", "m41"):
                run_in(url, "UPDATE {}scores SET score_1 = 201 WHERE member = %s", member)
            done = await reconciled(lb, url, "store")
            assert (done.differing, done.mended, done.waiting) == (60, 58, 0)
            scores = {e.member: e.score for e in lb.sync.export("b")}
            assert scores == dict.fromkeys(members, 99) | {"m7": 1, "m41": 1}

    asyncio.run(play())
