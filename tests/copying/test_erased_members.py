"""A copy has the sealed periods from which a member was erased: with a token in the member's
places, with the same digest, and without the salts of its entries."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from unittest.mock import patch

import pytest

import laurels
from laurels import Leaderboards, ManualClock
from laurels.flows.copying.copying import copy_board
from tests.internals import copies_of
from tests.redis.servers import Server

from .pairs import opened_pair
from .seasons import DAY, START_MS, copied, play_seasons, seasons

ERASED = "m5"


def pay_and_erase(lb: Leaderboards, clock: ManualClock) -> None:
    """Confirm the payouts of a member, and erase it."""
    clock.advance(DAY)
    lb.seal()
    for payout in lb.payouts("seasons", member=ERASED, state="due", limit=500):
        lb.confirm("seasons", payout.id, "bank")
    lb.erase(ERASED, "asked for it")


@pytest.mark.parametrize(
    "names",
    [("folder", "redis"), ("http", "redis-mariadb"), ("memory", "redis-postgres")],
    ids="-to-".join,
)
def test_an_index_server_gets_periods_without_the_erased_member(
    names: tuple[str, str], tmp_path: Path
) -> None:
    clock = ManualClock(START_MS)
    with opened_pair(names, tmp_path, clock) as (source, target):
        play_seasons(source.lb, clock)
        pay_and_erase(source.lb, clock)
        assert copied(source.lb, target.lb).compared.differences == []
        before = seasons(source.lb, "seasons")
        assert f"'{ERASED}'" not in str(before)
        assert seasons(target.lb, "seasons") == before
        for info in source.lb.archived("seasons"):
            verified = [
                lb.verify("seasons", window=info.window, period=info.period)
                for lb in (source.lb, target.lb)
            ]
            assert all(each.verified for each in verified)
            assert verified[0].erased


def test_a_period_that_the_ledger_has_loses_the_member(tmp_path: Path) -> None:
    clock, ledger = ManualClock(START_MS), tmp_path / "ledger.db"
    with (
        Server() as server,
        patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": f"sqlite:////{ledger}"}),
        laurels.open(server.url + "?prefix=one:", clock=clock) as one,
        laurels.open(tmp_path / "folder", clock=clock) as folder,
        laurels.open(server.url + "?prefix=two:", clock=clock) as two,
    ):
        play_seasons(one, clock)
        copy_board(copies_of(one), copies_of(folder), "seasons")
        pay_and_erase(folder, clock)
        assert copied(folder, two).compared.differences == []
        assert seasons(two, "seasons") == seasons(folder, "seasons")
        with sqlite3.connect(ledger) as connection:
            entries = "SELECT count(*) FROM laurels_final_entries WHERE member = ?"
            assert connection.execute(entries, (ERASED,)).fetchone() == (0,)
            seals = "SELECT count(*) FROM laurels_final_periods WHERE seal LIKE ?"
            assert connection.execute(seals, (f'%"{ERASED}"%',)).fetchone() == (0,)
        for info in one.archived("seasons"):
            assert one.verify("seasons", window=info.window, period=info.period).verified
