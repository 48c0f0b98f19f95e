"""Windows with a refresh: an event that was counted after the last refresh appears in the ranking
with the next one."""

from __future__ import annotations

import asyncio
from operator import ne
from pathlib import Path
from random import Random

import msgspec
import pytest

import laurels
from laurels.core.index import changes
from laurels.errors import PeriodExpired, PeriodFuture, TotalOutOfRange, UnsafeChange
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import everything
from tests.conftest import Scaled
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import IMPLEMENTATIONS, STORES, Deployment, Implementation
from tests.contract.reading import members, ranks, scores
from tests.contract.refreshed import long
from tests.counts import some

DAY = 24 * HOUR


WITHOUT_LOOP = [each for each in IMPLEMENTATIONS if each.refreshes]


@pytest.fixture(params=WITHOUT_LOOP, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each implementation that has no event loop, so that only writes cause a refresh."""
    chosen: Implementation = request.param
    return chosen


def ensure_only_refresh(page: laurels.Page, written: laurels.Receipt) -> None:
    """Assert that only a refresh has changed the board between the write and the page. The refresh
    adds one change in each shard that has members."""
    offset = page.as_of.offset
    shards = len(offset) if isinstance(offset, tuple) else 1
    assert 1 <= changes(offset) - changes(written.offset) <= shards


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


def test_the_first_write_after_a_restart_refreshes_what_others_have_counted(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    """The write is to one shard, and the window is due in the others, too."""
    deployment.lb.create(long())
    deployment.lb.submit("b", "ann", 1)
    late = {f"m{i}": i + 2 for i in range(20)}
    deployment.lb.submit_many("b", list(late.items()))
    assert scores(deployment.lb.top("b")) == {"ann": 1}
    clock.advance(30 * MINUTE)
    if deployment.lasting:
        deployment.reopen()
    deployment.lb.submit("b", "ann", 1)
    assert scores(deployment.lb.top("b", limit=50)) == {"ann": 2, **late}


def test_sealing_a_period_refreshes_the_windows_that_are_due(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["rolling:3h/1h,refresh=10m", "hour:archive=forever"]
    lb.create(laurels.Board("b", windows=windows, ledger="main", grace="1m"))
    lb.submit("b", "ann", 5)
    lb.submit("b", "bob", 7)
    assert scores(lb.top("b")) == {"ann": 5}
    clock.advance(10 * MINUTE)
    lb.seal()
    assert scores(lb.top("b")) == {"ann": 5}, "no period was sealed"
    clock.advance(HOUR)
    assert lb.seal().sealed == 1
    assert scores(lb.top("b")) == {"ann": 5, "bob": 7}


def test_an_erasure_refreshes_the_windows_that_are_due(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    windows = ["rolling:3h/1h,refresh=10m", "hour:archive=forever"]
    lb.create(laurels.Board("b", windows=windows, ledger="main", grace="1m"))
    lb.submit("b", "ann", 5)
    lb.submit("b", "bob", 7)
    clock.advance(10 * MINUTE)
    lb.erase("nobody", "asked for it")
    assert scores(lb.top("b")) == {"ann": 5, "bob": 7}
    lb.submit("b", "ann", 1)
    clock.advance(HOUR)
    lb.erase("bob", "asked for it")
    assert scores(lb.top("b")) == {"ann": 6}


def test_a_restored_board_refreshes_the_windows_that_are_due(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("old", windows=["hour:archive=forever"], ledger="main", grace="1m"))
    lb.submit("old", "ann", 1)
    clock.advance(2 * HOUR)
    lb.seal()
    lb.create(laurels.Board("b", windows=["rolling:3h/1h,refresh=10m"]))
    lb.submit("b", "ann", 5)
    lb.delete("old")
    lb.submit("b", "bob", 7)
    assert scores(lb.top("b")) == {"ann": 5}
    clock.advance(10 * MINUTE)
    lb.undelete("old")
    assert scores(lb.top("b")) == {"ann": 5, "bob": 7}


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


def offsets(page: laurels.Page) -> tuple[int, ...]:
    """Return the offset of an answer as a tuple with one offset for each shard of the board."""
    offset = page.as_of.offset
    return offset if isinstance(offset, tuple) else (offset,)


def test_an_event_loop_refreshes_without_writes(
    deployment: Deployment, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    async def scenario() -> None:
        async with deployment.opened_async() as lb:
            await lb.create(long())
            await lb.submit_many("b", [(f"m{i}", i) for i in range(9_000)])
            for _ in range(scaled(1, 2)):
                before = offsets(await lb.top("b"))
                clock.advance(HOUR)
                async with asyncio.timeout(60):
                    while not all(map(ne, offsets(page := await lb.top("b")), before)):
                        await asyncio.sleep(0.01)
                assert page.total == 9_000
            await lb.check()

    asyncio.run(scenario())


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
