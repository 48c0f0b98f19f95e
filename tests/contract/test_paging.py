"""Cursors: a walk through the pages returns every member exactly once, even if other members move.
Only a member that itself moves past a cursor may be missing or repeated."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import laurels
from laurels.errors import InvalidCursor, InvalidOffset
from laurels.model.board_fields import Tie
from tests.contract.reading import members
from tests.counts import covering


def walk(lb: laurels.Leaderboards, limit: int, *, reverse: bool = False) -> list[str]:
    """Return all members, read page by page."""
    seen: list[str] = []
    page = lb.top("b", limit=limit, reverse=reverse)
    while True:
        seen += members(page)
        if page.next is None:
            return seen
        page = lb.top("b", limit=limit, after=page.next, reverse=reverse)


@pytest.mark.parametrize(("limit", "reverse"), covering([1, 2, 7, 30, 100], [False, True]))
def test_pages_join_to_the_whole_ranking(
    lb: laurels.Leaderboards, limit: int, reverse: bool
) -> None:
    lb.create(laurels.Board("b", rank="dense"))
    lb.submit_many("b", [(f"m{i}", i % 4) for i in range(30)])
    whole = members(lb.top("b", limit=100, reverse=reverse))
    assert walk(lb, limit, reverse=reverse) == whole


def test_the_last_page_has_no_cursor(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    assert lb.top("b").next is None
    lb.submit_many("b", [("ann", 2), ("bob", 1)])
    assert lb.top("b", limit=1).next is not None
    assert lb.top("b", limit=2).next is None
    assert lb.top("b", limit=3).next is None


@pytest.mark.parametrize(("tie", "reverse"), covering(["first", "last", "member"], [False, True]))
def test_members_that_do_not_move_are_returned_exactly_once(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, tie: Tie, reverse: bool
) -> None:
    rng = Random(7)
    lb.create(laurels.Board("b", tie=tie))
    still = [f"still{i}" for i in range(40)]
    moving = [f"moving{i}" for i in range(40)]
    lb.submit_many("b", [(member, rng.randint(0, 9)) for member in still + moving])
    seen: list[str] = []
    page = lb.top("b", limit=3, reverse=reverse)
    while page.next is not None:
        seen += members(page)
        clock.advance(1)
        lb.submit_many("b", [(rng.choice(moving), rng.randint(-3, 3)) for _ in range(5)])
        lb.submit_many("b", [(f"new{len(seen)}", rng.randint(0, 9))])
        if moving and rng.random() < 0.3:
            lb.remove("b", moving.pop())
        page = lb.top("b", limit=3, after=page.next, reverse=reverse)
    seen += members(page)
    assert sorted(member for member in seen if member in still) == sorted(still)


def test_a_cursor_outlives_the_member_it_was_made_at(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
    cursor = lb.top("b", limit=2).next
    lb.remove("b", "bob")
    assert members(lb.top("b", after=cursor)) == ["cid"]
    lb.submit("b", "dan", 2)
    assert members(lb.top("b", after=cursor)) == ["dan", "cid"]


def test_a_cursor_belongs_to_one_board_window_and_direction(lb: laurels.Leaderboards) -> None:
    windows = ["all", "day"]
    for board in ("b", "c"):
        lb.create(laurels.Board(board, windows=windows))
        lb.submit_many(board, [("ann", 3), ("bob", 2)])
    cursor = str(lb.top("b", limit=1).next)
    queries: list[Callable[[], object]] = [
        lambda: lb.top("c", after=cursor),
        lambda: lb.top("b", window="day", after=cursor),
        lambda: lb.top("b", reverse=True, after=cursor),
        lambda: lb.top("b", after=cursor[:-3]),
        lambda: lb.top("b", after=f"{cursor}é"),
        lambda: lb.top("b", after=""),
        lambda: lb.top("b", after="AAAA"),
    ]
    for query in queries:
        with pytest.raises(InvalidCursor):
            query()


def test_a_cursor_cannot_be_combined_with_an_offset(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b"))
    lb.submit_many("b", [("ann", 3), ("bob", 2)])
    with pytest.raises(InvalidOffset):
        lb.top("b", after=lb.top("b", limit=1).next, offset=1)


def test_a_cursor_is_never_used_on_another_period(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(laurels.Board("b", windows=["day"]))
    lb.submit_many("b", [("ann", 3), ("bob", 2), ("cid", 1)])
    cursor = lb.top("b", limit=1).next
    clock.advance(86_400_000)
    lb.submit_many("b", [("ann", 1), ("eve", 1)])
    assert members(lb.top("b", after=cursor, period="2026-11-20")) == ["bob", "cid"]
    with pytest.raises(InvalidCursor):
        lb.top("b", after=cursor, period="2026-11-21")


def test_a_range_is_paged_by_its_own_cursor(lb: laurels.Leaderboards) -> None:
    lb.create(laurels.Board("b", tie="member"))
    lb.submit_many("b", [(f"m{i:02}", i) for i in range(30)])
    seen: list[str] = []
    after = None
    while True:
        page = lb.range("b", low=5, high=17, limit=4, after=after)
        seen += [entry.member for entry in page.entries]
        lb.submit("b", "m29", 1)
        if (after := page.next) is None:
            break
    assert seen == [f"m{i:02}" for i in range(17, 4, -1)]
    top = lb.top("b", limit=2)
    assert [e.member for e in lb.range("b", low=5, high=17, limit=2, after=top.next).entries] == [
        "m17",
        "m16",
    ]
    around = lb.around("b", "m10", radius=2)
    assert around is not None
    assert around.next is None
