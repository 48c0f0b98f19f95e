"""`retain`: for this duration after its end, a board still exists. Then it is removed with all its
data."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import (
    BoardEnded,
    BoardInvalid,
    PeriodsUnsealed,
    UnknownBoard,
    UnsafeChange,
)
from laurels.stores.local.sealing_thread import SealingThread
from tests.calendar_by_scanning import HOUR, MINUTE
from tests.comparison import assert_entries, board_of
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import members, scores
from tests.definitions import Definition, Report, WindowDef
from tests.internals import local
from tests.oracle import Oracle

DAY = 24 * HOUR
ENDS = NOW_MS + HOUR
GONE = ENDS + DAY
WINDOWS = ["all", "hour:keep=3", "r=rolling:3h/1h", "f=rolling:3h/1h,refresh=10m", "decay:1h"]
SPRINT: dict[str, Any] = {
    "windows": WINDOWS,
    "ends": ENDS,
    "retain": "1d",
    "scopes": [[], ["room"]],
    "changes": "1h",
}


def names(lb: laurels.Leaderboards) -> list[str]:
    return [board.name for board in lb.boards()]


def submit(lb: laurels.Leaderboards) -> None:
    lb.submit("b", "ann", 8, id="1", labels={"room": "1"})
    lb.submit("b", "bob", 4, id="2", labels={"room": "2"})
    lb.set_data("b", "ann", {"name": "Ann"})


def test_a_board_is_removed_when_its_time_is_over(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **SPRINT))
    lb.create(laurels.Board("other"))
    submit(lb)
    lb.submit("other", "ann", 1)
    clock.set(GONE - 1)
    for window in ("all", "r", "decay:1h"):
        assert members(lb.top("b", window=window)) == ["ann", "bob"]
    with pytest.raises(BoardEnded):
        lb.submit("b", "ann", 1)
    lb.check()
    clock.set(GONE)
    for query in (
        lambda: lb.top("b"),
        lambda: lb.rank("b", "ann"),
        lambda: lb.standing("b", "ann"),
        lambda: lb.get("b"),
        lambda: lb.periods("b"),
        lambda: lb.changes("b"),
        lambda: lb.submit("b", "ann", 1),
        lambda: lb.set("b", "ann", 1),
        lambda: lb.remove("b", "ann"),
        lambda: lb.set_data("b", "ann", None),
        lambda: lb.change("b", retain="9d"),
        lambda: lb.delete("b"),
    ):
        with pytest.raises(UnknownBoard, match="there is no board"):
            query()
    assert names(lb) == ["other"]
    assert scores(lb.top("other")) == {"ann": 1}
    lb.check()


def test_a_removed_board_is_not_listed_before_anything_asks_for_it(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **SPRINT))
    submit(lb)
    clock.set(GONE)
    assert names(lb) == []
    assert lb.stats().boards == 0


def test_the_name_of_a_removed_board_is_free(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b", **SPRINT))
    submit(lb)
    clock.set(GONE)
    lb.create(laurels.Board("b", windows=["all", "r=rolling:3h/1h"]))
    assert members(lb.top("b")) == members(lb.top("b", window="r")) == []
    assert lb.submit("b", "cid", 1, id="1").status == "applied"
    for _ in range(2):
        assert scores(lb.top("b")) == scores(lb.top("b", window="r")) == {"cid": 1}
        lb.check()
        lb = lasting.reopen()


def test_a_board_is_removed_after_a_restart(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    lb = lasting.lb
    lb.create(laurels.Board("b", **SPRINT))
    submit(lb)
    clock.set(GONE - 1)
    lb = lasting.reopen()
    assert members(lb.top("b")) == ["ann", "bob"]
    clock.set(GONE)
    lb = lasting.reopen()
    assert names(lb) == []
    with pytest.raises(UnknownBoard):
        lb.top("b")
    lb.check()


def test_a_board_is_removed_between_snapshots(
    exclusive: Deployment, clock: laurels.ManualClock
) -> None:
    lb = exclusive.lb
    lb.create(laurels.Board("b", **SPRINT))
    submit(lb)
    lb.snapshot()
    clock.set(GONE)
    lb.create(laurels.Board("c"))
    lb.submit("c", "cid", 1)
    lb.snapshot()
    lb.create(laurels.Board("b"))
    lb.rebuild()
    for _ in range(2):
        assert names(lb) == ["b", "c"]
        assert members(lb.top("b")) == []
        assert scores(lb.top("c")) == {"cid": 1}
        lb.check()
        lb = exclusive.reopen()


def test_the_retention_of_a_board_can_change(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=WINDOWS, ends=ENDS))
    lb.submit("b", "ann", 8)
    assert lb.change("b", retain="1d").retain == "1d"
    clock.set(GONE - 1)
    lb.change("b", retain="2d")
    clock.set(GONE)
    assert members(lb.top("b", window="r")) == ["ann"]
    with pytest.raises(UnsafeChange, match="delete it instead"):
        lb.change("b", retain="1d")
    lb.change("b", title="kept", retain="")
    clock.set(GONE + 400 * DAY)
    assert members(lb.top("b")) == ["ann"]
    lb.change("b", retain="9636h")
    clock.set(ENDS + 9636 * HOUR - 1)
    assert members(lb.top("b")) == ["ann"]
    clock.set(ENDS + 9636 * HOUR)
    assert names(lb) == []


def test_postponing_the_end_postpones_the_removal(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", **SPRINT))
    submit(lb)
    clock.set(ENDS + HOUR)
    lb.change("b", ends=ENDS + 2 * HOUR)
    lb.submit("b", "cid", 1)
    clock.set(GONE)
    assert members(lb.top("b")) == ["ann", "bob", "cid"]
    clock.set(GONE + 2 * HOUR)
    assert names(lb) == []


@pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")
def test_removals_agree_with_the_oracle(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    oracle = Oracle(clock.now_ms)
    definitions = [
        Definition(
            name,
            windows=(WindowDef("all"), WindowDef("rolling", name="r", span="3h", step="1h")),
            grace="0s",
            ends=NOW_MS + ends,
            retain=retain,
        )
        for name, ends, retain in (
            ("a", HOUR, 0),
            ("b", HOUR, HOUR),
            ("c", MINUTE, 2 * HOUR),
            ("d", 3 * HOUR, MINUTE),
            ("e", HOUR, ""),
        )
    ]
    for definition in definitions:
        lb.create(board_of(definition))
        oracle.create(definition)
    ends = [NOW_MS + minutes * MINUTE for minutes in (1, 60, 120, 121, 180, 181)]
    for now_ms in [end + by for end in ends for by in (-1, 0, 1)]:
        clock.set(now_ms)
        oracle.drop_gone()
        assert names(lb) == sorted(oracle.boards)
        for definition in definitions:
            name = definition.name
            if name not in oracle.boards:
                with pytest.raises(UnknownBoard):
                    lb.top(name)
                continue
            lb.submit_many(name, [("ann", 1, None), ("bob", 2, NOW_MS)])
            oracle.submit_many(name, [Report("ann", 1, None), Report("bob", 2, NOW_MS)])
            for window in ("all", "r"):
                places = oracle.places(name, window, None)
                assert_entries(lb.export(name, window=window), places, definition)
    assert names(lb) == ["e"]
    lb.check()


def test_an_invalid_retain_is_refused() -> None:
    for wrong, reason in (
        ({"retain": "1d"}, "expected ends with retain"),
        ({"ends": ENDS, "retain": "4m"}, "at least the longest grace, 5m"),
        ({"ends": ENDS, "retain": "1h", "windows": ["day:grace=2h"]}, "the longest grace, 2h"),
        ({"ends": ENDS, "retain": "soon"}, "retain"),
    ):
        with pytest.raises(BoardInvalid, match=reason):
            laurels.Board("b", **wrong)
    board = laurels.Board("b", ends=ENDS, retain=5 * MINUTE)
    assert board.retain == "5m"
    assert laurels.Board.from_json(board.to_json()) == board


def test_a_board_that_would_be_removed_at_once_is_refused(lb: laurels.Leaderboards) -> None:
    with pytest.raises(BoardInvalid, match="removed at once"):
        lb.create(laurels.Board("b", ends=NOW_MS - DAY, retain="1d"))
    lb.create(laurels.Board("b", ends=NOW_MS - DAY, retain=DAY + 1))


@pytest.mark.filterwarnings("ignore::laurels.errors.AllEventsRefused")
def test_in_event_time_no_board_is_removed(lasting: Deployment) -> None:
    lasting.clock = "event"
    lb = lasting.reopen()
    lb.create(laurels.Board("b", ends=ENDS, retain="1d"))
    lb.submit("b", "ann", 1, at=NOW_MS)
    assert lb.submit_many("b", [("ann", 1, GONE + DAY)])[0].reason == "board_ended"
    lb.change("b", title="kept")
    for _ in range(2):
        assert scores(lb.top("b")) == {"ann": 1}
        lb.check()
        lb = lasting.reopen()


def test_a_board_whose_last_periods_wait_for_their_seal_is_not_listed(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    with (
        patch.object(SealingThread, "start"),
        laurels.open(tmp_path, clock=clock) as store,
    ):
        windows = ["day:archive=forever"]
        store.create(laurels.Board("b", windows=windows, ends=ENDS, retain="1d"))
        store.create(laurels.Board("other"))
        store.submit("b", "ann", 1)
        clock.set(GONE)
        # this closes the last period of the board, and does not seal it
        store.submit("other", "ann", 1)
        assert names(store) == ["other"]
        with pytest.raises(UnknownBoard):
            store.top("b")
        store.seal()
        assert names(store) == ["other"]


def test_a_board_whose_payouts_are_not_made_yet_stays(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1]}]}
    with (
        patch.object(SealingThread, "start"),
        laurels.open(tmp_path, clock=clock) as store,
    ):
        windows = [{"type": "day", "prizes": prizes}]
        store.create(laurels.Board("b", windows=windows, ends=ENDS, retain="1d"))
        store.submit("b", "ann", 1)
        clock.set(GONE + 2_500)
        for _ in range(2):
            assert names(store) == ["b"]
            assert members(store.top("b")) == ["ann"]
            figures = asyncio.run(local(store).figures(None))
            assert figures.unpaid == [("b", 2.5)]
            store.seal()
        [payout] = store.payouts("b")
        store.confirm("b", payout.id, "paid")
        assert names(store) == []
        assert asyncio.run(local(store).figures(None)).unpaid == []


def test_a_board_whose_payouts_cannot_be_read_stays(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    prizes = {"list": [{"name": "gold", "ranks": [1, 1]}]}
    folder = tmp_path / "boards"
    with laurels.open(folder, clock=clock) as store:
        windows = [{"type": "day", "prizes": prizes}]
        store.create(laurels.Board("b", windows=windows, ends=ENDS, retain="1d"))
        store.submit("b", "ann", 1)
        clock.set(ENDS + 6 * MINUTE)
        store.seal()
    (folder / "payouts.db").rename(tmp_path / "payouts.db")
    clock.set(GONE)
    with laurels.open(folder, clock=clock) as store:
        assert names(store) == ["b"]
        assert members(store.top("b")) == ["ann"]
    (tmp_path / "payouts.db").rename(folder / "payouts.db")
    with laurels.open(folder, clock=clock) as store:
        assert names(store) == ["b"]
        [payout] = store.payouts("b")
        store.confirm("b", payout.id, "paid")
        assert names(store) == []


def test_the_name_of_a_board_with_a_period_that_is_not_final_is_not_free(
    tmp_path: Path, clock: laurels.ManualClock
) -> None:
    with patch.object(SealingThread, "start"), laurels.open(tmp_path, clock=clock) as store:
        windows = ["day:archive=forever"]
        store.create(laurels.Board("b", windows=windows, grace="5m", ends=ENDS, retain="5m"))
        store.submit("b", "ann", 1)
        clock.set(ENDS + 5 * MINUTE)
        assert names(store) == []
        with pytest.raises(PeriodsUnsealed, match="the earlier board 'b'"):
            store.create(laurels.Board("b"))
        clock.advance(1)
        store.create(laurels.Board("b"))
        assert [each.periods for each in store.restorable_boards()] == [1]
