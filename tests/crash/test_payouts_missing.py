"""If the file of payouts is missing, calls about payouts fail with an error that says so, and
everything else works."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import laurels
from laurels.errors.payouts import PayoutsMissing

START_MS = 1_795_000_000_000
DAY_MS = 86_400_000
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 1], "amount": "5"}]}


def filled(folder: Path) -> laurels.ManualClock:
    """Fill a folder with a sealed day whose payout is confirmed."""
    clock = laurels.ManualClock(START_MS)
    with laurels.open(folder, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["all", {"type": "day", "prizes": PRIZES}]))
        lb.create(laurels.Board("plain"))
        lb.submit_many("b", [("ann", 3), ("bob", 2)])
        clock.advance(DAY_MS)
        lb.seal()
        [payout] = lb.payouts("b")
        lb.confirm("b", payout.id, "paid")
    return clock


def lose_payouts(folder: Path, beside: Path) -> None:
    beside.mkdir()
    for path in folder.glob("payouts.db*"):
        shutil.move(path, beside / path.name)


def test_a_missing_file_is_named_and_everything_else_works(tmp_path: Path) -> None:
    folder, beside = tmp_path / "data", tmp_path / "beside"
    clock = filled(folder)
    lose_payouts(folder, beside)
    with laurels.open(folder, clock=clock) as lb:
        day = lb.periods("b", "day")[1].label
        assert [entry.member for entry in lb.top("b", window="day", period=day)] == ["ann", "bob"]
        refused: list[Any] = [
            lambda: lb.payouts("b"),
            lambda: lb.confirm("b", "x", "paid"),
            lambda: lb.delete("b"),
            lambda: lb.erase("ann", "asked for it"),
            lambda: lb.disqualify("b", "ann", "a bot", window="day", period=day),
        ]
        for call in refused:
            with pytest.raises(PayoutsMissing, match=r"payouts\.db"):
                call()
        lb.delete("plain")
        lb.submit("b", "ann", 1)
        clock.advance(DAY_MS)
        lb.submit("b", "bob", 1)
        with pytest.raises(PayoutsMissing):
            lb.seal()
        assert lb.periods("b", "day")[1].state == "closed"
        assert not list(folder.glob("payouts.db*"))
        lb.check()
    for path in beside.iterdir():
        shutil.move(path, folder / path.name)
    with laurels.open(folder, clock=clock) as lb:
        lb.seal()
        assert [payout.reference for payout in lb.payouts("b")] == ["paid", None]


def test_an_empty_file_is_a_new_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    clock = filled(folder)
    lose_payouts(folder, tmp_path / "beside")
    with laurels.open(folder, clock=clock) as lb:
        with pytest.raises(PayoutsMissing):
            lb.payouts("b")
        (folder / "payouts.db").touch()
        assert not lb.payouts("b").payouts
        lb.submit("b", "ann", 1)
        clock.advance(DAY_MS)
        lb.seal()
        assert [payout.state for payout in lb.payouts("b")] == ["due"]
