"""The keys of ended periods expire by the server's clock, without any call."""

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
from tests.counts import covering

from .servers import Server, until

pytestmark = pytest.mark.usefixtures("emptied")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NONE = -1
"""The TTL of a key that does not expire."""
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
    """Return the seconds after which each key of the board expires."""
    keys = server.call("KEYS", "laurels:{1.?}:*")
    names = [key.decode() for key in keys if b"}:a:" not in key]
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
        ttls = lives(server)
        of_periods = {name for name in ttls if is_of_period(name)}
        assert of_periods
        assert {name for name, ttl in ttls.items() if ttl != NONE} == of_periods
        least = (3 * HOUR_MS + EXPIRY_MARGIN_MS - HOUR_MS) // 1_000
        assert all(least < ttls[name] < 3 * DAY_MS // 1_000 for name in of_periods)


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
        ttls = lives(server)
        assert NONE not in [ttls[name] for name in ttls if is_of_period(name)]


@layouts
def test_raising_keep_extends_the_expiry_of_existing_periods(
    server: Server, fields: dict[str, Any]
) -> None:
    with laurels.open(server.url) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS, **fields))
        lb.submit_many("b", events(fields))
        before = lives(server)
        lb.change("b", windows=["all", "hour=hour:keep=1000", "r=rolling:3h/1h"])
        ttls = lives(server)
        for name in filter(is_of_period, before):
            assert ttls[name] - before[name] >= 996 * HOUR_MS // 1_000
        lb.submit_many("b", events(fields))
        assert lives(server).keys() >= before.keys()


def test_a_period_of_an_unused_board_expires(
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
    until(
        lambda: not any(map(is_of_period, lives(server))), "the keys of the period have expired", 60
    )
    assert any("r:all" in name for name in lives(server))


def test_expired_rankings_are_not_listed_after_the_next_boundary(
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
def test_no_key_expires_if_the_boards_have_a_clock_of_their_own(server: Server, clock: Any) -> None:
    with laurels.open(server.url, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=WINDOWS))
        lb.submit("b", "ann", 1, at=1_700_000_000_000)
        assert {*lives(server).values()} == {NONE}


@pytest.mark.parametrize(
    ("unit", "tz", "keep"),
    covering(
        ["hour", "day", "week", "month", "quarter", "year"],
        ["UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"],
        [1, 2, 30],
    ),
)
def test_a_period_does_not_expire_while_it_is_readable(unit: str, tz: str, keep: int) -> None:
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


REMOVED: dict[str, dict[str, Any]] = {
    **LAYOUTS,
    "head": {"head": 100, "windows": ["all", "hour=hour:keep=3"]},
    "best": {
        "columns": [laurels.Column("score", op="best")],
        "windows": ["all", "r=rolling:3h/1h"],
    },
    "decay": {"windows": ["decay:1h", "f=rolling:3h/1h,refresh=10m"]},
    "changes": {"changes": "1h"},
}
removed = pytest.mark.parametrize("fields", REMOVED.values(), ids=REMOVED)


def fill(lb: laurels.Leaderboards, fields: dict[str, Any]) -> None:
    lb.submit_many("b", events(fields), position=("source", "1"))
    lb.set_data("b", "m1", {"a": 1})


def removed_after(server: Server, ms: int) -> None:
    """Assert that each key of the board expires after `ms` plus a margin of a day. Keys of changes
    may expire earlier."""
    ttls = lives(server)
    expected = (ms + EXPIRY_MARGIN_MS) // 1_000
    wrong = {name: ttl for name, ttl in ttls.items() if not expected - 100 < ttl <= expected + 1}
    assert not {name for name in wrong if not name.endswith(("}:h", "}:hx"))}, (wrong, expected)
    assert len(ttls) > 4


@removed
def test_every_key_of_a_board_that_is_removed_expires_with_it(
    server: Server, fields: dict[str, Any]
) -> None:
    now_ms = time.time_ns() // 1_000_000
    with laurels.open(server.url) as lb:
        limits = {"ends": now_ms + 9 * HOUR_MS, "retain": "1d"}
        lb.create(laurels.Board("b", **{"windows": WINDOWS, **limits, **fields}))
        fill(lb, fields)
        removed_after(server, 33 * HOUR_MS)
        lb.remove("b", "m2")
        lb.submit_many("b", [(m, v + 1, None, None, labels) for m, v, *_, labels in events(fields)])
        removed_after(server, 33 * HOUR_MS)


@removed
def test_keys_expire_later_or_earlier_when_the_removal_changes(
    server: Server, fields: dict[str, Any]
) -> None:
    now_ms = time.time_ns() // 1_000_000
    with laurels.open(server.url) as lb:
        lb.create(
            laurels.Board("b", **{"windows": WINDOWS, "ends": now_ms + 9 * HOUR_MS, **fields})
        )
        fill(lb, fields)
        for hours in (48, 24, 72):
            also = {"hide_zero": hours == 24} if "head" in fields else {}
            lb.change("b", retain=hours * HOUR_MS, **also)
            removed_after(server, (9 + hours) * HOUR_MS)
        lb.change("b", ends=now_ms + 19 * HOUR_MS)
        removed_after(server, 91 * HOUR_MS)
        lb.change("b", retain="")
        ttls = {name: ttl for name, ttl in lives(server).items() if "}:h" not in name}
        assert all(ttl == NONE or ttl > 20_000 * DAY_MS // 1_000 for ttl in ttls.values())
        fill(lb, fields)


def test_an_unused_board_is_removed_from_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coding, "EXPIRY_MARGIN_MS", 0)
    ends_ms = time.time_ns() // 1_000_000 + 2_000
    with laurels.open(server.url) as lb:
        fields: dict[str, Any] = {"scopes": [[], ["room"]]}
        lb.create(laurels.Board("b", windows=WINDOWS, ends=ends_ms, grace=0, retain=0, **fields))
        fill(lb, fields)
        assert lives(server)
    until(lambda: not lives(server), "all keys of the board have expired", 60)


def test_one_process_removes_a_board_that_another_created(server: Server) -> None:
    clock, other = laurels.ManualClock(0), laurels.ManualClock(0)
    with laurels.open(server.url, clock=clock) as lb, laurels.open(server.url, clock=other) as two:
        lb.create(laurels.Board("b", windows=WINDOWS, ends=HOUR_MS, retain="1d"))
        lb.create(laurels.Board("other"))
        lb.submit("b", "ann", 1)
        assert two.rank("b", "ann") == 1
        clock.set(HOUR_MS + DAY_MS)
        other.set(HOUR_MS + DAY_MS)
        lb.submit("other", "ann", 1)
        assert not lives(server)
        with pytest.raises(laurels.errors.UnknownBoard):
            two.rank("b", "ann")
        two.create(laurels.Board("b"))
        assert lb.standing("b", "ann") is None
