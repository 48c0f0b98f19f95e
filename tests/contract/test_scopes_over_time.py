"""Scopes over time: a scope is removed together with its last period, and queries do not change the
state."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

import laurels
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import assert_entries, assert_receipt, board_of, everything
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment, Implementation
from tests.contract.reading import members, scores
from tests.contract.scoped import ODD, anything
from tests.counts import some
from tests.definitions import Definition, Report, WindowDef
from tests.oracle import Oracle

DAY = 24 * HOUR


@pytest.mark.parametrize("window", ["day:keep=1", "2h=rolling:2h/1h", "hour:keep=2"])
def test_an_unused_scope_is_removed_with_its_last_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, window: str
) -> None:
    lb.create(laurels.Board("b", windows=[window], scopes=[["room"]], rank_by="room"))
    lb.submit_many("b", [("ann", 1, None, None, {"room": str(i)}) for i in range(30)])
    clock.advance(HOUR)
    lb.submit("b", "ann", 1, labels={"room": "new"})
    assert len(lb.scopes("b", "room")) == 31
    clock.advance(DAY if window.startswith("day") else HOUR)
    listed = lb.scopes("b", "room", limit=1)
    assert listed == ([] if window.startswith("day") else [{"room": "new"}])
    assert lb.count("b", labels={"room": "7"}) == 0
    clock.advance(10 * DAY)
    assert lb.scopes("b", "room") == []
    assert lb.count("b", by="room") == 0
    lb.check()


def test_a_rolling_window_rotates_in_every_scope(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["3h=rolling:3h/1h"], scopes=[[], ["room"]]))
    for hour in range(3):
        for room in ("1", "2"):
            lb.submit("b", f"m{hour}", 1, labels={"room": room})
        clock.advance(HOUR)
    assert members(lb.top("b", labels={"room": "2"})) == ["m1", "m2"]
    lb.submit("b", "m1", 5, labels={"room": "1"})
    clock.advance(HOUR)
    assert scores(lb.top("b", labels={"room": "1"})) == {"m1": 5, "m2": 1}
    assert scores(lb.top("b", labels={"room": "2"})) == {"m2": 1}
    assert scores(lb.top("b")) == {"m1": 5, "m2": 2}
    lb.check()


# The state is a function of the log


def fill(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    windows = ["all", "day", "3h=rolling:3h/1h", "hot=decay:1h"]
    scopes = [[], ["room"], ["room", "zone"]]
    lb.create(laurels.Board("b", windows=windows, scopes=scopes, rank_by="room", dedupe="7d"))
    for hour in range(5):
        batch = []
        for i in range(15):
            labels = {"room": ODD[i % len(ODD)]} | ({"zone": str(hour % 2)} if i % 3 else {})
            batch.append((f"m{i % 9}", i, None, f"{hour}/{i}", labels))
        lb.submit_many("b", batch)
        clock.advance(HOUR)
    lb.remove("b", "m3")


def test_a_rebuild_gives_the_same_answers(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    fill(lb, clock)
    before = everything(lb)
    assert len(before) > 100
    lb.check()
    lb.rebuild()
    assert everything(lb) == before


def test_scopes_are_the_same_after_a_restart(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    fill(lasting.lb, clock)
    before = everything(lasting.lb)
    assert everything(lasting.reopen()) == before
    again = lasting.lb.submit("b", "m0", 1, id="4/0", labels={"room": "elsewhere"})
    assert again.status == "duplicate"
    assert everything(lasting.lb) == before


def test_scopes_are_the_same_after_opening_from_a_snapshot(
    exclusive: Deployment, clock: laurels.ManualClock
) -> None:
    fill(exclusive.lb, clock)
    exclusive.lb.snapshot()
    exclusive.lb.submit("b", "m1", 1, labels={"room": "after", "zone": "n"})
    before = everything(exclusive.lb)
    lb = exclusive.reopen()
    assert everything(lb) == before
    lb.check()
    clock.advance(2 * HOUR)
    listed = lb.scopes("b", "room")
    assert everything(exclusive.reopen()) == everything(exclusive.lb)
    assert exclusive.lb.scopes("b", "room") == listed


def test_a_snapshot_has_scopes_that_are_stale(
    exclusive: Deployment, clock: laurels.ManualClock
) -> None:
    fill(exclusive.lb, clock)
    clock.advance(2 * HOUR)
    exclusive.lb.submit("b", "m1", 1, labels={"room": "after"})
    exclusive.lb.snapshot()
    clock.advance(HOUR)
    lb = exclusive.reopen()
    before = everything(lb)
    lb.check()
    lb.rebuild()
    assert everything(lb) == before


@pytest.mark.parametrize("op", ["best", "sum", "last"])
def test_queries_do_not_change_the_store(
    lasting: Deployment, clock: laurels.ManualClock, op: str, scaled: Scaled
) -> None:
    """Queries do not change a store. Two deployments get the same writes: one is read after every
    batch, and the other is never read, but closed and opened again. Some rooms have no events for
    many periods and steps."""
    rng = Random(op)
    decay = ["hot=decay:2h"] if op == "sum" else ["all"]
    windows = ["r=rolling:4h/1h,grace=3h", "hour:keep=2", "m=rolling:10m/1m", *decay]
    board = laurels.Board(
        "b",
        columns=[laurels.Column(op=anything(op))],
        windows=windows,
        scopes=[["room"], ["room", "zone"]],
        rank_by="zone",
        dedupe="3h",
    )
    with laurels.open("memory:", clock=clock) as queried:
        queried.create(board)
        lasting.lb.create(board)
        rooms = scaled(6, 12)
        for _ in range(scaled(12, 60)):
            clock.advance(rng.choice([0, 1, 20_000, MINUTE, 11 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR]))
            if rng.random() < 0.15:
                lasting.reopen()
            if lasting.exclusive and rng.random() < 0.15:
                lasting.lb.snapshot()
            if rng.random() < 0.1:
                member = f"m{rng.randrange(9)}"
                assert lasting.lb.remove("b", member) == queried.remove("b", member)
            events = [some_event(rng, clock.now_ms(), rooms) for _ in range(rng.choice([1, 2, 9]))]
            receipts = [
                replace(receipt, offset=0)
                for lb in (queried, lasting.lb)
                for receipt in lb.submit_many("b", events, ranks=True, scope=["zone", "room"])
            ]
            assert receipts[: len(events)] == receipts[len(events) :]
            for scope in queried.scopes("b", "room", limit=5):
                queried.card("b", "m1", labels=scope)
        assert everything(lasting.lb) == everything(queried)
        lasting.lb.check()
        clock.advance(7 * HOUR)
        assert everything(lasting.lb) == everything(queried)


def some_event(rng: Random, now_ms: int, rooms: int) -> tuple[object, ...]:
    """Return an event in one of many rooms; some events are late."""
    ago_ms = rng.choice([0, 0, MINUTE, 4 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR])
    labels = {"room": str(rng.randrange(rooms)), "zone": rng.choice([None, "n", "s"])}
    id = rng.choice([None, f"id{rng.randrange(50)}"])
    return f"m{rng.randrange(9)}", rng.randint(-3, 9), now_ms - ago_ms, id, labels


@pytest.mark.parametrize("seed", some(1, range(6)))
def test_replays_agree_with_the_oracle(
    implementation: Implementation, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    definition = Definition(
        "b",
        windows=(
            WindowDef("hour"),
            WindowDef("all"),
            WindowDef("rolling", name="r", span="3h", step="1h", grace="2h"),
        ),
        grace="10m",
        dedupe="2h",
        scopes=rng.choice([((), ("room",), ("room", "zone")), (("zone",), ("room",))]),
        rank_by=("zone",),
    )
    oracle = Oracle(None)
    oracle.create(definition)
    at_ms = NOW_MS
    with Deployment(implementation, tmp_path, "event") as deployment:
        lb = deployment.lb
        lb.create(board_of(definition))
        for _ in range(8):
            reports = []
            for _ in range(rng.randint(1, 8)):
                at_ms += rng.choice([0, 1, MINUTE, 20 * MINUTE, HOUR, 9 * HOUR])
                late_ms = rng.choice([0, 0, 0, 5 * MINUTE, HOUR, 30 * HOUR])
                labels = {name: rng.choice("12") for name in definition.labels}
                labels.pop(rng.choice(["room", "zone", "neither"]), None)
                id = rng.choice([None, "x", "y"])
                value = rng.randint(-2, 3)
                member = rng.choice("ab1")
                reports.append(Report(member, value, at_ms - late_ms, id, labels=labels or None))
            events = [(r.member, r.value, r.at, r.id, r.labels) for r in reports]
            how: dict[str, Any] = {
                "window": rng.choice(["hour", "all", "r"]),
                "scope": rng.choice(definition.scopes),
                "ranks": True,
            }
            verdicts = oracle.submit_many("b", reports, **how)
            for receipt, verdict in zip(lb.submit_many("b", events, **how), verdicts, strict=True):
                assert_receipt(receipt, verdict, how["window"], definition)
            for scope in oracle.board("b").known_scopes():
                for window in oracle.board("b").windows:
                    spans: list[str | None] = [span.label for span in oracle.periods("b", window)]
                    for label in spans or [None]:
                        places = oracle.places("b", window, label, scope)
                        entries = lb.export("b", window=window, period=label, **scope.arguments)
                        assert_entries(entries, places, definition)
            for names in definition.scopes:
                if names:
                    expected = [dict(scope.labels) for scope in oracle.scopes("b", names)]
                    assert lb.scopes("b", *names) == expected
        lb.check()


@pytest.mark.one_shard
def test_a_new_label_can_be_used_by_other_threads_at_once(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", scopes=[[], ["room"]]))

    def report(thread: int) -> int:
        teams = 0
        for i in range(50):
            labels = {"room": str(i % 5)}
            if len(lb.get("b").scopes) > 2:
                labels["team"] = str(thread)
                teams += 1
            lb.submit("b", f"m{thread}", 1, labels=labels)
        return teams

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(report, thread) for thread in range(4)]
        lb.change("b", scopes=[[], ["room"], ["team"]], rank_by=["room"])
        teams = [each.result() for each in running]
    assert scores(lb.top("b")) == {f"m{thread}": 50 for thread in range(4)}
    assert sum(anything(scores(lb.top("b", labels={"room": "3"}))).values()) == 40
    for thread, counted in enumerate(teams):
        expected = {f"m{thread}": counted} if counted else {}
        assert scores(lb.top("b", labels={"team": str(thread)})) == expected
    lb.check()
