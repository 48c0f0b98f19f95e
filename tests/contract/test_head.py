"""Boards with a head, on every store: lists end with the head, and the rank of every member is
within the bounds that the answer gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import laurels
from laurels.errors import InvalidCursor, InvalidRank
from tests.conftest import Scaled
from tests.contract.coarse import in_memory, over_http
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import IMPLEMENTATIONS, Deployment, Implementation
from tests.contract.heads import HEAD, Pair, assert_beyond, bounds, walk
from tests.definitions import ColumnDef, Definition, Report, Scope, WindowDef

DAY_MS = 86_400_000
COLUMNS = {
    "sum": (ColumnDef(),),
    "last": (ColumnDef(op="last", order="asc"),),
    "best": (ColumnDef(op="best"), ColumnDef("time", op="best", order="asc")),
    "two": (ColumnDef("level", op="last"), ColumnDef("xp", min=-1_000, max=1_000_000)),
}
SHAPES = [
    ("sum", "first", "ordinal"),
    ("sum", "member", "competition"),
    ("last", "last", "competition"),
    ("last", "member", "ordinal"),
    ("best", "first", "competition"),
    ("two", "last", "ordinal"),
]


STORES = (
    *IMPLEMENTATIONS,
    Implementation("estimating", in_memory(HEAD + 20), lasting=False, group="estimating"),
    Implementation("estimating-http", over_http(HEAD + 20), lasting=True, group="estimating"),
)
REFILLING = Implementation("refilling", in_memory(HEAD - 40), lasting=False, group="estimating")
"""A store in which, at times, not even all positions of the head are certain."""


@pytest.fixture(autouse=True)
def _few_members(monkeypatch: pytest.MonkeyPatch, scaled: Scaled) -> None:
    monkeypatch.setattr(Pair, "sampled", scaled(3, 8))


@pytest.fixture(params=STORES, ids=lambda implementation: implementation.name)
def deployment(
    request: pytest.FixtureRequest, tmp_path: Path, clock: laurels.ManualClock
) -> Iterator[Deployment]:
    with Deployment(request.param, tmp_path, clock) as deployment:
        yield deployment


any_time = pytest.mark.parametrize(
    "deployment",
    [*STORES, REFILLING],
    indirect=True,
    ids=lambda implementation: implementation.name,
)
"""Run a test on every store, including a store whose head is not yet filled."""


def events(
    rng: Random, columns: tuple[ColumnDef, ...], count: int, members: int, spread: int
) -> list[tuple[Any, ...]]:
    """Return random events of the last 50 milliseconds, with values up to `spread`."""
    return [
        (
            f"m{rng.randrange(members):04}",
            tuple(rng.randint(-spread // 4, spread) for _ in columns),
            NOW_MS - rng.randrange(50),
        )
        for _ in range(count)
    ]


@any_time
@pytest.mark.parametrize(("columns", "tie", "rank"), SHAPES)
def test_every_rank_is_within_its_bounds(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, columns: str, tie: str, rank: str
) -> None:
    rng = Random(columns + tie)
    shape = COLUMNS[columns]
    pair = Pair(lb, clock, Definition("b", shape, tie, rank=rank, head=HEAD))
    pair.submit(events(rng, shape, 60, 99, 50))
    pair.check(rng)
    pair.submit(events(rng, shape, 400, 300, rng.choice([3, 1_000])))
    pair.check(rng)
    for place in pair.places()[:8]:
        pair.remove(place.member)
    clock.advance(60)
    later = events(rng, shape, 90, 400, 500)
    pair.submit([(member, value, clock.now_ms()) for member, value, _ in later])
    pair.check(rng)


@any_time
def test_a_head_can_be_added_grown_shrunk_and_removed(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(3)
    pair = Pair(lb, clock, Definition("b"))
    pair.submit(events(rng, pair.definition.columns, 300, 260, 90))
    total = len(pair.places())
    assert lb.top("b", limit=total).certain is None
    for head in (150, 250, HEAD, 0, 120):
        pair.change(head)
        pair.submit(events(rng, pair.definition.columns, 20, 300, 90))
        if head:
            pair.check(rng)
        else:
            assert len(lb.top("b", limit=500)) == len(pair.places())


@any_time
def test_periods_have_heads_of_their_own(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(4)
    windows = (WindowDef("day", keep=2), WindowDef())
    pair = Pair(lb, clock, Definition("b", windows=windows, tie="member", head=HEAD))
    for members in (160, 90, 220):
        pair.submit(
            [
                (f"m{i:04}", rng.randint(0, 60), clock.now_ms())
                for i in rng.sample(range(300), members)
            ]
        )
        pair.check(rng, "day")
        pair.check(rng, "all")
        clock.advance(DAY_MS)
    periods = lb.periods("b", "day")
    assert [period.total for period in periods] == [0, 220]
    pair.check(rng, "day", periods[1].label)


def test_a_board_with_no_more_members_than_its_head_is_like_any_other(
    lb: laurels.Leaderboards,
) -> None:
    lb.create(laurels.Board("b", head=HEAD))
    lb.create(laurels.Board("plain"))
    for name in ("b", "plain"):
        lb.submit_many(name, [(f"m{i}", i, NOW_MS - i) for i in range(HEAD)])
    assert lb.top("b").entries == lb.top("plain").entries
    assert (
        lb.top("b", reverse=True, limit=3).entries == lb.top("plain", reverse=True, limit=3).entries
    )
    assert lb.top("b", offset=HEAD).entries == []
    assert lb.at_rank("b", HEAD + 1) is None
    assert lb.score_at_percentile("b", 1) == lb.score_at_percentile("plain", 1)
    assert lb.count("b", high=20) == lb.count("plain", high=20)
    assert len(list(lb.export("b"))) == HEAD
    standing = lb.standing("b", "m0")
    assert standing is not None
    assert (standing.rank, standing.to_rank, standing.needed) == (HEAD, None, None)
    assert lb.submit("b", "late", -1).rank == HEAD + 1
    assert_beyond(lambda: lb.top("b", reverse=True))
    assert lb.top("b").certain == HEAD
    assert lb.top("plain").certain is None


@pytest.fixture
def crowd(lb: laurels.Leaderboards) -> laurels.Leaderboards:
    """Return a board of 250 members with 0 to 249 points."""
    lb.create(laurels.Board("b", head=HEAD, tie="member"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(250)])
    return lb


def test_scores_within_the_head_are_listed_and_counted(crowd: laurels.Leaderboards) -> None:
    lb = crowd
    assert [entry.score for entry in lb.range("b", low=245)] == [249, 248, 247, 246, 245]
    assert lb.count("b", low=245) == 5
    assert lb.count("b", low=200, high=240) == 41
    assert lb.count("b", high=240) == 241  # all 10 members above m0240 are in the head
    assert lb.count("b", low=150) == HEAD
    assert_beyond(lambda: lb.count("b", low=149))
    assert_beyond(lambda: lb.count("b", low=10, high=20))
    assert_beyond(lambda: lb.count("b", high=20))
    page = lb.range("b", low=0, high=160, limit=50)
    assert [entry.score for entry in page] == list(range(160, 149, -1))
    assert (page.next, page.certain, page.total) == (None, HEAD, 250)
    assert_beyond(lambda: lb.range("b", high=20))
    assert_beyond(lambda: lb.range("b", low=0, high=160, offset=11))
    assert lb.range("b", low=245, offset=7).entries == []
    walked = walk(lambda after: lb.range("b", low=0, high=160, limit=4, after=after))
    assert [entry.score for entry in walked] == list(range(160, 149, -1))


def test_a_percentile_within_the_head_has_a_score(crowd: laurels.Leaderboards) -> None:
    assert crowd.score_at_percentile("b", 100) == 249
    assert crowd.score_at_percentile("b", 60.4) == 150
    assert_beyond(lambda: crowd.score_at_percentile("b", 60))


def test_a_page_after_an_entry_that_has_left_the_head_is_empty(
    crowd: laurels.Leaderboards,
) -> None:
    lb = crowd
    page = lb.top("b", limit=95)
    assert page.next is not None
    lb.submit_many("b", [(f"new{i}", 1_000 + i) for i in range(10)])
    rest = lb.top("b", after=page.next)
    assert (rest.entries, rest.next, rest.certain) == ([], None, HEAD)


def test_needed_is_the_value_that_enters_the_head(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    rng = Random(5)
    for i, (columns, tie, rank) in enumerate(SHAPES):
        shape = COLUMNS[columns]
        pair = Pair(lb, clock, Definition(f"b{i}", shape, tie, rank=rank, head=HEAD))
        pair.submit(events(rng, shape, 260, 200, 200))
        clock.advance(100)
        for place in rng.sample(pair.places()[HEAD:], 3):
            standing = lb.standing(pair.name, place.member)
            assert standing is not None
            assert standing.needed == lb.needed(pair.name, place.member)
            assert standing.needed == lb.needed(pair.name, place.member, HEAD)
            needed = standing.needed
            assert needed is not None
            assert needed.rank == HEAD
            if needed.value is not None:
                assert pair.oracle.attains(
                    pair.name, Report(place.member, needed.value), None, Scope(), HEAD
                )
                lb.submit(pair.name, place.member, needed.value)
                entered = lb.standing(pair.name, place.member)
                assert entered is not None
                assert (entered.exact, entered.needed, entered.to_rank) == (True, None, None)
                assert lb.needed(pair.name, place.member) is None
                lb.remove(pair.name, place.member)
                pair.oracle.remove(pair.name, place.member)
                pair.submit([(place.member, place.score, clock.now_ms())])


def test_needed_below_the_head_is_refused(
    crowd: laurels.Leaderboards,
) -> None:
    lb = crowd
    assert_beyond(lambda: lb.needed("b", "m000", HEAD + 1))
    assert_beyond(lambda: lb.needed("b", "nobody", 250))
    assert lb.needed("b", "m249", HEAD + 1) is None
    anything = lb.needed("b", "nobody", 251)
    assert anything is not None
    assert anything.value == 0
    assert lb.needed("b", "m000", 251) is None
    lb.create(laurels.Board("plain"))
    with pytest.raises(InvalidRank, match="no head"):
        lb.needed("plain", "nobody")


def test_receipts_have_ranks_within_their_bounds(crowd: laurels.Leaderboards) -> None:
    lb = crowd
    receipt = lb.submit("b", "m000", 100)
    low, high = bounds(receipt.previous_rank)
    assert low <= 250 <= high
    low, high = bounds(receipt.rank)
    assert low <= 150 <= high
    assert lb.submit("b", "m000", 1_000).rank == 1
    several = lb.submit_many("b", [("m001", 1), ("m002", 2_000)], ranks=True)
    low, high = bounds(several[0].rank)
    assert low <= 250 <= high
    assert several[1].rank == 1


def test_data_of_members_below_the_head_is_readable(crowd: laurels.Leaderboards) -> None:
    lb = crowd
    lb.set_data("b", "m003", {"name": "Ann"})
    standing = lb.standing("b", "m003", with_data=True)
    assert standing is not None
    assert standing.data == {"name": "Ann"}
    friends = lb.standings("b", ["m249", "m003"], with_data=True)
    assert [entry.data for entry in friends] == [None, {"name": "Ann"}]


def test_a_card_has_every_window(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(laurels.Board("b", windows=["all", "day"], head=HEAD, tie="member"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(150)])
    clock.advance(DAY_MS)
    lb.submit("b", "m000", 1)
    card = lb.card("b", "m000")
    below, first = card["all"], card["day"]
    assert below is not None
    assert first is not None
    assert below.rank_low <= 149 <= below.rank_high
    assert below.to_rank == laurels.Gap(HEAD, 49)
    assert below.needed == laurels.Needed(HEAD, "score", 49)
    assert (first.rank, first.exact, first.to_rank) == (1, True, None)


def test_boards_are_the_same_after_a_restart(deployment: Deployment) -> None:
    if not deployment.lasting:
        return
    lb = deployment.lb
    lb.create(laurels.Board("b", head=HEAD, tie="member"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(150)])
    before = lb.top("b", limit=200)
    lb = deployment.reopen()
    assert lb.get("b").head == HEAD
    after = lb.top("b", limit=200)
    assert (after.entries, after.certain) == (before.entries, HEAD)


def test_initial_changes_include_members_below_the_head(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", head=HEAD, changes="1h", tie="member"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(150)])
    members = set[str | None]()
    page = lb.changes("b", initial=True, limit=40)
    while not any(change.kind == "initial_end" for change in page.changes):
        members.update(change.member for change in page.changes)
        page = lb.changes("b", after=page.cursor, limit=40)
    members.update(change.member for change in page.changes if change.kind == "initial")
    assert members == {f"m{i:03}" for i in range(150)}


def test_adding_or_removing_a_head_invalidates_initial_cursors(deployment: Deployment) -> None:
    lb = deployment.lb
    lb.create(laurels.Board("b", changes="1h", tie="member"))
    lb.submit_many("b", [(f"m{i:03}", i) for i in range(150)])
    for head in (HEAD, 0):
        page = lb.changes("b", initial=True, limit=40)
        lb.change("b", head=head)
        with pytest.raises(InvalidCursor, match="head"):
            lb.changes("b", after=page.cursor, limit=40)
