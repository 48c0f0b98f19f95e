"""Data of members that differs between a ledger and its store is found and mended."""

from __future__ import annotations

import asyncio

import pytest

import laurels
from laurels.flows.ledger.reconcile import Side

from .reconciling import corrupt_data, reconciled, run_in, some
from .sinking import NOW_MS, sent
from .test_ledger import BOARDS, ODD_MEMBERS, board


@pytest.mark.parametrize("mend", ["ledger", "store"])
@pytest.mark.parametrize("kind", ["sums", "rooms"])
def test_member_data_is_compared_and_repaired(kind: str, mend: Side, url: str) -> None:
    defined = BOARDS[kind]

    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(defined)
            # before the data is set: a sink's first run sends no data of members that are not
            # ranked
            await sent(lb, url)
            members = [*ODD_MEMBERS, *[f"m{i}" for i in range(8)]]
            events = [(member, 1, None, None, some(defined)) for member in members]
            await lb.submit_many("b", events)
            wanted = {member: {"n": i, "t": "a\0"} for i, member in enumerate(members)}
            for member, data in wanted.items():
                await lb.set_data("b", member, data)
            await lb.set_data("b", "unranked", [1.5])
            wanted |= {"unranked": [1.5]}  # type: ignore[dict-item]
            await sent(lb, url)
            sound = await reconciled(lb, url)
            assert (sound.data, sound.differing, sound.waiting) == (len(wanted), 0, 0)
            if mend == "ledger":
                where = "WHERE board = 'b' AND member = %s"
                run_in(url, f"UPDATE {{}}member_data SET data = '[7]' {where}", "m1")
                run_in(url, f"UPDATE {{}}member_data SET data = 'no' {where}", "m2")
                run_in(url, f"DELETE FROM {{}}member_data {where}", "a")
                run_in(
                    url,
                    "INSERT INTO {}member_data VALUES ('b', %s, '2', 5)",
                    "stranger" + "x" * 200,
                )
            else:
                corrupt_data(lb, "m1", b"[7]")
                corrupt_data(lb, "a", None)
                corrupt_data(lb, "unranked", b'"other"')
                await lb.remove("b", "m2")
                await lb.submit_many("b", [("m2", 1, None, None, some(defined))])
                await sent(lb, url)
                del wanted["m2"]
                corrupt_data(lb, "m2", b'"from nowhere"')
            seen = await reconciled(lb, url)
            assert (seen.differing, seen.mended, len(seen.data_differences)) == (4, 0, 4)
            done = await reconciled(lb, url, mend)
            assert (done.differing, done.mended, done.remaining) == (4, 4, 0)
            await sent(lb, url)
            again = await reconciled(lb, url)
            assert (again.differing, again.waiting, again.data) == (0, 0, len(wanted))
            names = [*members, "unranked"]
            entries = await lb.entries("b", names, labels=some(defined), with_data=True)
            assert {e.member: e.data for e in entries if e.data is not None} == wanted

    asyncio.run(play())


def test_invalid_member_data_remains_a_difference(url: str) -> None:
    async def play() -> None:
        async with laurels.open_async("memory:", clock=laurels.ManualClock(NOW_MS)) as lb:
            await lb.create(board())
            await lb.submit("b", "ann", 1)
            await lb.set_data("b", "ann", 1)
            await sent(lb, url)
            for wrong in ("no json", '"' + "x" * 2_000 + '"'):
                run_in(url, "UPDATE {}member_data SET data = %s", wrong)
                done = await reconciled(lb, url, "store")
                assert (done.differing, done.mended, done.remaining) == (1, 0, 1)
                assert done.data_differences[0].store == "1"

    asyncio.run(play())
