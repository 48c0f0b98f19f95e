"""A member that everybody writes to costs the server few operations."""

from __future__ import annotations

import asyncio

import laurels
from tests.redis.servers import Server

WRITES = 10_000


def _calls(server: Server) -> dict[str, int]:
    """How often each command was carried out."""
    lines = server.call("INFO", "commandstats").decode().splitlines()
    counted = (line.partition(":") for line in lines if line.startswith("cmdstat_"))
    return {
        name.removeprefix("cmdstat_"): int(said.partition("calls=")[2].partition(",")[0])
        for name, _, said in counted
    }


def test_ten_thousand_writes_to_a_member_are_a_few_hundred_operations() -> None:
    async def main(server: Server) -> None:
        windows = ["all", "day", "rolling:1h/1m"]
        async with await laurels.open_async(server.url) as lb:
            await lb.create(laurels.Board("b", windows=windows))
            await lb.submit("b", "hot", 1)
            server.call("CONFIG", "RESETSTAT")
            receipts = await asyncio.gather(*(lb.submit("b", "hot", 1) for _ in range(WRITES)))
            counted = _calls(server)
            assert sum(counted.get(name, 0) for name in ("evalsha", "eval")) <= 30
            assert sum(counted.values()) <= 600
            # Merging changes no verdict: every write has its own score, and the last one stands.
            assert sorted(int(str(r.score)) for r in receipts) == list(range(2, WRITES + 2))
            for window in windows:
                found = await lb.standing("b", "hot", window=window)
                assert found is not None
                assert found.score == WRITES + 1

    with Server() as server:
        asyncio.run(main(server))
