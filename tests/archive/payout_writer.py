"""Seals days with prizes, confirms payouts and disqualifies members, until it is killed. Each line
of output acknowledges what is durable.

    python -m tests.archive.payout_writer FOLDER START_MS SEED
"""

from __future__ import annotations

import sys
from random import Random

import laurels

DAY_MS = 86_400_000
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": 100},
        {"name": "half", "percent": 50, "amount": 7},
        {"name": "five", "at_least": 5},
    ],
    "ties": "all",
    "pay_after": "1h",
}


def main(folder: str, start_ms: int, seed: int) -> None:
    """Write until killed."""
    random = Random(seed)
    clock = laurels.ManualClock(start_ms)
    with laurels.open(folder, clock=clock) as lb:
        window = {"name": "day", "type": "day", "prizes": PRIZES}
        lb.create(
            laurels.Board("b", tie="member", windows=[window], changes="3650d", ledger="main"),
            exist_ok=True,
        )
        while True:
            lb.submit_many(
                "b", [(f"m{random.randrange(9)}", random.randint(1, 4)) for _ in range(9)]
            )
            period = lb.periods("b")[0].label
            clock.advance(DAY_MS)
            print(f"at {clock.now_ms()}", flush=True)
            lb.seal()
            print(f"sealed {period}", flush=True)
            for payout in lb.payouts("b", state="due", limit=5):
                lb.confirm("b", payout.id, f"for {payout.id}")
                print(f"confirmed {payout.id}", flush=True)
            if random.random() < 0.5:
                member = lb.top("b", period=period).entries[0].member
                lb.disqualify("b", member, "chosen at random", period=period)
                print(f"disqualified {period} {member}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
