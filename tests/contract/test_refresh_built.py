"""Refreshes in a folder that are built in advance, in shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.core import refreshes
from laurels.core.index import changes
from laurels.errors import StorageFailed
from laurels.stores.local import store as service
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.contract.deployments import EMBEDDED, Deployment
from tests.contract.reading import scores
from tests.contract.refreshed import long
from tests.internals import local


@pytest.fixture
def embedded(tmp_path: Path, clock: laurels.ManualClock) -> Iterator[Deployment]:
    """Open boards in a folder, in this process."""
    with Deployment(EMBEDDED[1], tmp_path, clock) as deployment:
        yield deployment


@pytest.fixture
def in_shares() -> Iterator[None]:
    """Make the store compute every refresh in advance, a few cells at a time."""
    with (
        patch.object(refreshes, "UNBUILT_CELLS", 0),
        patch.object(service, "MIN_SHARE", 1),
    ):
        yield


def built(lb: laurels.Leaderboards, write: Callable[[int], object]) -> int:
    """Write until a due refresh has happened. Return the number of writes."""
    before = lb.top("b").as_of
    for i in range(3_000):
        if lb.top("b").as_of != before:
            return i
        write(i)
    raise AssertionError("the window was not refreshed")


@pytest.mark.usefixtures("in_shares")
def test_a_large_window_is_built_in_shares(
    embedded: Deployment, clock: laurels.ManualClock
) -> None:
    lb = embedded.lb
    lb.create(long(windows=["r=rolling:30d/1d,refresh=1h", "live=rolling:30d/1d"]))
    lb.submit_many("b", [(f"m{i}", i % 7) for i in range(500)])
    rng = Random(2)

    def write(i: int) -> None:
        lb.submit("b", f"m{rng.randrange(600)}", rng.randint(0, 5))
        if i % 20 == 0:
            lb.check()

    built(lb, write)
    for _ in range(3):
        clock.advance(HOUR)
        assert built(lb, write) > 20
        live = lb.top("b", window="live", limit=1_000)
        assert lb.top("b", limit=1_000).entries == live.entries


@pytest.mark.usefixtures("in_shares")
def test_the_end_of_a_step_restarts_a_build(
    embedded: Deployment, clock: laurels.ManualClock
) -> None:
    lb = embedded.lb
    lb.create(long(windows=["r=rolling:3h/1h,refresh=1h", "live=rolling:3h/1h"]))
    lb.submit_many("b", [(f"m{i}", i % 7) for i in range(200)])
    built(lb, lambda i: lb.submit("b", f"m{i}", 1))
    as_of = lb.top("b").as_of
    clock.advance(30 * MINUTE)
    for i in range(40):
        lb.submit("b", f"m{i}", 1)
    assert lb.top("b").as_of == as_of
    clock.advance(HOUR)
    assert built(lb, lambda i: lb.submit("b", f"n{i}", 1)) > 40
    assert lb.top("b", limit=900).entries == lb.top("b", window="live", limit=900).entries
    lb.check()


@pytest.mark.usefixtures("in_shares")
def test_a_build_survives_a_snapshot_and_a_restart(
    embedded: Deployment, clock: laurels.ManualClock
) -> None:
    lb = embedded.lb
    lb.create(long(windows=["r=rolling:30d/1d,refresh=1h", "live=rolling:30d/1d"]))
    lb.submit_many("b", [(f"m{i}", i % 7) for i in range(100)])
    built(lb, lambda i: lb.submit("b", f"m{i}", 1))
    clock.advance(HOUR)
    for i in range(15):
        lb.submit("b", f"m{i}", 3)
    before = everything(lb), lb.top("b").as_of
    lb.snapshot()
    lb.submit("b", "m1", 0)
    lb = embedded.reopen()
    assert lb.top("b").as_of == before[1]
    lb.check()
    built(lb, lambda i: lb.submit("b", f"m{i}", 1))
    assert lb.top("b", limit=900).entries == lb.top("b", window="live", limit=900).entries
    lb.snapshot()
    before = everything(lb), lb.top("b").as_of
    lb = embedded.reopen()
    assert (everything(lb), lb.top("b").as_of) == before
    lb.check()


@pytest.mark.usefixtures("in_shares")
def test_a_window_without_writes_is_refreshed_by_the_loop(
    embedded: Deployment, clock: laurels.ManualClock
) -> None:
    service = local(embedded.lb)
    embedded.lb.create(long())
    embedded.lb.submit_many("b", [(f"m{i}", i) for i in range(300)])
    assert service.pace(10)[1] == HOUR
    for _ in range(1_000):
        left, _ = service.pace(10)
        if not left:
            break
    assert embedded.lb.top("b").total == 300
    as_of = embedded.lb.top("b").as_of
    clock.advance(HOUR)
    for _ in range(1_000):
        if embedded.lb.top("b").as_of != as_of:
            break
        service.pace(10)
    assert embedded.lb.top("b").as_of.offset == changes(as_of.offset) + 1
    offset = embedded.lb.top("b", window="all").as_of.offset
    for _ in range(50):
        service.pace(10)
    assert embedded.lb.top("b", window="all").as_of.offset == offset


def test_a_refresh_that_cannot_be_written_stays_due(embedded: Deployment) -> None:
    lb = embedded.lb
    lb.create(long())
    log = local(lb)._log
    append = log.append

    def only_events(body: bytes) -> int:
        if b"refresh" in body:
            raise StorageFailed("the disk is full")
        return append(body)

    with patch.object(log, "append", only_events):
        assert lb.submit("b", "ann", 5).status == "applied"
    assert lb.top("b").entries == []
    lb.check()
    # the state after a crash between a commit and the refresh that follows it
    lb = embedded.reopen()
    assert lb.top("b").as_of.offset == 0
    lb.submit("b", "bob", 7)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5}


@pytest.mark.parametrize("shares", [False, True])
def test_all_scopes_are_refreshed_together(
    embedded: Deployment, clock: laurels.ManualClock, shares: bool
) -> None:
    lb = embedded.lb
    windows = ["r=rolling:5h/1h,refresh=1h", "live=rolling:5h/1h"]
    lb.create(long(windows=windows, scopes=[[], ["zone"]], rank_by=["zone"]))
    rng = Random(3)

    def write(_: int) -> None:
        event = laurels.Event(
            f"m{rng.randrange(30)}", rng.randint(0, 9), labels={"zone": f"z{rng.randrange(8)}"}
        )
        lb.submit_many("b", [event])

    zones: list[dict[str, Any]] = [{"labels": {"zone": f"z{i}"}} for i in range(8)]
    scopes: list[dict[str, Any]] = [{}, {"by": "zone"}, *zones]
    with patch.object(refreshes, "UNBUILT_CELLS", 0 if shares else refreshes.UNBUILT_CELLS):
        for _ in range(6):
            built(lb, write)
            for where in scopes:
                refreshed = lb.top("b", limit=100, **where)
                live = lb.top("b", limit=100, window="live", **where)
                assert refreshed.entries == live.entries
                assert refreshed.as_of.offset == lb.top("b").as_of.offset
            for i in range(50):
                write(i)
            lb.check()
            clock.advance(rng.choice([HOUR, HOUR, 3 * HOUR, 9 * HOUR]))
    before = everything(lb)
    lb.rebuild()
    assert everything(lb) == before
    lb.snapshot()
    lb = embedded.reopen()
    assert everything(lb) == before
    lb.check()


@pytest.mark.usefixtures("in_shares")
def test_a_build_of_an_ended_step_is_not_used(
    embedded: Deployment, clock: laurels.ManualClock
) -> None:
    lb = embedded.lb
    windows = ["r=rolling:2h/1h,refresh=1h", "live=rolling:2h/1h"]
    lb.create(long(windows=windows, scopes=[[], ["zone"]]))

    def write(i: int) -> None:
        event = laurels.Event(f"m{i}", i, labels={"zone": f"z{i % 8}"})
        lb.submit_many("b", [event])

    for _ in range(4):
        for i in range(40):
            write(i)
        clock.advance(HOUR)
        write(1)
        local(lb).work(100_000)
        clock.advance(HOUR)
        built(lb, write)
        for labels in ({}, *[{"zone": f"z{i}"} for i in range(8)]):
            refreshed = lb.top("b", limit=100, labels=labels)
            live = lb.top("b", limit=100, window="live", labels=labels)
            assert refreshed.entries == live.entries
