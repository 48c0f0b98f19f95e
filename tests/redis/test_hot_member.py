"""If many clients write to one member, the server needs only few operations, even if the clients
also write to other members."""

from __future__ import annotations

import asyncio

import laurels
from laurels.core.board_state import Boards
from laurels.core.index import Outcome, Outcomes
from laurels.model.batch import batch_of
from laurels.model.event import EventReader
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.remote import Opened
from laurels.timeline.instants import MAX_MS
from tests.internals import stop_pacing

from .asking import connected
from .servers import Server

WRITES = 10_000


def calls_of(server: Server) -> dict[str, int]:
    """Return how many times the server has carried out each command."""
    lines = server.call("INFO", "commandstats").decode().splitlines()
    counted = (line.partition(":") for line in lines if line.startswith("cmdstat_"))
    return {
        name.removeprefix("cmdstat_"): int(stats.partition("calls=")[2].partition(",")[0])
        for name, _, stats in counted
    }


def test_ten_thousand_writes_to_one_member_take_a_few_hundred_operations() -> None:
    async def main(server: Server) -> None:
        windows = ["all", "day", "rolling:1h/1m"]
        async with await laurels.open_async(server.url) as lb:
            stop_pacing(lb)
            await lb.create(laurels.Board("b", windows=windows))
            await lb.submit("b", "hot", 1)
            server.call("CONFIG", "RESETSTAT")
            receipts = await asyncio.gather(*(lb.submit("b", "hot", 1) for _ in range(WRITES)))
            counted = calls_of(server)
            assert sum(counted.get(name, 0) for name in ("evalsha", "eval")) <= 30
            assert sum(counted.values()) <= 600
            # Merging writes does not change their results: every receipt has its own score, and the
            # final score is right.
            assert sorted(int(str(r.score)) for r in receipts) == list(range(2, WRITES + 2))
            for window in windows:
                standing = await lb.standing("b", "hot", window=window)
                assert standing is not None
                assert standing.score == WRITES + 1

    with Server() as server:
        asyncio.run(main(server))


def test_waiting_batches_count_all_events_of_a_member_together() -> None:
    # Each batch has the same 500 hot members and 250 other members. Altogether there are 3,000
    # members.
    hot = [f"h{i}" for i in range(500)]
    batches = [
        [(member, 1) for member in [*hot, *(f"c{i}" for i in range(at * 250, (at + 1) * 250))]]
        for at in range(10)
    ]

    async def main(server: Server) -> None:
        async with await laurels.open_async(server.url) as lb:
            stop_pacing(lb)
            await lb.create(laurels.Board("b", windows=["all", "day"]))
            first = asyncio.create_task(lb.submit_many("b", batches[0]))
            await asyncio.sleep(0)
            server.call("CONFIG", "RESETSTAT")
            receipts = await asyncio.gather(*(lb.submit_many("b", b) for b in batches[1:]))
            counted = calls_of(server)
            # 2,750 members need 3 calls. If each call had the hot members again, 7 calls would be
            # needed.
            assert sum(counted.get(name, 0) for name in ("evalsha", "eval")) <= 3 + 2
            for at, batch_receipts in enumerate([await first, *receipts]):
                assert [receipt.member for receipt in batch_receipts] == [
                    member for member, _ in batches[at]
                ]
                assert batch_receipts.applied == len(batches[at])
                assert [str(receipt.score) for receipt in batch_receipts] == [str(at + 1)] * 500 + [
                    "1"
                ] * 250
            for window in ("all", "day"):
                page = await lb.top("b", window=window, limit=501)
                assert [str(entry.score) for entry in page.entries] == ["10"] * 500 + ["1"]

    with Server() as server:
        asyncio.run(main(server))


def test_merged_events_are_counted_singly_if_a_total_leaves_the_range() -> None:
    board = laurels.Board("b", columns=[laurels.Column(min=0, max=10)])
    events = [("a", 5), ("a", 7), ("b", 3), ("a", 2)]

    async def main(server: Server) -> None:
        async with await laurels.open_async(server.url) as lb:
            await lb.create(board)
            for batch, wanted in [
                (events, [(5, "applied"), (5, "refused"), (3, "applied"), (7, "applied")]),
                ([("a", 1), ("b", 1)], [(8, "applied"), (4, "applied")]),
            ]:
                receipts = await lb.submit_many("b", batch)
                assert [(receipt.score, receipt.status) for receipt in receipts] == wanted
            refused = await lb.submit_many("b", [("a", 2), ("a", 1), ("b", 9)])
            assert [receipt.reason for receipt in refused] == [
                None,
                "total_out_of_range",
                "total_out_of_range",
            ]
            page = await lb.top("b")
            assert [(entry.member, entry.score) for entry in page.entries] == [("a", 10), ("b", 4)]

    with Server() as server:
        asyncio.run(main(server))


def test_without_a_watched_window_no_scores_are_reported(server: Server) -> None:
    async def main() -> None:
        async with connected(server.url, 2_000) as connection:
            index = RedisIndex(connection, "laurels:")
            boards = Boards()
            state = boards.open(laurels.Board("b"), 1, 1, 0)
            board = Opened(1, 1, state.rules)
            await index.open(board)
            columns = EventReader(state.rules).gather([("a", 1), ("a", 2)])
            batch = batch_of(columns, 1, 10)
            plan = boards.plan(batch)
            applied = await index.apply(board, batch, plan, None, ranks=True, due_ms=MAX_MS)
            assert applied.outcomes == Outcomes(bytearray([Outcome.APPLIED] * 2))
            assert applied.ranks_after is None

    asyncio.run(main())
