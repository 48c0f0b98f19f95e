"""An index server refuses archives and prizes of boards without a ledger, and kept boundaries of
rankings by a label in several shards. The error names what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_boundaries_of_rankings_by_a_label_in_several_shards_are_refused(tmp_path: Path) -> None:
    place = OnRedis(tmp_path, laurels.ManualClock(1_795_188_600_000))
    windows = ["7d=rolling:7d/1h,archive=forever,archive_every=1d"]
    fields: dict[str, Any] = {"scopes": [[], ["team"]], "rank_by": "team", "ledger": "main"}
    with laurels.open(place.url, clock=place.clock) as lb:
        with pytest.raises(NotOnIndexServer, match="'7d' has archive_every"):
            lb.create(laurels.Board("b", windows=windows, shards=2, **fields))
        lb.create(laurels.Board("c", windows=["7d=rolling:7d/1h"], shards=2, **fields))
        with pytest.raises(NotOnIndexServer, match="'7d' has archive_every"):
            lb.change("c", windows=windows)
        lb.create(laurels.Board("b", windows=windows, **fields))
    place.close()
