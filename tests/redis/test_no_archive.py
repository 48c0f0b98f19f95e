"""On an index server, archives and prizes without a ledger are refused with an error that names
them."""

from __future__ import annotations

from pathlib import Path

import pytest

import laurels
from laurels.errors.index_server import LedgerRequired, NotOnIndexServer, UnknownLedger
from tests.contract.deployments import OnRedis
from tests.internals import local, remote

PRIZES = {"type": "day", "prizes": {"list": [{"name": "gold", "ranks": [1, 1]}]}}


@pytest.mark.parametrize("window", ["day:archive=forever", PRIZES])
def test_an_archive_is_refused(tmp_path: Path, window: object) -> None:
    place = OnRedis(tmp_path, laurels.ManualClock(1_795_188_600_000))
    with laurels.open(place.url, clock=place.clock) as lb:
        with pytest.raises(LedgerRequired, match="'day'"):
            lb.create({"name": "b", "windows": [window]})
        lb.create(laurels.Board("b", windows=["day"]))
        with pytest.raises(LedgerRequired, match="ledger"):
            lb.change("b", windows=[window])
        assert lb.get("b").windows == ("day",)
        assert lb.seal() == laurels.Sealed(0, 0)
        with laurels.open("memory:") as here:
            here.create({"name": "c", "windows": [window]})
            origin = local(here).copies.origin("c")
        with pytest.raises(LedgerRequired, match="archive"):
            remote(lb).copies.begin(origin)
        with pytest.raises(UnknownLedger):
            lb.create({"name": "d", "windows": [window], "ledger": "unknown"})
    place.close()


def test_boundaries_of_a_rolling_window_are_refused(tmp_path: Path) -> None:
    place = OnRedis(tmp_path, laurels.ManualClock(1_795_188_600_000))
    window = "7d=rolling:7d/1h,archive=forever,archive_every=1d"
    with laurels.open(place.url, clock=place.clock) as lb:
        for ledger in ("", "unknown"):
            with pytest.raises(NotOnIndexServer, match="'7d' is a rolling window with an archive"):
                lb.create(laurels.Board("b", windows=[window], ledger=ledger))
        lb.create(laurels.Board("b", windows=["7d=rolling:7d/1h"]))
        with pytest.raises(NotOnIndexServer, match="'7d'"):
            lb.change("b", windows=[window])
    place.close()
