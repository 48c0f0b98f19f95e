"""Scopes on an index server, tested through the verbs: every process gives the same answers."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import Any

import pytest

import laurels
from laurels import config
from laurels.stores.redis.index.index import RedisIndex
from laurels.stores.redis.remote import opened_as
from tests.conftest import Scaled
from tests.counts import covering, rare
from tests.internals import remote
from tests.redis.servers import Server, until
from tests.redis.side_by_side import some_labels

from .conftest import NOW

HOUR_MS = 3_600_000
SCOPES = [["room"], [], ["zone", "room"], ["zone"]]
WINDOWS = ["h=hour:keep=3", "3h=rolling:3h/1h", "all", "day"]
MEMBERS = [f"m{i}" for i in range(9)]


def anything(value: object) -> Any:
    """Return labels typed as Any, so that they may be passed as keyword arguments."""
    return value


def everything(lb: laurels.Leaderboards, rules: Any) -> list[Any]:
    """Return all rankings of every existing scope."""
    results: list[Any] = []
    top: Any = partial(lb.top, "b")
    for labels in rules.scopes:
        scopes = lb.scopes("b", *labels)
        results.append(scopes)
        for after in scopes[:2] if labels else ():
            results.append(lb.scopes("b", *labels, after=after, limit=2))
        for scope in [*scopes, dict.fromkeys(labels, "none")]:
            for window in rules.windows:
                page = top(window=window, labels=scope)
                results.append([(e.rank, e.member, e.score) for e in page.entries])
                results.append([(p.label, p.total) for p in lb.periods("b", window, labels=scope)])
    for label in rules.rank_by:
        for window in rules.windows:
            page = lb.top("b", window=window, by=label)
            results.append([(e.rank, e.member, e.score) for e in page.entries])
    return results


TOLD = ("member", "status", "score", "previous_score", "rank", "previous_rank", "refused_windows")


def fields_of(receipts: Any) -> list[Any]:
    return [tuple([getattr(receipt, field) for field in TOLD]) for receipt in receipts]


@pytest.mark.parametrize(
    ("seed", "layout", "shards"),
    [*covering(range(2), ["plain", "prefixed"], [1, 3]), *rare((2, "plain", 3))],
)
def test_a_server_agrees_with_one_process(
    server: Server,
    seed: int,
    layout: str,
    shards: int,
    monkeypatch: pytest.MonkeyPatch,
    scaled: Scaled,
) -> None:
    rng = Random(seed)
    monkeypatch.setattr(RedisIndex, "share", rng.choice([100, 5]))
    clock = laurels.ManualClock(NOW)
    prefix = f"{seed}{layout}{shards}:"
    board = laurels.Board(
        "b",
        windows=WINDOWS[:3],
        grace="90m",
        dedupe="3h",
        tie="member" if layout == "plain" else "first",
        scopes=SCOPES[:3],
        rank_by=["room"],
        shards=shards,
    )
    rules = board.rules()
    with ExitStack() as opened:
        url = f"{server.url}?prefix={prefix}"
        both = [opened.enter_context(laurels.open(each, clock=clock)) for each in ("memory:", url)]
        other = opened.enter_context(config.direct(url, clock))
        for lb in both:
            lb.create(board)
        for round_number in range(scaled(12, 25)):
            if round_number == 8:
                for lb in both:
                    lb.change("b", windows=WINDOWS, scopes=SCOPES)
            if round_number == 16:
                for lb in both:
                    lb.change("b", windows=["h=hour:keep=1", *WINDOWS[1:]])
            if round_number >= 8:
                rules = both[0].get("b").rules()
            clock.advance(
                rng.choice([0, 0, 1_000, HOUR_MS // 2, HOUR_MS, 2 * HOUR_MS, 5 * HOUR_MS])
            )
            events = [
                (
                    rng.choice(MEMBERS),
                    rng.randint(-3, 9),
                    clock.now_ms() - rng.choice([0, 0, HOUR_MS, 2 * HOUR_MS]),
                    rng.choice([None, f"id{rng.randrange(60)}"]),
                    some_labels(rng, rules),
                )
                for _ in range(rng.choice([1, 1, 20]))
            ]
            scope = list(rng.choice(rules.scopes))
            writers = [both[0], rng.choice([both[1], other])]
            receipts = [lb.submit_many("b", events, scope=scope, ranks=True) for lb in writers]
            assert fields_of(receipts[0]) == fields_of(receipts[1])
            if rng.random() < 0.2:
                member = rng.choice(MEMBERS)
                assert both[0].remove("b", member) == writers[1].remove("b", member)
            if rng.random() < 0.3:
                remote(other).work(rng.choice([1, 1_000]))
            if rng.random() < scaled(3, 5) / 10:
                looks = [everything(lb, rules) for lb in (both[0], rng.choice([both[1], other]))]
                assert looks[0] == looks[1]
        both[1].check()
        both[1].rebuild()
        other.check()
        assert everything(both[0], rules) == everything(other, rules)
        other.delete("b")
    kept = [key for key in server.call("KEYS", f"{prefix}*") if b":a:" not in key]
    assert [key for key in kept if b"{boards}" not in key] == []


PREFIX = "laurels:{1.0}:"


def crowd(lb: laurels.Leaderboards, clock: laurels.ManualClock, rooms: int) -> None:
    """Write events of members in this many rooms. In the next hour, write events in two thirds of
    these rooms."""
    for round_number in range(2):
        for first in range(0, rooms, 1_000):
            events = [
                (f"m{i % 700}", i % 9 + round_number, None, None, {"room": str(i)})
                for i in range(first, min(rooms, first + 1_000))
                if round_number == 0 or i % 3
            ]
            lb.submit_many("b", events)
        if round_number == 0:
            clock.advance(HOUR_MS)


def stale_scopes(server: Server, now_ms: int) -> int:
    """Return how many scopes have not been advanced to `now_ms`."""
    count: int = server.call("ZCOUNT", f"{PREFIX}o", "-inf", f"({now_ms}")
    return count


@pytest.fixture
def fresh() -> Iterator[Server]:
    with Server() as running:
        yield running


def a_board() -> laurels.Board:
    windows = ["hour:keep=2", "2h=rolling:2h/1h"]
    return laurels.Board("b", windows=windows, scopes=[[], ["room"]], rank_by="room")


def test_stats_include_the_memory_of_scopes(fresh: Server) -> None:
    """The reported memory is estimated from a sample of ten scopes. If there are fewer scopes, it
    is the memory that the server reports for all their rankings."""
    clock = laurels.ManualClock(NOW)
    with laurels.open(fresh.url, clock=clock) as lb:
        lb.create(a_board())
        assert (lb.stats("b").scopes, lb.stats("b").scopes_nbytes) == ({"room": 0}, 0)
        crowd(lb, clock, 9)
        results = lb.stats("b")
        names = [n for kind in "rk" for n in fresh.call("KEYS", f"{PREFIX}{kind}:*")]
        sizes = {name: fresh.call("MEMORY", "USAGE", name) for name in names}
        assert results.scopes == {"room": 9}
        assert results.nbytes == results.scopes_nbytes + sum(w.nbytes for w in results.windows)
        assert 0 < results.scopes_nbytes < sum(sizes.values()), sizes
        few = results.scopes_nbytes
        crowd(lb, clock, 90)
        assert 5 * few < lb.stats("b").scopes_nbytes < 15 * few


def test_scopes_of_periods_no_longer_kept_are_not_listed(fresh: Server) -> None:
    clock = laurels.ManualClock(NOW)
    with laurels.open(fresh.url, clock=clock) as lb:
        lb.create(laurels.Board("b", windows=["h=hour:keep=9"], scopes=[["room"]]))
        lb.submit("b", "ann", 1, labels={"room": "1"})
        clock.advance(HOUR_MS)
        lb.submit("b", "ann", 1, labels={"room": "2"})
        assert lb.scopes("b", "room") == [{"room": "1"}, {"room": "2"}]
        lb.change("b", windows=["h=hour:keep=1"])
        assert lb.scopes("b", "room") == [{"room": "2"}]
        assert fresh.call("KEYS", f"{PREFIX}r:*room=1*") == []


def test_a_sweep_survives_the_death_of_one_process(fresh: Server) -> None:
    """The second process finishes the work that the killed one has left, and no work is done
    twice."""
    clock, own = laurels.ManualClock(NOW), laurels.ManualClock(NOW)
    rooms = 300
    with laurels.open("memory:", clock=own) as memory, laurels.open(fresh.url, clock=clock) as lb:
        for each, its_clock in ((memory, own), (lb, clock)):
            each.create(a_board())
            crowd(each, its_clock, rooms)
            its_clock.advance(HOUR_MS)
        now_ms = clock.now_ms()
        assert stale_scopes(fresh, now_ms) == rooms + 1
        command = [sys.executable, "-m", "tests.redis.child", fresh.url, "0", "sweep", str(now_ms)]
        dying, living = (subprocess.Popen([*command, share]) for share in ("3", "5"))
        until(lambda: stale_scopes(fresh, now_ms) < rooms - 50, "they sweep")
        dying.send_signal(signal.SIGKILL)
        dying.wait()
        assert stale_scopes(fresh, now_ms) > 0
        assert living.wait(60) == 0
        assert stale_scopes(fresh, now_ms) == 0
        lb.check()
        assert everything(lb, a_board().rules()) == everything(memory, a_board().rules())
        for each_clock in (own, clock):
            each_clock.advance(3 * HOUR_MS)
        while remote(lb).work(1_000)[0]:
            pass
        assert lb.scopes("b", "room") == memory.scopes("b", "room") == []
        assert fresh.call("EXISTS", f"{PREFIX}o", f"{PREFIX}l:room") == 0
        fields = fresh.call("HKEYS", f"{PREFIX}m")
        assert [field for field in fields if b"room" in field] == []


def test_no_call_visits_all_scopes(fresh: Server) -> None:
    clock = laurels.ManualClock(NOW)
    with laurels.open(fresh.url, clock=clock) as lb:
        lb.create(a_board())
        crowd(lb, clock, 600)
        clock.advance(HOUR_MS)
        assert fresh.call("SCARD", f"{PREFIX}i") == 2, "only the rankings of all events are listed"
        service: Any = lb._store
        left, more = stale_scopes(fresh, clock.now_ms()), 1
        while more:
            more, _ = remote(lb).work(1)
            was, left = left, stale_scopes(fresh, clock.now_ms())
            assert was - left <= 60
        assert left == 0
        assert service.run(service._catalog.index.scope_count(opened(lb), "room")) == 400
        assert lb.remove("b", "m5")
        lb.delete("b")
        left_over = fresh.call("KEYS", f"{PREFIX}*")
        assert [key for key in left_over if b":a:" not in key] == []


def test_a_query_advances_only_its_own_stale_scope(fresh: Server) -> None:
    clock = laurels.ManualClock(NOW)
    with laurels.open(fresh.url, clock=clock) as lb:
        lb.create(a_board())
        crowd(lb, clock, 40)
        clock.advance(HOUR_MS)
        top = lb.top("b", window="2h", labels={"room": "4"}).entries
        assert [(entry.member, entry.score) for entry in top] == [("m4", 5)]
        assert stale_scopes(fresh, clock.now_ms()) == 41, "no other scope was advanced"
        receipt = lb.submit("b", "m7", 1, labels={"room": "7"}, window="2h", scope=["room"])
        assert (receipt.score, receipt.previous_score) == (9, 8)
        clock.advance(HOUR_MS)
        assert lb.scopes("b", "room") == [{"room": "7"}]


def opened(lb: laurels.Leaderboards) -> Any:
    return opened_as(remote(lb).named("b"))
