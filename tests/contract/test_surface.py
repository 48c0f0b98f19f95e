"""The synchronous and the asynchronous interface have the same verbs."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import laurels
from laurels.errors import LaurelsError, NoPrizes, NotSealed, TooLate, UnknownBoard
from laurels.errors.payouts import UnknownPayout
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import members, scores

VERBS = (
    "create",
    "change",
    "get",
    "boards",
    "delete",
    "submit",
    "submit_many",
    "position",
    "positions",
    "set",
    "set_data",
    "remove",
    "hide",
    "show",
    "mend",
    "confirm",
    "disqualify",
    "settle",
    "payouts",
    "due_payouts",
    "waiting_payouts",
    "payout_positions",
    "move_payout_position",
    "top",
    "around",
    "standing",
    "rank",
    "ranks",
    "card",
    "standings",
    "entries",
    "range",
    "at_rank",
    "score_at_percentile",
    "count",
    "periods",
    "scopes",
    "hidden",
    "changes",
    "changed_boards",
    "stats",
    "export",
    "check",
    "rebuild",
    "clock_status",
    "accept_clock",
    "audit",
    "hot",
    "close",
)


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_have_the_same_parameters(verb: str) -> None:
    ours, theirs = (
        inspect.signature(getattr(surface, verb)).parameters
        for surface in (laurels.Leaderboards, laurels.AsyncLeaderboards)
    )
    assert ours == theirs


def test_both_interfaces_have_the_same_verbs() -> None:
    ours, theirs = (
        {name for name, _ in inspect.getmembers(surface, callable) if not name.startswith("_")}
        for surface in (laurels.Leaderboards, laurels.AsyncLeaderboards)
    )
    assert set(VERBS) <= ours & theirs


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_docstring(verb: str) -> None:
    for surface in (laurels.Leaderboards, laurels.AsyncLeaderboards):
        assert inspect.getdoc(getattr(surface, verb))


async def every_verb(lb: laurels.AsyncLeaderboards) -> None:
    board = await lb.create(laurels.Board("b", windows=["all", "day"]))
    await lb.create(laurels.Board("c"))
    assert await lb.boards() == [board, await lb.get("c")]
    await lb.delete("c")
    receipt = await lb.submit("b", "ann", 5, id="x")
    assert (receipt.rank, receipt.score) == (1, 5)
    receipts = await lb.submit_many("b", [("bob", 7), ("cid", 1)], ranks=True, position=("s", "1"))
    assert [receipt.rank for receipt in receipts] == [1, 3]
    assert await lb.position("b", "s") == "1"
    assert (await lb.set("b", "cid", 2)).score == 2
    await lb.set_data("b", "cid", [1])
    assert members(await lb.top("b")) == ["bob", "ann", "cid"]
    assert members(await lb.around("b", "ann", radius=0)) == ["ann"]
    standing = await lb.standing("b", "ann", to_rank=1)
    assert standing is not None
    assert standing.to_rank == laurels.Gap(1, 2)
    assert await lb.rank("b", "ann") == 2
    assert await lb.ranks("b", ["bob", "nobody"]) == [1, None]
    assert (await lb.card("b", "ann"))["all"] == await lb.standing("b", "ann")
    assert members(await lb.standings("b", ["cid", "ann"])) == ["ann", "cid"]
    assert members(await lb.range("b", low=5)) == ["bob", "ann"]
    holder = await lb.at_rank("b", 3, with_data=True)
    assert holder is not None
    assert holder.data == [1]
    assert await lb.score_at_percentile("b", 100) == 7
    assert await lb.count("b", high=5) == 2
    assert len(await lb.periods("b", "day")) == 2
    assert (await lb.payouts("b")).payouts == []
    assert (await lb.due_payouts()).payouts == []
    assert await lb.waiting_payouts() == []
    await lb.move_payout_position("r", None, None)
    assert await lb.payout_positions() == {}
    with pytest.raises(NoPrizes):
        await lb.settle("b")
    with pytest.raises(UnknownPayout):
        await lb.confirm("b", "x", "bank-1")
    with pytest.raises(NotSealed):
        await lb.disqualify("b", "ann", "a bot")
    assert (await lb.stats()).boards == 1
    assert (await lb.hot()).members == []
    assert [entry.member async for entry in lb.export("b")] == ["bob", "ann", "cid"]
    assert await lb.remove("b", "bob") is True
    assert (await lb.change("b", title="B")).title == "B"
    assert (await lb.check()).boards == 1
    await lb.rebuild()
    assert members(await lb.top("b")) == ["ann", "cid"]


def test_every_verb_can_be_awaited(deployment: Deployment) -> None:
    async def main() -> None:
        async with deployment.opened_async() as lb:
            await every_verb(lb)

    asyncio.run(main())


def test_opening_can_be_awaited(deployment: Deployment) -> None:
    async def main() -> list[laurels.Board]:
        lb = await deployment.open_async()
        try:
            return await lb.boards()
        finally:
            await lb.close()

    assert asyncio.run(main()) == []


def test_errors_are_the_same_when_awaited(deployment: Deployment) -> None:
    async def main() -> None:
        async with deployment.opened_async() as lb:
            await lb.create(laurels.Board("b", windows=["day"]))
            with pytest.raises(UnknownBoard):
                await lb.top("none")
            with pytest.raises(TooLate):
                await lb.submit("b", "ann", 1, at=NOW_MS - 10**10)
        with pytest.raises(LaurelsError):
            await lb.top("b")

    asyncio.run(main())


def test_changes_are_watched_by_a_task(deployment: Deployment) -> None:
    async def main() -> None:
        async with deployment.opened_async() as lb:
            await lb.create(laurels.Board("b", changes="1h"))
            cursor = (await lb.changes("b", after="now")).cursor
            pages = lb.watch_changes("b", after=cursor)
            for member in ("ann", "bob"):
                waiting = asyncio.ensure_future(anext(pages))
                await lb.submit("b", member, 1)
                assert [change.member for change in await waiting] == [member]

    asyncio.run(main())


def test_a_long_past_period_is_exported_whole(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    async def main() -> list[str]:
        async with deployment.opened_async() as lb:
            await lb.create(laurels.Board("b", windows=["day"], tie="member"))
            await lb.submit_many("b", [(f"m{i:04}", 1) for i in range(2_500)])
            clock.advance(86_400_000)
            await lb.submit("b", "today", 1)
            return [entry.member async for entry in lb.export("b", period="2026-11-20")]

    assert asyncio.run(main()) == [f"m{i:04}" for i in range(2_500)]


EACH = 2
"""The number of rounds that each task does."""


@pytest.mark.parametrize("tasks", [64])
def test_tasks_share_one_store(deployment: Deployment, tasks: int) -> None:
    async def work(lb: laurels.AsyncLeaderboards, task: int) -> int:
        counted = 0
        for i in range(EACH):
            receipt = await lb.submit("b", f"m{(task + i) % 7}", 1, id=f"{task}-{i}")
            counted += receipt.status == "applied"
            receipts = await lb.submit_many("b", [(f"m{i % 7}", 2), ("all", 1)])
            counted += receipts.applied
            standing = await lb.standing("b", "all")
            assert standing is not None
        return counted

    async def main() -> Any:
        async with deployment.opened_async() as lb:
            await lb.create(laurels.Board("b"))
            counted = await asyncio.gather(*(work(lb, task) for task in range(tasks)))
            await lb.check()
            return sum(counted), scores(await lb.top("b"))

    counted, totals = asyncio.run(main())
    assert counted == tasks * EACH * 3
    assert totals["all"] == tasks * EACH
    assert sum(totals.values()) == tasks * EACH * 4
