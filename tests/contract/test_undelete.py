"""A board that was removed comes back with its sealed periods and its payouts."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.core.index import changes
from laurels.errors import BoardExists, BoardInvalid, NotRestorable, UnknownBoard
from laurels.model.board_times import instant_text
from tests.calendar_by_scanning import HOUR
from tests.changes import all_changes
from tests.contract.deployments import IMPLEMENTATIONS, STORES, Implementation

DAY = 24 * HOUR
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2], "amount": "5"}]}
SEASONS = {"type": "day", "prizes": PRIZES, "archive": "forever"}
WINDOWS: list[Any] = ["all", SEASONS, "week", "7d=rolling:7d/1d"]


SERVERS = [each for each in IMPLEMENTATIONS if each.name in ("redis", "cluster-shards")]


@pytest.fixture(params=[*STORES, *SERVERS], ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    return chosen


def listed(lb: laurels.Leaderboards, board: str = "b", **ranking: Any) -> list[str]:
    return [entry.member for entry in lb.top(board, **ranking)]


def play(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, board: str = "b", **fields: Any
) -> str:
    """Create a board, play a day, pay its prizes, and return the label of the day."""
    lb.create(laurels.Board(board, **{"windows": WINDOWS, "ledger": "main", **fields}))
    lb.submit_many(board, [("ann", 3), ("bob", 2), ("cid", 1)])
    return finish_day(lb, clock, board)


def finish_day(lb: laurels.Leaderboards, clock: laurels.ManualClock, board: str = "b") -> str:
    """Let the running day end, pay its prizes, and return its label."""
    day = lb.periods(board, "day")[0]
    assert day.label is not None
    clock.set(day.end_ms + HOUR)
    lb.seal()
    for payout in lb.payouts(board, state="due", limit=2_000):
        lb.confirm(board, payout.id, "paid")
    return day.label


def test_a_restored_board_reports_who_is_hidden_on_all_boards(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    play(lb, clock, changes="9d")
    hidden_ms = clock.now_ms()
    lb.delete("b")
    lb.hide(None, "ann", "a bot")
    clock.advance(HOUR)
    lb.undelete("b")
    [hide] = [each for each in all_changes(lb, "b", 100) if each.kind == "hide"]
    hiding = {"reason": "a bot", "since_ms": hidden_ms, "until_ms": None}
    assert (hide.member, hide.at_ms, hide.data) == ("ann", clock.now_ms(), hiding)


def test_the_archive_and_the_payouts_are_there_again(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    label = play(lb, clock)
    lb.hide("b", "mal", "a bot")
    lb.submit_many("b", [("dan", 9)], position=("stream", "7"))
    digest = lb.verify("b", window="day", period=label).digest
    definition, paid = lb.get("b"), [payout.id for payout in lb.payouts("b")]
    lb.delete("b")
    [removed] = lb.restorable_boards()
    assert (removed.name, removed.periods, removed.payouts) == ("b", 1, 2)
    assert lb.undelete("b") == definition
    assert lb.restorable_boards() == []
    assert listed(lb, window="day", period=label) == ["ann", "bob", "cid"]
    assert lb.verify("b", window="day", period=label).digest == digest
    assert [payout.id for payout in lb.payouts("b")] == paid
    assert [hidden.member for hidden in lb.hidden("b")] == ["mal"]
    assert lb.position("b", "stream") == "7"
    for window in ("all", "day", "week", "7d"):
        assert lb.top("b", window=window).total == 0
    lb.submit_many("b", [("eve", 1), ("mal", 2)])
    assert [listed(lb, window=window) for window in ("all", "day", "week", "7d")] == [["eve"]] * 4
    lb.check()
    lb.rebuild()
    assert listed(lb) == ["eve"]
    assert listed(lb, window="day", period=label) == ["ann", "bob", "cid"]


def test_windows_of_a_restored_board_are_not_refreshed_yet(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    play(lb, clock, windows=[*WINDOWS, "5h=rolling:5h/1h,refresh=1h"])
    lb.submit("b", "dan", 1)
    lb.delete("b")
    lb.undelete("b")
    clock.advance(2 * HOUR)
    [period] = lb.periods("b", "5h")
    assert (period.label, period.state) == (instant_text(clock.now_ms())[:14] + "00Z", "open")
    assert changes(lb.top("b", window="5h").as_of.offset) == 0
    lb.delete("b")
    lb.undelete("b")
    lb.submit("b", "eve", 1)
    assert listed(lb, window="5h") == ["eve"]
    lb.delete("b")
    lb.undelete("b")
    lb.submit("b", "fay", 1)
    assert listed(lb, window="5h") == ["fay"]
    lb.submit("b", "gil", 1)
    assert listed(lb, window="5h") == ["fay"]
    clock.advance(HOUR)
    lb.submit("b", "gil", 1)
    assert listed(lb, window="5h") == ["gil", "fay"]


def test_no_period_is_closed_or_paid_twice(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    first = play(lb, clock)
    lb.submit("b", "dan", 1)
    lb.delete("b")
    lb.undelete("b")
    lb.submit("b", "eve", 1)
    second = finish_day(lb, clock)
    assert listed(lb, window="day", period=first) == ["ann", "bob", "cid"]
    assert listed(lb, window="day", period=second) == ["eve"]
    won = [(payout.period, payout.member) for payout in lb.payouts("b")]
    assert won == [(first, "ann"), (first, "bob"), (second, "eve")]
    assert [each.period for each in lb.archived("b")] == [second, first]
    lb.submit("b", "dan", 9, at=clock.now_ms() - 2 * DAY)
    assert listed(lb, window="day", period=first) == ["ann", "bob", "cid"]
    assert [each.id for each in lb.due_payouts()] == [each.id for each in lb.payouts("b")]


def test_another_name(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    label = play(lb, clock)
    paid = [payout.id for payout in lb.payouts("b")]
    lb.delete("b")
    lb.create(laurels.Board("b"))
    lb.submit("b", "new", 1)
    with pytest.raises(BoardExists):
        lb.undelete("b")
    with pytest.raises(BoardInvalid):
        lb.undelete("b", name="no such name")
    assert lb.undelete("b", name="old").name == "old"
    assert listed(lb, "old", window="day", period=label) == ["ann", "bob", "cid"]
    assert [(each.id, each.board) for each in lb.payouts("old")] == [(id, "old") for id in paid]
    assert listed(lb) == ["new"]
    lb.rebuild()
    assert listed(lb, "old", window="day", period=label) == ["ann", "bob", "cid"]
    lb.delete("old")
    with pytest.raises(NotRestorable):
        lb.undelete("b", name="older")
    assert lb.undelete("old", name="older").name == "older"
    assert [each.board for each in lb.payouts("older")] == ["older", "older"]


def test_the_board_that_was_removed_last_is_restored(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    labels = []
    for _ in range(3):
        labels.append(play(lb, clock))
        lb.delete("b")
    uids = [each.uid for each in lb.restorable_boards()]
    assert len({*uids}) == 3
    with pytest.raises(NotRestorable, match="nope"):
        lb.undelete("b", uid="nope")
    lb.undelete("b")
    assert [each.period for each in lb.archived("b")] == [labels[2]]
    lb.undelete("b", uid=uids[0], name="first")
    assert [each.period for each in lb.archived("first")] == [labels[0]]
    assert [each.uid for each in lb.restorable_boards()] == [uids[1]]


def test_a_board_without_sealed_periods_is_gone(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", windows=WINDOWS, ledger="main"))
    lb.submit("b", "ann", 1)
    lb.delete("b")
    assert lb.restorable_boards() == []
    for name in ("b", "never"):
        with pytest.raises(NotRestorable) as refused:
            lb.undelete(name)
        assert isinstance(refused.value, UnknownBoard)


def test_a_board_that_its_retain_removed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, implementation: Implementation
) -> None:
    ends_ms = clock.now_ms() + 3 * DAY
    ends = instant_text(ends_ms)
    board = laurels.Board("b", windows=["all", SEASONS], ends=ends, retain="1d", ledger="main")
    lb.create(board)
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    label = finish_day(lb, clock)
    clock.set(ends_ms + 2 * DAY)
    [removed] = lb.restorable_boards()
    # an index server removes the board when its ledger was asked for payouts
    assert removed.removed_ms == (clock.now_ms() if implementation in SERVERS else ends_ms + DAY)
    assert [each.name for each in lb.boards()] == []
    restored = lb.undelete("b", name="other")
    assert (restored.retain, restored.ends) == ("", board.ends)
    assert listed(lb, "other", window="day", period=label) == ["ann", "bob"]
    lb.check()
    lb.rebuild()
    assert [each.name for each in lb.boards()] == ["other"]
    assert listed(lb, "other", window="day", period=label) == ["ann", "bob"]
    with pytest.raises(laurels.errors.LaurelsError, match="expected a time before"):
        lb.submit("other", "eve", 1)


def test_its_changes_go_on(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    play(lb, clock, changes="30d")
    lb.hide("b", "mal", "a bot")
    cursor = lb.changes("b", after="now").cursor
    lb.delete("b")
    end = lb.changes("b", after=cursor).cursor
    with pytest.raises(laurels.errors.BoardDeleted):
        lb.changes("b", after=end)
    lb.undelete("b", name="other")
    lb.submit("other", "eve", 1)
    kinds = [(change.kind, change.member) for change in all_changes(lb, "other", after=cursor)]
    restored = [("undelete", None), ("hide", "mal"), ("event", "eve")]
    assert kinds == [("delete", None), *restored]
    after_end = [(change.kind, change.member) for change in all_changes(lb, "other", after=end)]
    assert after_end == restored
    page = lb.changes("other", after=cursor, limit=1)
    assert [change.kind for change in page] == ["delete"]
    assert not page.is_end
    [undelete, *_] = lb.changes("other", after=end)
    assert undelete.data["name"] == "other"
    with pytest.raises(laurels.errors.BoardDeleted):
        lb.changes("b", after=end)


def test_a_member_who_was_erased_meanwhile(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=WINDOWS, ledger="main"))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("mal", 1)])
    lb.hide("b", "mal", "a bot")
    label = finish_day(lb, clock)
    lb.delete("b")
    for member in ("ann", "mal"):
        lb.erase(member, "asked for it")
    lb.undelete("b")
    assert lb.hidden("b") == []
    [first, second] = listed(lb, window="day", period=label)
    assert first.startswith("erased-")
    assert second == "bob"
    verified = lb.verify("b", window="day", period=label)
    assert verified.verified
    assert [payout.member for payout in lb.payouts("b")] == [first, "bob"]
    lb.rebuild()
    assert lb.hidden("b") == []
