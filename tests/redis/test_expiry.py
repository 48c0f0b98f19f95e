"""Under the server's clock, the keys of periods that are over expire without any call."""

from __future__ import annotations

import time
from typing import Any

import pytest

import laurels
from laurels.model.rules import Rules
from laurels.model.windows.calendar import Calendar
from laurels.stores.redis.index import coding
from laurels.stores.redis.index.coding import EXPIRY_MARGIN_MS
from laurels.stores.redis.index.node_clock import NodeClock

from .servers import Server, until

pytestmark = pytest.mark.usefixtures("emptied")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NONE = -1
"""What TTL answers of a key that stays."""
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"tie": "member"},
    "prefixed": {},
    "dense": {"rank": "dense"},
    "shards": {"shards": 3},
    "scopes": {"scopes": [[], ["room"]]},
    "by label": {"shards": 3, "scopes": [[], ["room"]], "rank_by": ["room"]},
}
layouts = pytest.mark.parametrize("fields", LAYOUTS.values(), ids=LAYOUTS)
WINDOWS = ["all", "hour=hour:keep=3", "r=rolling:3h/1h"]


def events(fields: dict[str, Any], count: int = 12) -> list[tuple[Any, ...]]:
    labels = {"room": "r"} if "scopes" in fields else None
    return [(f"m{i}", 1 + i, None, f"id{i}", labels) for i in range(count)]


def lives(server: Server) -> dict[str, int]:
    """Return the seconds until each key of a board expires."""
    found = server.call("KEYS", "laurels:{1.?}:*")
    names = [key.decode() for key in found if b"}:a:" not in key]
    return {name: server.call("TTL", name) for name in names}


def is_of_period(name: str) -> bool:
    kind, _, rest = name.partition("}:")[2].partition(":")
    return kind in {"r", "k", "d", "n"} and rest.startswith("hour")


def hour_window(keep: int) -> Calendar:
    rules: Rules = laurels.Board("b", windows=[f"hour:keep={keep}"]).rules()
    window = rules.windows["hour"]
    assert isinstance(window, Calendar)
    return window


@layouts
def test_keys_of_periods_expire_and_no_others(server: Server, fields: dict[str, Any]) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS, **fields))
        lb.submit_many("b", events(fields))
        lb.set_data("b", "m1", {"a": 1})
        found = lives(server)
        of_periods = {name for name in found if is_of_period(name)}
        assert of_periods
        assert {name for name, ttl in found.items() if ttl != NONE} == of_periods
        least = (3 * HOUR_MS + EXPIRY_MARGIN_MS - HOUR_MS) // 1_000
        assert all(least < found[name] < 3 * DAY_MS // 1_000 for name in of_periods)


@layouts
def test_keys_that_earlier_versions_left_get_their_expiry(
    server: Server, fields: dict[str, Any]
) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS, **fields))
        lb.submit_many("b", events(fields))
        for name in filter(is_of_period, lives(server)):
            server.call("PERSIST", name)
        lb.submit_many(
            "b", [(member, 1, None, None, labels) for member, *_, labels in events(fields)]
        )
        found = lives(server)
        assert NONE not in [found[name] for name in found if is_of_period(name)]


@layouts
def test_keeping_more_periods_has_those_there_are_stay_longer(
    server: Server, fields: dict[str, Any]
) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS, **fields))
        lb.submit_many("b", events(fields))
        before = lives(server)
        lb.change("b", windows=["all", "hour=hour:keep=1000", "r=rolling:3h/1h"])
        found = lives(server)
        for name in filter(is_of_period, before):
            assert found[name] - before[name] >= 996 * HOUR_MS // 1_000
        lb.submit_many("b", events(fields))
        assert lives(server).keys() >= before.keys()


def test_a_period_of_a_board_that_nobody_touches_is_gone_in_the_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms, lives_ms = time.time_ns() // 1_000_000, hour_window(1).lives_ms
    start_ms = (now_ms - lives_ms) // HOUR_MS * HOUR_MS - HOUR_MS
    margin_ms = now_ms + 3_000 - start_ms - lives_ms
    monkeypatch.setattr(coding, "EXPIRY_MARGIN_MS", margin_ms)
    monkeypatch.setattr(NodeClock, "now_ms", lambda _: start_ms)
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=["all", "hour=hour:keep=1"], rank="dense"))
        lb.submit("b", "ann", 1)
    until(lambda: not any(map(is_of_period, lives(server))), "it is gone", 60)
    assert any("r:all" in name for name in lives(server))


def test_what_expired_is_no_longer_listed_after_the_next_boundary(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.time_ns() // 1_000_000]
    monkeypatch.setattr(NodeClock, "now_ms", lambda _: now[0])
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=["all", "hour=hour:keep=1"]))
        lb.submit("b", "ann", 1)
        (key,) = server.call("KEYS", "laurels:{1.0}:r:hour:*")
        server.call("UNLINK", key)
        now[0] += 3 * HOUR_MS
        lb.submit("b", "bob", 1)
        listed = server.call("SMEMBERS", "laurels:{1.0}:i")
        assert key.rpartition(b":r:")[2] not in listed
        assert len(listed) == 2


@pytest.mark.parametrize("clock", ["event", laurels.ManualClock(1_700_000_000_000)])
def test_under_another_clock_nothing_expires(server: Server, clock: Any) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS))
        lb.submit("b", "ann", 1, at=1_700_000_000_000)
        assert {*lives(server).values()} == {NONE}


@pytest.mark.parametrize("unit", ["hour", "day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"])
@pytest.mark.parametrize("keep", [1, 2, 30])
def test_a_period_lives_for_as_long_as_it_is_read(unit: str, tz: str, keep: int) -> None:
    rules = laurels.Board("b", windows=[f"w={unit}:keep={keep}"], tz=tz, grace="0s").rules()
    window = rules.windows["w"]
    assert isinstance(window, Calendar)
    for start in range(0, 1_800_000_000_000, 71 * DAY_MS + 7 * HOUR_MS):
        period = window.period_at(start)
        last = period
        for _ in range(keep - 1):
            last = window.period_at(last.end_ms)
        needed = last.end_ms - period.start_ms
        assert needed <= window.lives_ms <= needed * 1.25 + 3 * DAY_MS
