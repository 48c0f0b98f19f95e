"""What rankings by a label add to the cost of an event, and the time from the acknowledgement of an
event until such a ranking shows it.

    python -m bench.redis.by_label [--events 100000] [--core 0]

Boards in one shard and in four, with and without a ranking by a label, get the same batches on one
server. Processor time is that of the server's main thread. Then single events are submitted, and
the ranking by the label is read as soon as each is acknowledged.
"""

import asyncio
from argparse import ArgumentParser
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

import laurels
from bench.redis.serving import Server, cost_of, serving
from bench.workload import Population
from laurels import config

NOW_MS = 1_795_219_200_000
BATCH = 1_000
ROOMS = 1_000
LOOKS = 300
WINDOWS = {"all": ["all"], "all, day, rolling 7d/1h": ["all", "day", "7d=rolling:7d/1h"]}


def batches(events: int, members: int) -> list[list[Any]]:
    """Return the batches of events, the same for all boards."""
    random = Random(4)
    traffic = Population(members, NOW_MS).traffic("zipf", events)
    carried = [
        (*event[:2], None, None, {"room": str(int(ROOMS ** random.random()))}) for event in traffic
    ]
    return [carried[first : first + BATCH] for first in range(0, events, BATCH)]


async def measure(
    server: Server, windows: list[str], shards: int, *, by: bool, labelled: Any
) -> None:
    """Print the cost of an event on one board."""
    clock = laurels.ManualClock(NOW_MS)
    prefix = f"{len(windows)}.{shards}.{by}:"
    async with await config.direct_async(f"{server.url}?prefix={prefix}", clock) as lb:
        rank_by = ["room"] if by else []
        await lb.create(laurels.Board("b", windows=windows, shards=shards, rank_by=rank_by))
        plain = labelled if by else [[event[:2] for event in batch] for batch in labelled]

        async def work() -> None:
            for batch in plain:
                await lb.submit_many("b", batch)

        cost = await cost_of([server], work)
        events = sum(map(len, labelled))
        server_cost = f"{1e6 * cost.server_seconds / events:.1f} µs of the server an event"
        client_cost = f"{1e6 * cost.client_seconds / events:.1f} µs of the client"
        if by:
            client_cost += (
                f"; shown {await visible_ms(lb):.2f} ms after its acknowledgement (median)"
            )
        print(f"{shards} shards, {'by room' if by else 'no label'}: {server_cost}, {client_cost}")


async def visible_ms(lb: laurels.AsyncLeaderboards) -> float:
    """Return the ms from the acknowledgement of an event until an answer includes it."""
    waits = []
    for number in range(LOOKS):
        await lb.submit("b", f"late{number}", 1, labels={"room": "late"})
        began = perf_counter()
        standing = await lb.standing("b", "late", by="room")
        waits.append(1e3 * (perf_counter() - began))
        assert standing is not None
        assert standing.score == number + 1
    return median(waits)


async def run(events: int, core: int) -> None:
    traffic = batches(events, 200_000)
    for name, windows in WINDOWS.items():
        print(name)
        for shards in (1, 4):
            for by in (False, True):
                with serving(core) as server:
                    await measure(server, windows, shards, by=by, labelled=traffic)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(run(options.events, options.core))
