"""Every kind of server that is installed here does what boards need of it."""

from __future__ import annotations

import shutil

import pytest

import laurels
from laurels import config
from laurels.index.redis.failures import IndexTooOld

from .servers import Server
from .writing import Writers, again

KINDS = ("redis-server", "redis-server-6.2", "redis-server-8", "valkey-server", "keydb-server")


@pytest.mark.parametrize("kind", KINDS)
def test_boards_live_on_a_server_of_any_kind(kind: str) -> None:
    binary = shutil.which(kind)
    if binary is None:
        pytest.skip(f"{kind} is not installed")
    with Server("--appendfsync", "always", binary=binary) as server:
        try:
            lb = config.direct(server.url)
        except IndexTooOld:
            pytest.skip(f"{kind} is older than what is needed")
        with lb:
            windows = ["all", "day", "r=rolling:1h/1m"]
            lb.create(laurels.Board("b", windows=windows, rank="dense"))
            with Writers(lb) as writers:
                writers.wait_for_more()
                server.restart()
                writers.wait_for_more()
            again(lb)
            writers.check()
            for window in windows:
                name = window.partition("=")[0]
                assert lb.top("b", window=name).total == lb.top("b").total
            assert lb.remove("b", writers.acknowledged[0])
            lb.check()
