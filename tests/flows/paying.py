"""Boards with payouts for the tests of sinks, and receivers that count them."""

from __future__ import annotations

from typing import Any

import laurels

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = 1_795_176_000_000  # 2026-11-20T12:00Z
DAY = "2026-11-20"
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "pay_after": "1h",
}


def prized(name: str = "b", **fields: Any) -> laurels.Board:
    """Return a board that awards prizes every day."""
    day = {"name": "day", "type": "day", "prizes": PRIZES}
    return laurels.Board(name, **{"tie": "member", "windows": ["all", day], **fields})


async def play_day(lb: laurels.AsyncLeaderboards, clock: laurels.ManualClock, *names: str) -> None:
    """Let ann and bob win a day on some boards, and wait until its payouts are due."""
    for name in names or ("b",):
        await lb.submit_many(name, [("ann", 9), ("bob", 8), ("cid", 7)])
    clock.advance(DAY_MS)
    await lb.seal()
    clock.advance(HOUR_MS)
    await lb.seal()  # this also emits the payouts that are due


async def due_ids(lb: laurels.AsyncLeaderboards) -> list[str]:
    """Return the ids of all due payouts."""
    ids: list[str] = []
    after: str | None = None
    while True:
        page = await lb.due_payouts(after=after)
        ids += [each.id for each in page]
        if (after := page.next) is None:
            return ids


def paid(documents: list[Any]) -> list[str]:
    """Return the ids of the payouts among messages, each once."""
    return [*dict.fromkeys([each["id"] for each in documents if each.get("kind") == "payout"])]
