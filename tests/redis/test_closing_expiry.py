"""If a window closes its periods, the keys of a period stay until the period is sealed. The seal
lets them expire by the server's clock, without any further call."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.stores.redis.index.node_clock import NodeClock
from laurels.stores.redis.index.period_expiry import PeriodExpiry
from tests.internals import remote
from tests.redis.servers import Server
from tests.redis.test_expiry import DAY_MS, HOUR_MS, NONE, lives

pytestmark = pytest.mark.usefixtures("emptied")

LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"tie": "member"},
    "dense": {"rank": "dense"},
    "shards": {"shards": 3},
    "scopes": {"scopes": [[], ["room"]]},
    "by label": {"shards": 3, "scopes": [[], ["room"]], "rank_by": ["room"]},
}
HEAD: dict[str, Any] = {"head": 100, "rank": "competition", "tie": "member"}
layouts = pytest.mark.parametrize("fields", LAYOUTS.values(), ids=LAYOUTS)
ARCHIVED = ["all", "hour=hour:keep=2,archive=forever"]
ENOUGH = (2 * HOUR_MS + DAY_MS - HOUR_MS) // 1_000
"""Keys of a period that has just ended stay at least this many seconds after its seal."""


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "ledger.db"
    with patch.dict(os.environ, {"LAURELS_LEDGER_MAIN": f"sqlite:////{file}"}):
        yield file


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of the processes, which begins with that of the server."""
    now = [time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS]
    monkeypatch.setattr(NodeClock, "now_ms", lambda _: now[0])
    return now


def fill(lb: laurels.Leaderboards, fields: dict[str, Any]) -> None:
    labels = {"room": "r"} if "scopes" in fields else None
    lb.submit_many("b", [(f"m{i}", 1 + i, None, None, labels) for i in range(12)])


def of_period(server: Server, start_ms: int) -> dict[str, int]:
    """Return the seconds after which each key of a period expires."""
    ttls = {name: ttl for name, ttl in lives(server).items() if name.endswith(f":{start_ms}")}
    kinds = ("}:r:hour", "}:k:hour", "}:g:hour")
    return {name: ttl for name, ttl in ttls.items() if any(kind in name for kind in kinds)}


def work(lb: laurels.Leaderboards) -> None:
    """Do the due work of boards, without sealing."""
    remote(lb).run(remote(lb)._catalog.work(10_000))


@layouts
def test_the_seal_lets_the_keys_of_a_period_expire(
    server: Server, now: list[int], fields: dict[str, Any]
) -> None:
    start_ms = now[0]
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=ARCHIVED, grace=0, ledger="main", **fields))
        fill(lb, fields)
        now[0] += HOUR_MS + 1
        work(lb)
        before = of_period(server, start_ms)
        assert before
        assert {*before.values()} == {NONE}
        lb.seal()
        after = of_period(server, start_ms)
        assert after.keys() == before.keys()
        assert all(ENOUGH < ttl < ENOUGH + 2 * DAY_MS // 1_000 for ttl in after.values())
        lb.change("b", windows=["all", "hour=hour:keep=1000,archive=forever"])
        work(lb)
        assert all(ttl > 990 * HOUR_MS // 1_000 for ttl in of_period(server, start_ms).values())


@layouts
def test_the_expiry_is_set_later_if_a_process_fails_after_the_seal(
    server: Server, now: list[int], fields: dict[str, Any]
) -> None:
    start_ms = now[0]
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=ARCHIVED, grace=0, ledger="main", **fields))
        fill(lb, fields)
        now[0] += HOUR_MS + 1
        killed = patch.object(PeriodExpiry, "expire_sealed", side_effect=RuntimeError)
        with killed, pytest.raises(RuntimeError):
            lb.seal()
        assert [period.state for period in lb.periods("b", "hour")] == ["open", "sealed"]
        assert {*of_period(server, start_ms).values()} == {NONE}
    with laurels.open(server.url) as lb:
        assert lb.seal() == laurels.Sealed(0, 0)
        ttls = of_period(server, start_ms)
        assert ttls
        assert all(ttl > ENOUGH for ttl in ttls.values())
        with patch.object(PeriodExpiry, "expire_sealed") as again:
            lb.seal()
        assert not again.called


@layouts
def test_keys_of_a_period_that_is_sealed_late_stay_for_a_day(
    server: Server, now: list[int], ledger: Path, fields: dict[str, Any]
) -> None:
    start_ms = now[0] = now[0] - 100 * DAY_MS
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=ARCHIVED, grace=0, ledger="main", **fields))
        fill(lb, fields)
        now[0] += 100 * DAY_MS
        ledger.mkdir()
        work(lb)
        assert {*of_period(server, start_ms).values()} == {NONE}
        ledger.rmdir()
        lb.seal()
        ttls = of_period(server, start_ms)
        assert ttls
        assert all(DAY_MS // 1_000 - 7_200 < ttl <= DAY_MS // 1_000 for ttl in ttls.values())


@pytest.mark.parametrize("fields", [*LAYOUTS.values(), HEAD], ids=[*LAYOUTS, "head"])
def test_unsealed_periods_of_a_window_without_its_archive_stay(
    server: Server, now: list[int], ledger: Path, fields: dict[str, Any]
) -> None:
    """The periods stay until the ledger has them, whatever due work, writes and changes come
    before."""
    start_ms = now[0]
    ledger.mkdir()
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=ARCHIVED, grace=0, ledger="main", **fields))
        fill(lb, fields)
        now[0] += HOUR_MS + 1
        work(lb)
        lb.change("b", windows=["all", "hour=hour:keep=2"])
        for hours in range(1, 5):
            now[0] = start_ms + hours * HOUR_MS + 1
            fill(lb, fields)
            work(lb)
            if hours == 2:
                lb.change("b", windows=["all", "hour=hour:keep=3"])
                lb.change("b", ends=now[0] + 100 * DAY_MS)
                lb.change("b", retain="1d")
                lb.change("b", retain="2d", title="More")
            unsealed = of_period(server, start_ms)
            assert unsealed
            assert {*unsealed.values()} == {NONE}
        running = of_period(server, start_ms + 4 * HOUR_MS)
        assert running
        assert NONE not in running.values()
        ledger.rmdir()
        lb.seal()
        assert len(lb.top("b", window="hour", period=lb.archived("b")[0].period, limit=100)) == 12
        sealed = of_period(server, start_ms)
        assert sealed
        assert NONE not in sealed.values()


@layouts
def test_the_last_seal_lets_a_board_expire_that_nobody_removes(
    server: Server, now: list[int], fields: dict[str, Any]
) -> None:
    ends_ms = now[0] + HOUR_MS
    with laurels.open(server.url) as lb:
        limits: dict[str, Any] = {"ends": ends_ms, "retain": "1d", "grace": 0}
        lb.create(laurels.Board("b", windows=ARCHIVED, ledger="main", **limits, **fields))
        fill(lb, fields)
        lb.set_data("b", "m1", {"a": 1})
        now[0] = ends_ms + 1
        work(lb)
        ttls = lives(server)
        assert all(ttl == NONE or ttl > 1_000 * DAY_MS // 1_000 for ttl in ttls.values())
        lb.seal()
        last = (ends_ms + 2 * DAY_MS - time.time_ns() // 1_000_000) // 1_000
        state = (":m", ":cl", ":p", ":hh", ":hs")  # the board can be restored from these keys
        ttls = {name: ttl for name, ttl in lives(server).items() if not name.endswith(state)}
        assert ttls
        assert all(0 < ttl <= last + 60 for ttl in ttls.values()), ttls


@layouts
@pytest.mark.parametrize("taken", [False, True])
def test_a_board_with_open_payouts_does_not_expire(
    server: Server, now: list[int], fields: dict[str, Any], *, taken: bool
) -> None:
    """This holds whether the definition still has the prizes or they were taken from it."""
    ends_ms = now[0] + HOUR_MS
    prizes = {"list": [{"name": "gold", "ranks": [1, 1]}]}
    with laurels.open(server.url) as lb:
        limits: dict[str, Any] = {"ends": ends_ms, "retain": "1d", "grace": 0}
        windows: list[Any] = [{"name": "all", "type": "all", "prizes": prizes}]
        lb.create(laurels.Board("b", windows=windows, ledger="main", **limits, **fields))
        fill(lb, fields)
        if taken:
            lb.change("b", windows=["all:archive=forever"])
        now[0] = ends_ms + 1
        lb.seal()
        work(lb)
        ttls = lives(server)
        assert all(ttl == NONE or ttl > 1_000 * DAY_MS // 1_000 for ttl in ttls.values()), ttls
