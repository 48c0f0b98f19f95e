"""Windows with a refresh: an event that was counted after the last refresh appears in the ranking
with the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from operator import ne
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

import laurels
from laurels.core import refreshes
from laurels.core.index import changes
from laurels.errors import PeriodExpired, PeriodFuture, StorageFailed, TotalOutOfRange, UnsafeChange
from laurels.stores.local import store as service
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import (
    EMBEDDED,
    IMPLEMENTATIONS,
    STORES,
    Deployment,
    Implementation,
)
from tests.contract.reading import members, ranks, scores
from tests.counts import some
from tests.internals import local

DAY = 24 * HOUR


WITHOUT_LOOP = [each for each in IMPLEMENTATIONS if each.refreshes]


@pytest.fixture(params=WITHOUT_LOOP, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each implementation that has no event loop, so that only writes cause a refresh."""
    chosen: Implementation = request.param
    return chosen


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


def ensure_only_refresh(page: laurels.Page, written: laurels.Receipt) -> None:
    """Assert that only the refresh has changed the board since the write. The refresh adds one
    change in each shard that has members."""
    offset = page.as_of.offset
    shards = len(offset) if isinstance(offset, tuple) else 1
    assert 1 <= changes(offset) - changes(written.offset) <= shards


def long(**more: object) -> laurels.Board:
    fields: dict[str, object] = {"windows": ["30d=rolling:30d/1d,refresh=1h", "all"]}
    return laurels.Board("b", **{**fields, **more})  # type: ignore[arg-type]


def test_the_first_event_is_shown_at_once_and_others_at_the_next_refresh(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long())
    empty = lb.top("b").as_of
    assert (changes(empty.offset), empty.window, empty.period) == (0, "30d", "2026-11-20")
    first = lb.submit("b", "ann", 5)
    assert (first.status, first.score, first.rank) == ("applied", None, None)
    assert scores(lb.top("b")) == {"ann": 5}
    ensure_only_refresh(lb.top("b"), first)
    refreshed = lb.top("b").as_of
    clock.advance(29 * MINUTE + 59_999)
    lb.submit("b", "bob", 7)
    second = lb.submit("b", "ann", 1)
    assert (second.previous_score, second.score) == (5, 5)
    assert (second.previous_rank, second.rank) == (1, 1)
    assert scores(lb.top("b")) == {"ann": 5}
    assert scores(lb.top("b", window="all")) == {"bob": 7, "ann": 6}
    assert lb.top("b").as_of == refreshed
    clock.advance(1)
    assert scores(lb.top("b")) == {"ann": 5}
    third = lb.submit("b", "eve", 6)
    assert (third.score, third.rank) == (None, None)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 6, "eve": 6}
    ensure_only_refresh(lb.top("b"), third)


def test_after_the_end_of_a_board_every_counted_event_is_shown(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["rolling:3h/1h,refresh=10m"], ends=NOW_MS + HOUR))
    lb.submit("b", "ann", 5)
    lb.submit("b", "bob", 7)
    assert scores(lb.top("b")) == {"ann": 5}
    clock.advance(HOUR + MINUTE)
    lb.submit("b", "cid", 1, at=NOW_MS + HOUR - 1)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5, "cid": 1}
    clock.advance(30 * HOUR)
    assert lb.submit_many("b", [("cid", 1)]).refused == 1
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5, "cid": 1}


def test_a_list_a_card_and_a_receipt_show_the_last_refresh(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long(rank="competition"))
    lb.submit("b", "zoe", 1)
    clock.advance(HOUR)
    lb.submit_many("b", [("ann", 5), ("bob", 5), ("eve", 2)])
    lb.submit_many("b", [("eve", 9), ("dan", 1)])
    page = lb.top("b")
    assert members(page) == ["ann", "bob", "eve", "zoe"]
    assert ranks(page) == [1, 1, 3, 4]
    card = lb.card("b", "eve")
    assert card["30d"] is not None
    assert card["all"] is not None
    assert (card["30d"].score, card["all"].score) == (2, 11)
    assert card["30d"].as_of == page.as_of
    assert changes(card["all"].as_of.offset) > changes(page.as_of.offset)
    assert lb.standing("b", "dan") is None
    assert lb.count("b", low=2) == 3
    assert members(lb.around("b", "bob")) == members(page)
    again = lb.submit("b", "eve", 1)
    assert (again.previous_score, again.score, again.rank) == (2, 2, 3)


def test_missed_refreshes_are_done_as_one_and_reads_write_nothing(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long())
    lb.submit("b", "ann", 5)
    lb.submit("b", "bob", 6)
    offset = lb.top("b", window="all").as_of.offset
    clock.advance(7 * HOUR)
    for _ in range(3):
        assert scores(lb.top("b")) == {"ann": 5}
        assert lb.top("b", window="all").as_of.offset == offset
    written = lb.submit("b", "bob", 1)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5}
    ensure_only_refresh(lb.top("b", window="all"), written)


def test_a_refreshed_window_shows_the_steps_of_its_last_refresh(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long(windows=["2d=rolling:2d/1d,refresh=1h", "all"]))
    lb.submit("b", "ann", 5)
    clock.advance(DAY)
    lb.submit("b", "bob", 7)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5}
    [period] = lb.periods("b")
    assert (period.label, period.total, period.current) == ("2026-11-21", 2, True)
    clock.advance(DAY)
    assert scores(lb.top("b")) == {"bob": 7, "ann": 5}
    ended = msgspec.structs.replace(period, final=True, state="final")
    assert (period.final, lb.periods("b")) == (False, [ended])
    assert lb.top("b", period="2026-11-21").total == 2
    with pytest.raises(PeriodFuture):
        lb.top("b", period="2026-11-22")
    receipt = lb.submit("b", "eve", 1)
    assert receipt.period == "2026-11-21"
    assert scores(lb.top("b")) == {"bob": 7, "eve": 1}
    assert lb.top("b").as_of.period == "2026-11-22"
    with pytest.raises(PeriodExpired):
        lb.top("b", period="2026-11-21")


def test_expired_scores_are_shown_until_the_next_refresh(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long(windows=["w=rolling:2h/1h,refresh=1h", "all"]))
    lb.create(laurels.Board("other"))
    lb.submit("b", "ann", 5)
    clock.advance(100 * HOUR)
    assert members(lb.top("b")) == ["ann"]
    lb.submit("other", "x", 1)
    assert members(lb.top("b")) == []
    empty = lb.top("b").as_of
    clock.advance(HOUR)
    lb.submit("other", "x", 1)
    assert lb.top("b").as_of == empty
    lb.submit("b", "bob", 1)
    assert members(lb.top("b")) == ["bob"]


def test_after_the_last_member_is_removed_no_refresh_is_due(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long())
    lb.create(laurels.Board("other"))
    lb.submit("b", "ann", 5)
    clock.advance(HOUR)
    assert lb.remove("b", "ann")
    empty = lb.top("b").as_of
    clock.advance(DAY)
    lb.submit("other", "x", 1)
    assert lb.top("b").as_of == empty
    lb.submit("b", "bob", 1)
    assert members(lb.top("b")) == ["bob"]
    assert lb.top("b").as_of.period != empty.period


def test_an_event_is_refused_if_the_total_of_its_step_leaves_its_range(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    most = (2**53 - 1) // 30
    lb.create(long(windows=["30d=rolling:30d/1d,refresh=1h"], tie="member"))
    assert lb.submit("b", "ann", most).status == "applied"
    with pytest.raises(TotalOutOfRange):
        lb.submit("b", "ann", 1)
    assert lb.submit("b", "ann", 0).status == "unchanged"
    clock.advance(DAY)
    assert lb.submit("b", "ann", 0).status == "applied"
    assert lb.submit("b", "ann", 1).status == "applied"
    clock.advance(HOUR)
    lb.submit("b", "bob", 1)
    assert scores(lb.top("b")) == {"ann": most + 1, "bob": 1}


def test_a_removed_member_leaves_a_refreshed_window_at_once(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long())
    lb.submit("b", "ann", 5)
    clock.advance(HOUR)
    lb.submit_many("b", [("bob", 7), ("eve", 1)])
    before = lb.top("b").as_of
    assert lb.remove("b", "bob")
    assert scores(lb.top("b")) == {"ann": 5, "eve": 1}
    assert lb.top("b").as_of != before
    lb.submit("b", "bob", 2)
    assert not members(lb.standings("b", ["bob"]))
    clock.advance(HOUR)
    lb.submit("b", "zoe", 0)
    assert scores(lb.top("b")) == {"ann": 5, "bob": 2, "eve": 1, "zoe": 0}


SUM = [laurels.Column("a")]
LAST = [laurels.Column("a", op="last", order="asc")]
BEST = [laurels.Column("a", op="best"), laurels.Column("b", op="best", order="asc")]
MIXED = [laurels.Column("a", op="last"), laurels.Column("b", order="asc")]


@pytest.mark.parametrize(
    ("columns", "tie"),
    some(
        4,
        [
            *((SUM, "first"), (LAST, "last"), (BEST, "member"), (MIXED, "last")),
            *((SUM, "last"), (LAST, "member"), (BEST, "first"), (MIXED, "member")),
            *((SUM, "member"), (LAST, "first"), (BEST, "last"), (MIXED, "first")),
        ],
    ),
)
def test_a_refresh_shows_what_an_ordinary_window_would(
    lb: laurels.Leaderboards,
    clock: laurels.ManualClock,
    columns: list[laurels.Column],
    tie: str,
    scaled: Scaled,
) -> None:
    rng = Random(len(tie) + len(columns))
    windows = ["r=rolling:5h/1h,refresh=30m", "live=rolling:5h/1h"]
    lb.create(
        long(windows=windows, columns=columns, tie=tie, rank="dense", grace="4h", dedupe="4h")
    )
    for _ in range(scaled(20, 40)):
        clock.advance(rng.choice([0, MINUTE, 20 * MINUTE, HOUR]))
        events = []
        for _ in range(rng.choice([1, 4, 20])):
            value = tuple(rng.randint(-2, 3) for _ in columns)
            ago_ms = rng.choice([0, 0, MINUTE, 3 * HOUR])
            events.append((f"m{rng.randrange(12)}", value, clock.now_ms() - ago_ms))
        plain = events if len(columns) > 1 else [(m, v[0], at) for m, v, at in events]
        before = lb.top("b", window="r").as_of
        lb.submit_many("b", plain)
        if lb.top("b", window="r").as_of != before:
            refreshed, live = (
                lb.top("b", window="r", limit=50),
                lb.top("b", window="live", limit=50),
            )
            assert refreshed.entries == live.entries
            assert refreshed.total == live.total


def test_a_cursor_is_valid_until_a_refresh_shows_another_step(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(long(windows=["2d=rolling:2d/1d,refresh=1h"]))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("eve", 1)])
    page = lb.top("b", limit=1)
    assert page.next is not None
    clock.advance(DAY)
    assert members(lb.top("b", limit=1, after=page.next)) == ["bob"]
    lb.submit("b", "zoe", 0)
    with pytest.raises(PeriodExpired):
        lb.top("b", limit=1, after=page.next)


def test_the_refresh_of_a_window_cannot_change(lb: laurels.Leaderboards) -> None:
    lb.create(long())
    for refresh in (",refresh=2h", ""):
        with pytest.raises(UnsafeChange, match="can change in nothing"):
            lb.change("b", windows=[f"30d=rolling:30d/1d{refresh}", "all"])
    lb.change("b", windows=["30d=rolling:30d/1d:refresh=1h", "all", "w=rolling:2h/1h,refresh=1s"])
    lb.submit("b", "ann", 1)
    assert members(lb.top("b", window="w")) == ["ann"]


def test_a_restart_a_check_and_a_rebuild_change_nothing(
    deployment: Deployment, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    lb = deployment.lb
    lb.create(long(windows=["30d=rolling:30d/1d,refresh=1h", "w=rolling:3h/1h,refresh=90m", "all"]))
    rng = Random(5)
    for _ in range(scaled(12, 60)):
        clock.advance(rng.choice([1, MINUTE, 20 * MINUTE, HOUR, 5 * HOUR]))
        lb.submit(f"{'b'}", f"m{rng.randrange(9)}", rng.randint(-3, 9))
        if rng.random() < 0.1:
            lb.remove("b", f"m{rng.randrange(9)}")
        before = everything(lb), [lb.top("b", window=w).as_of for w in ("30d", "w")]
        lb.check()
        lb.rebuild()
        if deployment.lasting:
            lb = deployment.reopen()
        assert (everything(lb), [lb.top("b", window=w).as_of for w in ("30d", "w")]) == before


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


def offsets(page: laurels.Page) -> tuple[int, ...]:
    """Return the offset of an answer as a tuple with one offset for each shard of the board."""
    offset = page.as_of.offset
    return offset if isinstance(offset, tuple) else (offset,)


def test_an_event_loop_refreshes_without_writes(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    async def scenario() -> None:
        async with deployment.opened_async() as lb:
            await lb.create(long())
            await lb.submit_many("b", [(f"m{i}", i) for i in range(9_000)])
            for _ in range(2):
                before = offsets(await lb.top("b"))
                clock.advance(HOUR)
                async with asyncio.timeout(60):
                    while not all(map(ne, offsets(page := await lb.top("b")), before)):
                        await asyncio.sleep(0.01)
                assert page.total == 9_000
            await lb.check()

    asyncio.run(scenario())


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


def test_http_answers_come_from_the_last_refresh(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    with Deployment(STORES[-1], tmp_path, clock) as deployment:
        lb = deployment.lb
        assert lb.create(long()).windows == ("30d=rolling:30d/1d,refresh=1h", "all")
        first = lb.submit("b", "ann", 5)
        lb.submit("b", "bob", 7)
        assert scores(lb.top("b")) == {"ann": 5}
        assert lb.top("b").as_of == laurels.AsOf(changes(first.offset) + 1, "30d", "2026-11-20")
        standing = lb.standing("b", "ann")
        assert standing is not None
        assert standing.as_of == lb.top("b").as_of
        clock.advance(HOUR)
        lb.submit("b", "eve", 6)
        assert scores(lb.top("b"))["bob"] == 7


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


def test_in_event_time_refreshes_are_due_by_the_times_of_events(tmp_path: Path) -> None:
    with laurels.open(str(tmp_path / "x"), clock="event") as lb:
        lb.create(long(windows=["r=rolling:5h/1h,refresh=1h", "all"]))
        lb.submit("b", "ann", 1, at=NOW_MS)
        lb.submit_many("b", [("bob", 2, NOW_MS + MINUTE), ("eve", 3, NOW_MS + 2 * MINUTE)])
        assert scores(lb.top("b")) == {"ann": 1}
        lb.submit_many("b", [("zoe", 4, NOW_MS + HOUR), ("dan", 5, NOW_MS + 9 * HOUR)])
        assert scores(lb.top("b")) == {"dan": 5}
        before = everything(lb)
        lb.rebuild()
        assert everything(lb) == before
