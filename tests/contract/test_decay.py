"""Decay windows: scores lose half of their value with every half-life, and only events change the
order."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

import laurels
from laurels.errors import (
    AllEventsRefused,
    BoardInvalid,
    InvalidRange,
    TooManyPlaces,
    UnknownPeriod,
)
from tests.calendar_by_scanning import HOUR
from tests.comparison import everything
from tests.contract.conftest import NOW_MS
from tests.contract.deployments import Deployment
from tests.contract.reading import members, ranks, scores

DAY_MS = 24 * HOUR


def decayed(number: str) -> Decimal:
    """Return a decayed score of a column without decimal places."""
    return Decimal(number).quantize(Decimal("1e-6"))


def hot(**more: object) -> laurels.Board:
    fields: dict[str, object] = {"windows": ["hot=decay:6h", "all"]}
    return laurels.Board("b", **{**fields, **more})  # type: ignore[arg-type]


def test_a_score_halves_with_every_half_life(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot())
    assert lb.submit("b", "ann", 120).score == decayed("120")
    for score in ("60", "30", "15"):
        clock.advance(6 * HOUR)
        assert scores(lb.top("b")) == {"ann": decayed(score)}
    clock.advance(3 * HOUR)
    assert scores(lb.top("b")) == {"ann": decayed("10.606602")}
    assert scores(lb.top("b", window="all")) == {"ann": 120}
    clock.advance(100 * DAY_MS)
    assert scores(lb.top("b")) == {"ann": decayed("0")}


def test_an_event_is_added_to_the_decayed_score(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot())
    lb.submit("b", "ann", 120)
    clock.advance(6 * HOUR)
    receipt = lb.submit("b", "ann", 8)
    assert (receipt.previous_score, receipt.score) == (decayed("60"), decayed("68"))
    assert isinstance(receipt.score, Decimal)


def test_the_order_changes_only_with_an_event(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    random = Random(1)
    lb.create(hot(windows=["decay:1s", "decay:6h", "decay:30d"]))
    for i in range(60):
        lb.submit("b", f"m{i % 40}", random.randint(-9, 9), at=NOW_MS - random.randrange(DAY_MS))
    windows = ["decay:1s", "decay:6h", "decay:30d"]
    before = {window: members(lb.top("b", window=window, limit=99)) for window in windows}
    offset = lb.top("b").as_of.offset
    for step in (1, 499, 500, 1_000, HOUR, 6 * HOUR, DAY_MS, 30 * DAY_MS, 4_000 * DAY_MS):
        clock.advance(step)
        for window in windows:
            assert members(lb.top("b", window=window, limit=99)) == before[window]
    assert lb.top("b").as_of.offset == offset
    lb.submit("b", "m7", 1_000)
    assert members(lb.top("b", window="decay:6h"))[0] == "m7"


def test_a_late_event_weighs_less(lb: laurels.Leaderboards) -> None:
    lb.create(hot(grace="0ms"))
    receipt = lb.submit("b", "ann", 64, at=NOW_MS - DAY_MS)
    assert (receipt.status, receipt.refused_windows, receipt.score) == ("applied", (), decayed("4"))
    lb.submit("b", "bob", 64, at=NOW_MS - 10_000 * DAY_MS)
    assert scores(lb.top("b")) == {"ann": decayed("4"), "bob": decayed("0")}


def test_an_event_of_zero_is_unchanged_but_adds_a_new_member(lb: laurels.Leaderboards) -> None:
    lb.create(hot(tie="member"))
    lb.submit("b", "ann", 5)
    assert lb.submit("b", "ann", 0).status == "unchanged"
    assert lb.submit("b", "bob", 0).status == "applied"
    assert scores(lb.top("b")) == {"ann": decayed("5"), "bob": decayed("0")}


def test_equal_totals_share_a_rank_and_are_ordered_by_the_tie_rule(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot(rank="competition"))
    lb.submit("b", "bob", 2)
    clock.advance(6 * HOUR)
    lb.submit("b", "ann", 1)
    lb.submit("b", "zoe", "1")
    lb.submit("b", "eve", -1)
    assert members(lb.top("b")) == ["bob", "ann", "zoe", "eve"]
    assert ranks(lb.top("b")) == [1, 1, 1, 4]
    page = lb.standings("b", ["eve", "zoe", "ann"])
    assert [(entry.member, entry.place) for entry in page.entries] == [
        ("ann", 1),
        ("zoe", 1),
        ("eve", 3),
    ]


def test_less_is_better_in_an_ascending_column(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot(columns=[laurels.Column(order="asc", scale=1)]))
    lb.submit_many("b", [("ann", 4), ("bob", "0.5"), ("eve", -1)])
    clock.advance(6 * HOUR)
    page = lb.top("b")
    assert members(page) == ["eve", "bob", "ann"]
    assert scores(page)["bob"] == Decimal("0.2500000")
    standing = lb.standing("b", "ann", to_rank=1)
    assert standing is not None
    assert standing.above is not None
    assert standing.to_rank is not None
    assert (standing.above.gap, standing.to_rank.gap) == (Decimal("1.75"), Decimal("2.5"))
    assert members(lb.range("b", low="0.25", high=2)) == ["bob", "ann"]


def test_gaps_add_up(lb: laurels.Leaderboards, clock: laurels.ManualClock) -> None:
    lb.create(hot())
    lb.submit_many("b", [("ann", 70), ("bob", 50), ("cat", 33)])
    clock.advance(HOUR)
    standing = lb.standing("b", "bob", to_rank=1)
    assert standing is not None
    assert standing.above is not None
    assert standing.below is not None
    assert isinstance(standing.score, Decimal)
    assert standing.above.gap + standing.score == standing.above.score  # type: ignore[operator]
    assert standing.score - standing.below.gap == standing.below.score  # type: ignore[operator]
    assert standing.to_rank == laurels.Gap(1, standing.above.gap)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_decayed_score_can_be_an_exact_bound_of_a_range(
    lb: laurels.Leaderboards, clock: laurels.ManualClock, order: str
) -> None:
    random = Random(2)
    lb.create(hot(columns=[{"name": "score", "order": order}]))
    lb.submit_many(
        "b",
        [(f"m{i}", random.randint(-6, 6), NOW_MS - random.randrange(DAY_MS)) for i in range(40)],
    )
    clock.advance(5 * HOUR + 123)
    entries = lb.top("b", limit=99).entries
    for _ in range(30):
        low, high = sorted([random.choice(entries).score, random.choice(entries).score])
        inside = [e.member for e in entries if low <= e.score <= high]  # type: ignore[operator]
        assert members(lb.range("b", low=low, high=high, limit=99)) == inside
        assert lb.count("b", low=low, high=high) == len(inside)
    assert lb.count("b", low=-100, high="1e15") == 40
    with pytest.raises(InvalidRange):
        lb.count("b", low=2, high=1)
    with pytest.raises(TooManyPlaces):
        lb.count("b", low="0.0000001")


def test_as_of_has_the_time_of_decayed_scores(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot())
    lb.submit("b", "ann", 1)
    first = lb.top("b")
    assert lb.top("b").as_of == first.as_of
    assert first.as_of.now_ms == NOW_MS
    clock.advance(1)
    assert lb.top("b").as_of.now_ms == NOW_MS + 1
    assert lb.top("b", window="all").as_of.now_ms is None


def test_pages_continue_while_scores_decay(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot())
    lb.submit_many("b", [(f"m{i:02}", 100 - i) for i in range(20)])
    seen, after = [], None
    while True:
        page = lb.top("b", limit=3, after=after)
        seen += members(page)
        if (after := page.next) is None:
            break
        clock.advance(7 * HOUR)
    assert seen == [f"m{i:02}" for i in range(20)]


def test_set_adds_the_difference_in_the_window_all_to_the_decayed_score(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot())
    lb.submit("b", "ann", 100)
    clock.advance(6 * HOUR)
    assert lb.set("b", "ann", 110).score == decayed("60")
    assert scores(lb.top("b", window="all")) == {"ann": 110}


def test_decayed_scores_may_leave_the_range_of_the_column(
    lb: laurels.Leaderboards, clock: laurels.ManualClock
) -> None:
    lb.create(hot(columns=[laurels.Column(min=0, max=100)]))
    lb.submit("b", "ann", 100)
    clock.advance(6 * HOUR)
    assert lb.submit("b", "ann", -80).score == decayed("-30")
    with pytest.warns(AllEventsRefused):
        receipts = lb.submit_many("b", [("ann", 81)], window="hot")
    assert receipts[0].reason == "total_out_of_range"
    assert scores(lb.top("b")) == {"ann": decayed("-30")}


def test_a_decay_window_has_one_period(lb: laurels.Leaderboards) -> None:
    lb.create(hot())
    lb.submit("b", "ann", 1)
    [period] = lb.periods("b", "hot")
    assert (period.label, period.total, period.current) == ("", 1, True)
    with pytest.raises(UnknownPeriod):
        lb.top("b", period="2026-11")


def test_a_removed_member_starts_from_zero(lb: laurels.Leaderboards) -> None:
    lb.create(hot())
    lb.submit("b", "ann", 7)
    assert lb.remove("b", "ann")
    assert lb.top("b").total == 0
    assert lb.submit("b", "ann", 2).score == decayed("2")


@pytest.mark.one_shard
def test_a_refused_all_or_nothing_batch_changes_no_decayed_score(lb: laurels.Leaderboards) -> None:
    lb.create(hot(columns=[laurels.Column(max=10)]))
    lb.submit("b", "ann", 7)
    with pytest.raises(laurels.errors.BatchRefused):
        lb.submit_many("b", [("ann", 1), ("bob", 2), ("ann", 3)], all_or_nothing=True)
    assert scores(lb.top("b")) == {"ann": decayed("7")}


def test_a_replay_of_the_log_gives_the_same_bits(
    lasting: Deployment, clock: laurels.ManualClock
) -> None:
    random = Random(3)
    lb = lasting.lb
    lb.create(hot(windows=["hot=decay:6h", "decay:90s"], tie="member"))
    for _ in range(30):
        lb.submit_many(
            "b",
            [
                (f"m{random.randrange(9)}", random.randint(-99, 99), clock.now_ms() - late)
                for late in random.choices([0, 0, 1, 999, HOUR, DAY_MS], k=5)
            ],
        )
        lb.submit_many("b", [(f"m{random.randrange(9)}", 5)])
        clock.advance(random.randrange(2 * HOUR))
    before = everything(lb), lb.top("b", limit=2).next
    lb = lasting.reopen()
    assert (everything(lb), lb.top("b", limit=2).next) == before
    lb.check()
    lb.rebuild()
    assert (everything(lb), lb.top("b", limit=2).next) == before


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ([laurels.Column(op="best")], "take op sum"),
        ([laurels.Column(op="last")], "take op sum"),
        ([laurels.Column("a"), laurels.Column("b")], "expected 1 column for window .*, got 2"),
    ],
)
def test_a_decay_window_needs_exactly_one_sum_column(
    columns: list[laurels.Column], reason: str
) -> None:
    with pytest.raises(BoardInvalid, match=reason):
        hot(columns=columns)


def test_in_event_time_scores_decay_by_the_times_of_events() -> None:
    with laurels.open("memory:", clock="event") as lb:
        lb.create(hot())
        lb.submit("b", "ann", 64, at=NOW_MS)
        receipts = lb.submit_many(
            "b", [("bob", 1, NOW_MS + 6 * HOUR), ("ann", 0, NOW_MS + 12 * HOUR)]
        )
        assert [receipt.score for receipt in receipts] == [decayed("1"), decayed("16")]
        assert scores(lb.top("b")) == {"ann": decayed("16"), "bob": decayed("0.5")}
        assert lb.top("b").as_of.now_ms == NOW_MS + 12 * HOUR
