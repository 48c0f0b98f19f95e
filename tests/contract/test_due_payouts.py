"""The list of the due payouts of all boards: it only grows at its end, and readers keep their
positions in it."""

from __future__ import annotations

from typing import Any

import pytest

import laurels
from laurels.errors import InvalidCursor, InvalidLimit, PositionMoved
from laurels.errors.payouts import InvalidReader, PayoutsDiverged
from tests.calendar_by_scanning import HOUR
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import ARCHIVING, Implementation

DAY = 24 * HOUR
DECEMBER = NOW_MS + 12 * DAY
PRIZES: dict[str, Any] = {
    "list": [
        {"name": "gold", "ranks": [1, 1], "amount": "5.00", "scale": 2},
        {"name": "two", "ranks": [1, 2], "data": {"badge": 7}},
    ],
    "pay_after": "1h",
}


@pytest.fixture(params=ARCHIVING, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Return each store that awards prizes."""
    implementation: Implementation = request.param
    return implementation


def create(lb: laurels.Leaderboards, name: str, **fields: Any) -> None:
    month = {"name": "month", "type": "month", "prizes": PRIZES}
    lb.create(laurels.Board(name, ledger="main", tie="member", windows=["all", month], **fields))
    lb.submit_many(name, [("ann", 9), ("bob", 8), ("cid", 7)])


@pytest.fixture
def due(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> laurels.Leaderboards:
    """Return boards on which November is sealed and its payouts are due."""
    create(lb, "a", changes="30d")
    create(lb, "b")
    create(lb, "team.c")
    clock.set(DECEMBER)
    lb.seal()
    assert list(lb.due_payouts()) == []
    clock.set(DECEMBER + HOUR)
    lb.seal()  # this also emits the due payouts, which a service does by itself
    return lb


def every(lb: laurels.Leaderboards, limit: int = 2, **wanted: Any) -> list[laurels.Payout]:
    """Return all due payouts, read in small pages."""
    found: list[laurels.Payout] = []
    after: str | None = None
    while True:
        page = lb.due_payouts(after=after, limit=limit, **wanted)
        assert len(page) <= limit
        found += page
        assert page.next in (None, page.cursor)
        if (after := page.next) is None:
            return found


def brief(payouts: Any) -> list[tuple[str, str, str]]:
    return [(each.board, each.member, each.prize) for each in payouts]


def test_the_payouts_of_all_boards_are_one_list(due: laurels.Leaderboards) -> None:
    payouts = every(due)
    assert payouts == [p for b in ("a", "b", "team.c") for p in due.payouts(b)]
    assert len(payouts) == 9
    assert every(due, boards=["b", "team.*"]) == payouts[3:]
    assert every(due, 1, boards=["?"]) == payouts[:6]
    assert every(due, boards=["none"]) == []
    assert [(w.board, w.payouts, w.oldest_ms) for w in due.waiting_payouts()] == [
        (name, 3, DECEMBER + HOUR) for name in ("a", "b", "team.c")
    ]
    page = due.due_payouts(limit=4)
    waiting = due.waiting_payouts(after=page.cursor, boards=["a", "b"])
    assert [(w.board, w.payouts) for w in waiting] == [("b", 2)]


def test_a_reader_continues_where_it_stopped(
    due: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    end = due.due_payouts()
    assert (end.next, len(end)) == (None, 9)
    again = due.due_payouts(after=end.cursor)
    assert (list(again), again.next, again.cursor) == ([], None, end.cursor)
    due.disqualify("b", "ann", "a bot", window="month", period="2026-11")
    due.confirm("b", due.payouts("b", member="bob")[0].id, "bank-1")
    assert list(due.due_payouts(after=end.cursor)) == []
    clock.advance(HOUR)
    due.seal()
    later = due.due_payouts(after=end.cursor)
    assert [(p.member, p.prize, p.amount, p.withdrawn) for p in later] == [
        ("bob", "gold", 5, False),
        ("cid", "two", None, False),
        ("ann", "gold", -5, False),
        ("ann", "two", None, True),
    ]
    assert {p.corrects is None for p in later if p.member == "ann"} == {False}
    states = {p.id: p.state for p in every(due)}
    assert len(states) == 13
    assert list(states.values()).count("confirmed") == 1


def test_what_is_superseded_before_it_was_due_is_never_in_the_list(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    create(lb, "a")
    clock.set(DECEMBER)
    lb.seal()
    lb.disqualify("a", "ann", "a bot", window="month", period="2026-11")
    clock.advance(HOUR)
    lb.seal()
    assert brief(lb.due_payouts()) == [
        ("a", "bob", "two"),
        ("a", "bob", "gold"),
        ("a", "cid", "two"),
    ]


def test_boards_with_changes_record_payouts_when_they_are_due(due: laurels.Leaderboards) -> None:
    def recorded() -> list[Any]:
        return [each for each in due.changes("a") if each.kind == "payout"]

    changes = recorded()
    assert [each.data["id"] for each in changes] == [each.id for each in due.payouts("a")]
    assert {each.at_ms for each in changes} == {DECEMBER + HOUR}
    assert [each.member for each in changes] == ["ann", "ann", "bob"]
    assert len({each.id for each in changes}) == 3
    # the number of waiting changes does not include payouts
    assert due.changes("a", limit=3, after=None).waiting == 3


def test_each_reader_has_a_position(due: laurels.Leaderboards) -> None:
    page = due.due_payouts(limit=1)
    due.move_payout_position("sink:x", None, page.cursor)
    due.move_payout_position("sink:ü y/*", None, page.cursor)
    assert due.payout_positions() == {"sink:x": page.cursor, "sink:ü y/*": page.cursor}
    later = due.due_payouts(after=page.cursor, limit=3)
    for before in (None, later.cursor):
        with pytest.raises(PositionMoved):
            due.move_payout_position("sink:x", before, later.cursor)
    due.move_payout_position("sink:x", page.cursor, later.cursor)
    due.move_payout_position("sink:ü y/*", page.cursor, None)
    assert due.payout_positions() == {"sink:x": later.cursor}


def test_a_cursor_of_another_store_is_refused(due: laurels.Leaderboards) -> None:
    cursor = due.due_payouts(limit=1).cursor
    assert cursor is not None
    time, serial, _ = cursor.split("-")
    for other in (f"{time}-{serial}-1", f"{time}-999-1", f"5-{serial}-1"):
        with pytest.raises(PayoutsDiverged):
            due.due_payouts(after=other)
        with pytest.raises(PayoutsDiverged):
            due.waiting_payouts(after=other)


def test_malformed_arguments_are_refused(due: laurels.Leaderboards) -> None:
    malformed: list[Any] = ["", "x", "1-2", "1-2-zz", "1" * 99]
    for after in malformed:
        with pytest.raises(InvalidCursor):
            due.due_payouts(after=after)
    for limit in (0, 2_001):
        with pytest.raises(InvalidLimit):
            due.due_payouts(limit=limit)
    with pytest.raises(InvalidReader):
        due.move_payout_position("", None, None)
