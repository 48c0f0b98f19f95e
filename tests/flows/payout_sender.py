"""A process that runs until a test kills it. It has a store and a sink that sends the payouts of
this store. Meanwhile, it seals days with prizes, disqualifies members and confirms payouts. Each
line of output is a step that it has done.

    python -m tests.flows.payout_sender FOLDER URL START_MS SEED
"""

from __future__ import annotations

import asyncio
import sys
from random import Random

import laurels

from .paying import DAY_MS, HOUR_MS, prized
from .sinking import sink_of


async def play(folder: str, url: str, start_ms: int, seed: int) -> None:
    """Play one day after another while the sink runs, until the process is killed."""
    random = Random(seed)
    clock = laurels.ManualClock(start_ms)
    async with laurels.open_async(folder, clock=clock) as lb:
        await lb.create(prized(changes="1d"), exist_ok=True)
        sink = sink_of(
            lb, url, what="payouts", until_end=False, sleep=asyncio.sleep, now_ms=clock.now_ms
        )
        sending = asyncio.create_task(sink.run())
        while True:
            events = [(f"m{random.randrange(9)}", random.randint(1, 4)) for _ in range(9)]
            await lb.submit_many("b", events)
            # past the end of the day, even if the clock shows midnight
            clock.advance(DAY_MS + 1)
            step(f"at {clock.now_ms()}")
            await lb.seal()
            step("sealed")
            archived = await lb.archived("b", "day", limit=1)
            if archived and random.random() < 0.4:
                period = archived[0].period
                top = await lb.top("b", window="day", period=period)
                clock.advance(random.choice([0, HOUR_MS]))
                await lb.disqualify(
                    "b", top.entries[0].member, "chance", window="day", period=period
                )
                step("disqualified")
            clock.advance(HOUR_MS)
            await lb.seal()
            step("emitted")
            for payout in await lb.payouts("b", state="due", limit=2):
                await lb.confirm("b", payout.id, f"for {payout.id}")
            await asyncio.sleep(random.random() / 20)
            if sending.done():
                sending.result()


def step(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    asyncio.run(play(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
