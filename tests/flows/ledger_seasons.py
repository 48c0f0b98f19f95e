"""A board with seasons in memory, and its ledger."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import laurels
from laurels.core.payouts import payout_of
from laurels.core.sealed_contents import DigestOfPieces
from laurels.sql import hidden_rows, payout_rows
from laurels.sql.databases import dialect_of
from laurels.sql.final_reading import FinalReader

from .sinking import rows

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
TODAY = "2026-11-20"
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "pay_after": "1h",
}


def board(**fields: Any) -> laurels.Board:
    windows = ["all", {"name": "day", "type": "day", "keep": 2, "prizes": PRIZES}, "month"]
    return laurels.Board(
        "b", **{"windows": windows, "changes": "60d", "scopes": [[], ["room"]], **fields}
    )


class Seasons:
    """A board in memory and its ledger."""

    def __init__(self, url: str, **fields: Any) -> None:
        self.url = url
        self.dialect, self.prefix = dialect_of(url)
        self.clock = laurels.ManualClock(NOW_MS)
        self.board = board(**fields)

    async def open(self) -> laurels.AsyncLeaderboards:
        self.lb = await laurels.open_async("memory:", clock=self.clock)
        await self.lb.create(self.board)
        return self.lb

    async def play(self, members: int = 5) -> None:
        await self.lb.submit_many(
            "b", [(f"m{i}", i, None, None, {"room": "a"}) for i in range(members)]
        )

    async def end_day(self) -> None:
        self.clock.advance(DAY)
        await self.lb.seal()

    def table(self, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        return rows(self.url, f"SELECT {columns} FROM {self.prefix}{name}")

    def execute(self, *statements: str) -> None:
        """Execute a statement in the database of the ledger."""
        with closing(self.dialect.connect()) as connection:
            for statement in statements:
                self.dialect.execute(connection, statement)
            connection.commit()

    async def ensure_equal(self) -> None:
        """Compare the sealed periods, the payouts and the hidden members of ledger and store."""
        with closing(self.dialect.connect()) as connection:
            reader = FinalReader(self.dialect, self.prefix, connection)
            [uid] = {row[0] for row in self.table("final_periods", "uid")} or {""}
            stored = reader.periods(uid)
            listed = await self.lb.archived("b")
            assert {
                (p.revision.window, p.revision.instance, p.revision.seal.digest.hex())
                for p in stored
                if p.is_current
            } == {(each.window, each.start_ms, each.digest) for each in listed}
            assert len(stored) == sum(each.revision + 1 for each in listed)
            for period in stored:
                digest = DigestOfPieces()
                for piece in reader.pieces(period):
                    digest.add(piece)
                assert digest.digest() == period.revision.seal.digest
        payouts = await self.lb.payouts("b", limit=2_000)
        now_ms = self.clock.now_ms()
        found = [
            payout_rows.payout_of_row(row) for row in self.table("payouts", payout_rows.SELECTED)
        ]
        assert {each.id: payout_of(each, now_ms) for each in found} == {
            payout.id: payout for payout in payouts
        }
        hidden = dict(map(hidden_rows.hiding_of_row, self.table("hidden", hidden_rows.SELECTED)))
        assert {member: hiding.reason for member, hiding in hidden.items()} == {
            each.member: each.reason for each in await self.lb.hidden("b")
        }
