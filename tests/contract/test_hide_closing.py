"""A closed period keeps hidden the members that were hidden when it became final."""

from __future__ import annotations

from unittest.mock import patch

import pytest

import laurels
from laurels.errors import MemberHidden
from laurels.stores.local import sealing_thread
from tests.conftest import Scaled
from tests.contract.deployments import ARCHIVING, Deployment, Implementation
from tests.contract.test_hide import HOUR_MS, listed


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    return chosen


@pytest.mark.parametrize("board", ["b", None])
def test_a_period_that_is_final_keeps_who_was_hidden(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, board: str | None
) -> None:
    lb.create(
        laurels.Board("b", windows=["all", "day:archive=forever"], grace="0ms", ledger="main")
    )
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
    lb.hide(board, "ann", "bot")
    clock.advance(24 * HOUR_MS)
    assert lb.show(board, "ann")
    lb.hide(board, "bob", "bot")
    past = {"window": "day", "period": "2026-11-20"}
    assert listed(lb) == [("ann", 1), ("cid", 2)]
    assert listed(lb, **past) == [("bob", 1), ("cid", 2)]
    lb.seal()
    assert listed(lb, **past) == [("bob", 1), ("cid", 2)]
    lb.check()


def test_final_periods_of_all_boards_keep_who_was_hidden(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, scaled: Scaled
) -> None:
    boards = [f"b{i}" for i in range(scaled(110, 230))]  # more boards than one share closes
    for board in boards:
        lb.create(
            laurels.Board(board, windows=["all", "day:archive=forever"], grace="0ms", ledger="main")
        )
        lb.submit_many(board, [("ann", 3), ("bob", 2)])
    lb.hide(None, "ann", "bot")
    clock.advance(24 * HOUR_MS)
    lb.show(None, "ann")
    past = {"window": "day", "period": "2026-11-20"}
    for board in boards[:: -scaled(4, 1)]:  # the last one, which another share closes, and others
        assert listed(lb, board) == [("ann", 1), ("bob", 2)]
        assert listed(lb, board, **past) == [("bob", 1)]


@pytest.mark.parametrize("board", ["b", None])
def test_an_end_that_has_passed_shows_nobody_in_an_earlier_final_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, board: str | None
) -> None:
    """The period is read before and after the end of the hiding, and both times without the
    member."""
    lb.create(
        laurels.Board("b", windows=["all", "day:archive=forever"], tie="member", ledger="main")
    )
    lb.submit_many("b", [("ann", 3), ("bad", 2), ("cid", 1)])
    day = lb.periods("b", "day")[0]
    lb.hide(board, "bad", "a bot", until=day.end_ms + 3_600_000)
    clock.set(day.end_ms + 1_800_000)
    expected = ["ann", "cid"]

    def listed() -> list[str]:
        return [entry.member for entry in lb.top("b", window="day", period=day.label)]

    assert listed() == expected
    clock.set(day.end_ms + 7_200_000)
    assert len(lb.top("b")) == 3
    assert listed() == expected
    lb.seal()
    assert listed() == expected


def test_a_new_board_reports_no_hiding_that_has_ended(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    """The end of the hiding is not recorded yet, since a final period of another board is not
    closed."""
    lb.create(laurels.Board("b", windows=["day:archive=forever"], grace="0ms", ledger="main"))
    lb.submit("b", "ann", 1)
    lb.hide(None, "mal", "a bot", until=clock.now_ms() + HOUR_MS)
    with patch.object(sealing_thread.SealingThread, "start"):
        clock.advance(24 * HOUR_MS)
        lb.create(laurels.Board("c", changes="1d"))
        assert [change.kind for change in lb.changes("c")] == ["create"]


def test_hiding_on_all_boards_after_a_boundary_loses_no_step(
    deployment: Deployment, clock: laurels.ManualClock
) -> None:
    """The seal moves the time of the board past the end of a step, before the step is rotated."""
    lb = deployment.lb
    windows = ["all", "day:archive=forever", "2d=rolling:2d/1d"]
    lb.create(laurels.Board("b", windows=windows, changes="30d", ledger="main"))
    lb.submit("b", "ann", 1)
    clock.advance(24 * HOUR_MS)
    lb.submit("b", "bob", 1)
    clock.set(lb.periods("b", "day")[0].end_ms + HOUR_MS)
    lb.seal()
    lb.hide(None, "mal", "a bot")
    lb.check()
    assert listed(lb, window="2d") == [("bob", 1)]
    lb.rebuild()
    assert listed(lb, window="2d") == [("bob", 1)]


def test_needed_on_a_board_that_has_ended_is_by_its_closed_standings(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    ends_ms = clock.now_ms() + HOUR_MS
    lb.create(
        laurels.Board(
            "b", windows=["all:archive=forever"], ends=ends_ms, tie="member", ledger="main"
        )
    )
    lb.submit_many("b", [("ann", 2), ("bob", 1), ("cid", 0), ("dan", -1)])
    lb.hide("b", "bob", "bot")
    clock.set(ends_ms + HOUR_MS)
    lb.show("b", "bob")
    lb.hide("b", "ann", "bot")
    lb.change("b", hide_zero=True)
    unreachable = laurels.Needed(2, "score", None, unreachable=True)
    for _ in range(2):
        assert listed(lb) == [("ann", 1), ("cid", 2), ("dan", 3)]
        assert lb.needed("b", "cid", 2) is None
        assert lb.needed("b", "ann", 1) is None
        assert lb.needed("b", "dan", 2) == unreachable
        for member, needed in (("cid", None), ("dan", unreachable)):
            standing = lb.standing("b", member, to_rank=2)
            assert standing is not None
            assert standing.needed == needed
        with pytest.raises(MemberHidden):
            lb.needed("b", "bob", 1)
        lb.seal()
