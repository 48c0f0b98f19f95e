"""Payouts after a rewind, after a backup that was taken during a correction, and after a failed
write: the winners of a period are paid, and nobody else."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import laurels
from laurels.config import folders
from laurels.errors import Closed, StorageFailed
from laurels.stores.local.payouts.table import PayoutTable

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = 1_795_176_000_000  # 2026-11-20T12:00Z
DAY = "2026-11-20"
PRIZES = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": 100},
        {"name": "silver", "ranks": [2, 2], "amount": 50},
    ],
    "pay_after": "1h",
}


def opened(folder: Path, now_ms: int) -> tuple[laurels.Leaderboards, laurels.ManualClock]:
    clock = laurels.ManualClock(now_ms)
    return laurels.open(str(folder), clock=clock), clock


def sealed(folder: Path) -> tuple[laurels.Leaderboards, laurels.ManualClock]:
    """Seal a day in which ann and bob win."""
    lb, clock = opened(folder, NOON_MS)
    windows: list[str | dict[str, object]] = ["all", {"type": "day", "prizes": PRIZES}]
    lb.create(laurels.Board("b", windows=windows, tie="member"))
    lb.submit_many("b", [("ann", 5), ("bob", 4), ("cid", 3), ("dot", 2)])
    clock.advance(DAY_MS)
    assert lb.seal().sealed == 1
    return lb, clock


def owed(lb: laurels.Leaderboards) -> dict[str, Decimal]:
    """Return the sum of each member's payouts that are not superseded, without zeros."""
    sums = Counter[str]()
    for payout in lb.payouts("b", limit=1_000):
        if payout.state != "superseded":
            sums[payout.member] += Decimal(payout.amount or 0)  # type: ignore[assignment]
    return {member: Decimal(amount) for member, amount in sums.items() if amount}


@pytest.mark.parametrize("corrected", [False, True])
def test_a_rewound_folder_pays_the_winners_of_the_repeated_day(
    tmp_path: Path, corrected: bool
) -> None:
    lb, _ = sealed(tmp_path / "data")
    if corrected:
        lb.disqualify("b", "ann", "a bot", window="day", period=DAY)
    lb.close()
    folders.rewind(str(tmp_path / "data"), NOON_MS + HOUR_MS, dry_run=False)
    lb, clock = opened(tmp_path / "data", NOON_MS + HOUR_MS)
    with lb:
        assert owed(lb) == {}
        lb.submit_many("b", [("cid", 50), ("dot", 40)])
        clock.advance(DAY_MS)
        lb.seal()
        assert owed(lb) == {"cid": 100, "dot": 50}
        clock.advance(2 * HOUR_MS)
        assert lb.disqualify("b", "cid", "a bot", window="day", period=DAY).revision == 1
        assert owed(lb) == {"dot": 100, "ann": 50}


def test_a_payment_stays_recorded_after_a_rewind(tmp_path: Path) -> None:
    lb, clock = sealed(tmp_path / "data")
    clock.advance(2 * HOUR_MS)
    lb.confirm("b", lb.payouts("b", member="ann")[0].id, "bank-1")
    lb.close()
    folders.rewind(str(tmp_path / "data"), NOON_MS + HOUR_MS, dry_run=False)
    lb, _ = opened(tmp_path / "data", NOON_MS + HOUR_MS)
    with lb:
        [payout] = lb.payouts("b")
        assert (payout.member, payout.reference) == ("ann", "bank-1")


def test_a_seal_whose_payouts_cannot_be_written_is_folded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lb, clock = opened(tmp_path / "data", NOON_MS)
    for name in ("b", "c"):
        windows: list[str | dict[str, object]] = ["all", {"type": "day", "prizes": PRIZES}]
        lb.create(laurels.Board(name, windows=windows, tie="member"))
        lb.submit_many(name, [("ann", 5), ("bob", 4)])
    clock.advance(DAY_MS)

    def full(*_: object) -> None:
        raise StorageFailed("payouts.db: the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(PayoutTable, "publish", full)
        with pytest.raises(Closed):
            lb.seal()
    with pytest.raises(Closed):
        lb.delete("b")
    lb.close()
    lb, _ = opened(tmp_path / "data", clock.now_ms())
    with lb:
        for name in ("b", "c"):
            assert [payout.member for payout in lb.payouts(name)] == ["ann", "bob"]
