"""Boards on an index server whose `retain` is over stay until their payouts are confirmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import laurels
from laurels.errors import BoardExists, UnknownBoard
from laurels.errors.index_server import LedgerUnavailable
from laurels.errors.payouts import PayoutsOpen
from laurels.stores.redis.ledgers import Ledger
from tests.internals import remote

HOUR = 3_600_000
DAY = 24 * HOUR
NOW_MS = 1_795_188_600_000  # Friday, 20 November 2026, 15:30 UTC
ENDS = NOW_MS + 8 * DAY
GONE = ENDS + 2 * DAY
PRIZES: dict[str, Any] = {"list": [{"name": "gold", "ranks": [1, 2]}], "pay_after": "1h"}

Open = Callable[[], laurels.Leaderboards]


@pytest.fixture
def clock() -> laurels.ManualClock:
    return laurels.ManualClock(NOW_MS)


def board(**fields: Any) -> laurels.Board:
    month = {"name": "month", "type": "month", "prizes": PRIZES}
    more = {"ends": ENDS, "retain": "2d", "changes": "9d", "windows": ["all", month]}
    return laurels.Board("b", **{**more, "ledger": "main", **fields})


def names(lb: laurels.Leaderboards) -> list[str]:
    return [each.name for each in lb.boards()]


def waits(lb: laurels.Leaderboards) -> dict[str | None, tuple[str, ...]]:
    """Return the months that wait, and what they wait for."""
    return {each.label: each.waits_for for each in lb.periods("b", "month") if each.waits_for}


def unpaid(lb: laurels.Leaderboards) -> list[tuple[str, float]]:
    """Return the boards that wait for payouts, and for how many seconds, as the metrics have it."""
    figures = remote(lb).run(remote(lb).figures(None))
    return list(figures.unpaid)


def test_it_stays_until_the_last_payout_is_confirmed(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one, two = opened(), opened()
    one.create(board())
    one.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    cursor = one.changes("b").cursor
    clock.set(GONE)
    one.seal()
    clock.advance(2 * HOUR)
    for lb in (one, two, opened()):
        assert names(lb) == ["b"]
        assert [entry.member for entry in lb.top("b")] == ["ann", "bob", "cid"]
        assert waits(lb) == {"2026-11": ("payouts",)}
        assert unpaid(lb) == [("b", 2 * HOUR / 1_000)]
        with pytest.raises(BoardExists):
            lb.create(board())
        with pytest.raises(PayoutsOpen):
            lb.delete("b")
    first, last = two.payouts("b", state="due")
    two.confirm("b", first.id, "paid")
    one.seal()
    assert names(one) == ["b"]
    two.confirm("b", last.id, "paid")
    for lb in (two, one, opened()):
        assert names(lb) == []
        assert unpaid(lb) == []
        with pytest.raises(UnknownBoard):
            lb.top("b")
    assert {each.state for each in one.payouts("b")} == {"confirmed"}
    kinds = [change.kind for change in one.changes("b", after=cursor)]
    assert kinds[-3:] == ["confirm", "confirm", "delete"]
    one.create(laurels.Board("b"))
    assert two.top("b").total == 0


@pytest.mark.parametrize("from_end_ms", [-3 * DAY, DAY], ids=["before its end", "after its end"])
def test_a_board_whose_prizes_were_taken_from_its_definition_waits_as_well(
    opened: Open, clock: laurels.ManualClock, from_end_ms: int
) -> None:
    one, two = opened(), opened()
    one.create(board(windows=["all", {"name": "day", "type": "day", "prizes": PRIZES}]))
    one.submit_many("b", [("ann", 9), ("bob", 8), ("cid", 7)])
    clock.set(ENDS + from_end_ms)
    one.seal()
    one.change("b", windows=["all", {"name": "day", "type": "day", "archive": "forever"}])
    clock.set(GONE)
    one.seal()
    for lb in (one, two, opened()):
        assert names(lb) == ["b"]
        assert [entry.member for entry in lb.top("b")] == ["ann", "bob", "cid"]
    for payout in one.payouts("b", state="due"):
        assert names(two) == ["b"]
        one.confirm("b", payout.id, "paid")
    for lb in (one, two, opened()):
        assert names(lb) == []


def test_a_ledger_that_does_not_answer_delays_the_removal(
    opened: Open, clock: laurels.ManualClock
) -> None:
    one = opened()
    one.create(board())
    one.submit("b", "ann", 9)
    clock.set(ENDS + DAY)
    one.seal()
    clock.advance(2 * HOUR)
    [payout] = one.payouts("b", state="due")
    one.confirm("b", payout.id, "paid")
    assert names(one) == ["b"]
    clock.set(GONE)

    async def unavailable(_: Ledger, __: Any) -> Any:
        raise LedgerUnavailable("the test stops the ledger")

    with patch.object(Ledger, "read", unavailable):
        for lb in (one, opened()):
            lb.create(laurels.Board(f"other{id(lb)}"))
            assert "b" in names(lb)
            assert waits(lb) == {}
    two = opened()
    two.seal()
    assert "b" not in names(one)


def test_boards_without_winners_and_corrections(opened: Open, clock: laurels.ManualClock) -> None:
    one = opened()
    one.create(board())
    one.submit("b", "ann", 9)
    clock.set(GONE)
    one.seal()
    assert names(one) == ["b"]
    one.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    assert names(one) == []
    one.create(board(ends=clock.now_ms() + DAY, retain="1d"))
    clock.advance(3 * DAY)
    one.create(laurels.Board("b"))
    assert names(one) == ["b"]
    assert not one.get("b").retain


@pytest.mark.parametrize("fields", [{}, {"windows": ["all", "month=month:archive=forever"]}])
def test_a_board_whose_last_period_waits_for_a_source_is_removed_after_the_period_was_sealed(
    opened: Open, clock: laurels.ManualClock, fields: dict[str, Any]
) -> None:
    one = opened()
    one.create(board(**fields, close_wait="4d", changes=""))
    passed = f'{{"at":"1","passed_ms":{ENDS - 1}}}'
    one.submit_many("b", [("ann", 9)], position=("source/s", passed, None))
    clock.set(GONE)
    assert one.seal() == laurels.Sealed(0, 0)
    assert one.restorable_boards() == []
    clock.advance(3 * DAY)
    opened().seal()
    clock.advance(HOUR)
    for payout in () if fields else one.payouts("b"):
        one.confirm("b", payout.id, "paid")
    [removed] = one.restorable_boards()
    assert (removed.periods, removed.payouts) == (1, 0 if fields else 1)
    assert names(one) == []
